"""The lab by hand: `python -m tests.lab up 4`, then `shell login`, `crash node2`, … and `down`."""

import argparse
import sys
from pathlib import Path

from . import gridengine, slurm, sshd
from .cluster import BY_HAND, Lab, clear
from .errors import LabError
from .requirements import why_missing, why_no_lab
from .services import Services


def up(arguments: argparse.Namespace) -> int:
    """Make the hosts, with every service whose programs are installed."""
    reason = why_no_lab()
    if reason:
        raise LabError(reason)
    lab = Lab.up(arguments.nodes, BY_HAND)
    services = Services(lab)
    for name, programs, start in (
        ("Slurm", slurm.PROGRAMS, services.slurm),
        ("sshd", sshd.PROGRAMS, services.sshd),
    ):
        missing = why_missing(programs)
        if missing:
            print(f"without {name}: {missing}")
        else:
            start()
    if arguments.gridengine:
        missing = why_missing(gridengine.PROGRAMS)
        if missing:
            raise LabError(f"{missing} gridengine")
        services.gridengine()
    return list_hosts(arguments)


def down(arguments: argparse.Namespace) -> int:
    """End everything."""
    clear(BY_HAND)
    return 0


def list_hosts(arguments: argparse.Namespace) -> int:
    """Print the hosts and what runs on them."""
    lab = Lab.find()
    print(f"shared folder: {lab.shared}")
    for host in lab.hosts.values():
        state = f"up, {len(host.processes())} processes" if host.is_up() else "down"
        print(f"{host.name:8} {host.address!s:12} {state}")
    return 0


def execute(arguments: argparse.Namespace) -> int:
    """Run a command on a host, in the current folder."""
    return Lab.find().host(arguments.host).attend(arguments.command, Path.cwd())


def shell(arguments: argparse.Namespace) -> int:
    """Open a shell on a host, in the shared folder."""
    return Lab.find().host(arguments.host).attend(["bash", "-i"])


def processes(arguments: argparse.Namespace) -> int:
    """Print the processes of a host: the machine's id, the host's own, the command."""
    for process in Lab.find().host(arguments.host).processes():
        command = " ".join(process.command) or f"[{process.name}]"
        print(f"{process.pid:8} {process.host_pid:8} {command}")
    return 0


def boot(arguments: argparse.Namespace) -> int:
    """Boot a host that is down, with its services."""
    lab = Lab.find()
    Services(lab).boot(lab.host(arguments.host))
    return 0


def befall(arguments: argparse.Namespace) -> int:
    """Let a fault befall a host, or mend it."""
    host = Lab.find().host(arguments.host)
    if arguments.action == "slow":
        host.slow(arguments.rate)
    else:
        {"crash": host.crash, "cut": host.cut, "mend": host.mend}[arguments.action]()
    return 0


def parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    root = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = root.add_subparsers(dest="action", required=True)

    def add(name: str, run: object, help_text: str, *, host: bool = True) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help_text, description=help_text)
        command.set_defaults(run=run)
        if host:
            command.add_argument("host", help="login, node1, node2, …")
        return command

    start = add("up", up, "make the hosts in place of any earlier ones", host=False)
    start.add_argument("nodes", type=int, nargs="?", default=3, help="how many compute nodes (default: 3)")
    start.add_argument("--gridengine", action="store_true", help="with Grid Engine (10 s more)")
    add("down", down, "end everything and leave nothing behind", host=False)
    add("list", list_hosts, "the hosts and their state", host=False)
    add("exec", execute, "run a command on a host: exec node1 -- COMMAND...").add_argument(
        "command", nargs="+", metavar="COMMAND"
    )
    add("shell", shell, "open a shell on a host")
    add("ps", processes, "the processes of a host")
    add("crash", befall, "cut a host's power")
    add("boot", boot, "boot a crashed host")
    add("cut", befall, "let all packets from and to a host vanish")
    add("slow", befall, "limit a host's link").add_argument("rate", help="such as 500kbit or 10mbit")
    add("mend", befall, "undo cut and slow")
    return root


def main() -> int:
    """Run one command; what goes wrong is said in one message."""
    arguments = parser().parse_args()
    try:
        code: int = arguments.run(arguments)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    # As a shell would: a command that a signal ended has 128 and the signal's number.
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
