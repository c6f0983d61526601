"""The lab: a switch and the hosts on it, brought up, found again and taken down."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .control_groups import remove_job_groups
from .errors import LabError
from .host import Host
from .layout import RESEARCHER, RESEARCHER_HOME, Layout
from .namespaces import FirstProcess
from .network import GATEWAY, SUBNET, Switch
from .records import ProcessRecord

LOGIN = "login"
BY_HAND = Path("/tmp/mlab")
"""The lab kept by hand; one that ends with its owner is beside it, with the owner's process id added."""
MAX_NODES = 64
RESEARCHER_ENTRY = f"{RESEARCHER}:x:1500:1500::{RESEARCHER_HOME}:/bin/bash\n"


class Lab:
    """The hosts `login` and `node1`, `node2`, … on one network, with one shared folder."""

    def __init__(self, layout: Layout, num_nodes: int) -> None:
        self._layout = layout
        self._switch = Switch(layout.switch)
        addresses = {LOGIN: GATEWAY} | {f"node{i}": SUBNET[10 + i] for i in range(1, num_nodes + 1)}
        self.hosts = {name: Host(name, address, layout, self._switch) for name, address in addresses.items()}

    @classmethod
    def up(cls, num_nodes: int, root: Path, owner: ProcessRecord | None = None) -> "Lab":
        """Make a lab in the folder `root`, in place of whatever an earlier one left there.

        With an owner the hosts end when that process (this one) ends, however that happens.
        """
        if not 1 <= num_nodes <= MAX_NODES:
            raise LabError(f"a lab has 1 to {MAX_NODES} nodes, not {num_nodes}")
        clear(root)
        layout = Layout(root)
        for folder in (root, layout.hosts, layout.shared, layout.home, layout.files):
            folder.mkdir(mode=0o755)
        if owner is not None:
            owner.save(layout.owner)
        lab = cls(layout, num_nodes)
        lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in lab.hosts.values())]
        (layout.files / "hosts").write_text("\n".join(lines) + "\n")
        (layout.files / "passwd").write_text(Path("/etc/passwd").read_text() + RESEARCHER_ENTRY)
        # No name server: an unknown name is unknown at once.
        (layout.files / "resolv.conf").write_text("")
        lab._switch.start(ends_with_owner=owner is not None)
        for host in lab.hosts.values():
            host.boot()
        return lab

    @classmethod
    def find(cls, root: Path = BY_HAND) -> "Lab":
        """The lab that another process made in `root`."""
        layout = Layout(root)
        if not layout.hosts.exists():
            raise LabError(f"there is no lab in {root}; make one with: python -m tests.lab up 3")
        return cls(layout, len(list(layout.hosts.glob("node*"))))

    @property
    def layout(self) -> Layout:
        """Where everything is."""
        return self._layout

    @property
    def shared(self) -> Path:
        """The shared file system."""
        return self._layout.shared

    @property
    def login(self) -> Host:
        """The host that people log in to; it runs no jobs."""
        return self.hosts[LOGIN]

    @property
    def nodes(self) -> list[Host]:
        """The compute hosts, in order."""
        return [host for host in self.hosts.values() if host.name != LOGIN]

    def host(self, name: str) -> Host:
        """The host of that name."""
        if name not in self.hosts:
            raise LabError(f"no host {name!r} in the lab; there are {', '.join(self.hosts)}")
        return self.hosts[name]

    def down(self) -> None:
        """End every process on every host, and leave nothing behind."""
        for host in self.hosts.values():
            host.end()
        self._switch.stop()
        clear(self._layout.root)


@contextmanager
def owned_lab(num_nodes: int) -> Iterator[Lab]:
    """A lab of this process alone: it ends with the block, or with the process however that dies."""
    clear_leftovers()
    root = Path(f"{BY_HAND}-{os.getpid()}")
    try:
        yield Lab.up(num_nodes, root, owner=ProcessRecord.of(os.getpid()))
    finally:
        clear(root)


def clear_leftovers() -> None:
    """Take away every lab whose owner is dead."""
    for root in BY_HAND.parent.glob(f"{BY_HAND.name}-*"):
        owner = Layout(root).owner
        if owner.exists() and not ProcessRecord.load(owner).is_alive():
            clear(root)


def clear(root: Path) -> None:
    """Take down what is left of the lab in `root`, whether it ended well or not."""
    if not root.exists():
        return
    if root.is_symlink() or root.stat().st_uid != os.getuid():
        raise LabError(f"{root} belongs to another user")
    layout = Layout(root)
    hosts = list(layout.hosts.glob("*"))
    for folder in (*hosts, layout.switch):
        FirstProcess(folder).kill()
    remove_job_groups(folder.name for folder in hosts)
    with suppress(FileNotFoundError):  # another session clears the same leftovers
        shutil.rmtree(root)
