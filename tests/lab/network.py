"""The lab's network: one switch in a network namespace of its own, and a link from it to each host.

No device is made in the machine's own network namespace, and nothing routes out of the lab.
"""

import subprocess
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from .errors import CommandFailedError
from .namespaces import NETWORK_ONLY, FirstProcess, HostPlan

SUBNET = IPv4Network("10.77.0.0/24")
GATEWAY = SUBNET[1]
_BRIDGE = "bridge"
_BURST_BYTES = 16_000
_QUEUE_BYTES = 500_000


class Switch:
    """The bridge that joins the hosts; `cut`, `mend` and `slow` act on the link of one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._holder = FirstProcess(folder)

    def start(self, ends_with_owner: bool) -> None:
        """Make the namespace and the bridge in it."""
        self.folder.mkdir(parents=True)
        self._holder.start(HostPlan("switch", ends_with_owner), NETWORK_ONLY)
        self._ip(f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up")

    def stop(self) -> None:
        """Take the bridge and all links away."""
        self._holder.kill()

    def plug(self, host: str, pid: int, address: IPv4Address) -> None:
        """Give the host whose first process is `pid` its network card."""
        self._unplug(host)
        self._ip(
            f"link add {_port(host)} type veth peer name eth0 netns {pid}",
            f"link set {_port(host)} master {_BRIDGE} up",
        )
        commands = [
            "link set lo up",
            f"link set eth0 address {_card(address)}",
            f"address add {address}/{SUBNET.prefixlen} broadcast + dev eth0",
            "link set eth0 up",
        ]
        if address != GATEWAY:
            # As on a real cluster; the gateway forwards nothing.
            commands.append(f"route add default via {GATEWAY}")
        _ip_in(pid, commands)

    def cut(self, host: str) -> None:
        """Let all packets from and to the host vanish; it keeps its carrier and notices nothing else."""
        self._ip(f"link set {_port(host)} nomaster")

    def mend(self, host: str, pid: int) -> None:
        """Undo `cut` and `slow`."""
        self._ip(f"link set {_port(host)} master {_BRIDGE} up")
        for namespace, device in ((self._holder.pid, _port(host)), (pid, "eth0")):
            if "tbf" in _run_in(namespace, ["tc", "qdisc", "show", "dev", device]):
                _run_in(namespace, ["tc", "qdisc", "delete", "dev", device, "root"])

    def slow(self, host: str, pid: int, rate: str) -> None:
        """Let through no more than `rate` (in tc's words: `500kbit`, `10mbit`) in each direction."""
        limits = ["tbf", "rate", rate, "burst", str(_BURST_BYTES), "limit", str(_QUEUE_BYTES)]
        for namespace, device in ((self._holder.pid, _port(host)), (pid, "eth0")):
            _run_in(namespace, ["tc", "qdisc", "replace", "dev", device, "root", *limits])

    def _unplug(self, host: str) -> None:
        """A crashed host's link goes with its namespace, but the kernel takes its time over it."""
        if _port(host) in _run_in(self._holder.pid, ["ip", "-brief", "link", "show"]):
            self._ip(f"link delete {_port(host)}")

    def _ip(self, *commands: str) -> None:
        _ip_in(self._holder.pid, commands)


def _port(host: str) -> str:
    return f"to-{host}"


def _card(address: IPv4Address) -> str:
    """The host's hardware address: the same after every boot, or its peers would look for it in vain."""
    return "02:00:" + address.packed.hex(":")


def _ip_in(pid: int, commands: Sequence[str]) -> None:
    _run_in(pid, ["ip", "-batch", "-"], stdin="\n".join(commands) + "\n")


def _run_in(pid: int, command: Sequence[str], stdin: str = "") -> str:
    """Run a command in the network namespace of `pid`, all else being the machine's."""
    entered = ["nsenter", "--target", str(pid), "--net", *command]
    result = subprocess.run(entered, input=stdin, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        outcome = f"exit code {result.returncode}, standard input:\n{stdin}"
        raise CommandFailedError("the lab's network", command, outcome, result.stdout, result.stderr)
    return result.stdout
