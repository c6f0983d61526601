"""Every path of a lab, and what of the machine stays visible on its hosts."""

import os
import pwd
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RESEARCHER = "researcher"
"""A user of the hosts without privileges, whose home is on each host's own disk: the hosts share nothing of it."""
RESEARCHER_HOME = Path("/tmp/home") / RESEARCHER
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Layout:
    """The folder of one lab: short, since sockets beneath it may have 107 bytes of path."""

    root: Path

    @property
    def owner(self) -> Path:
        """The record of the process that the lab ends with; absent in a lab kept by hand."""
        return self.root / "owner.json"

    @property
    def hosts(self) -> Path:
        """One folder per host."""
        return self.root / "hosts"

    @property
    def switch(self) -> Path:
        """The switch's folder."""
        return self.root / "switch"

    @property
    def shared(self) -> Path:
        """The shared file system: the folder that is the same on all hosts and on the machine."""
        return self.root / "shared"

    @property
    def home(self) -> Path:
        """The home folder of root on all hosts."""
        return self.root / "home"

    @property
    def files(self) -> Path:
        """Files that hide the machine's own on all hosts; the names are those in /etc."""
        return self.root / "etc"

    def service(self, name: str) -> Path:
        """Where a service on the hosts (Slurm, sshd) has its configuration and logs."""
        return self.root / name


def root_home() -> Path:
    """Root's home folder; on the hosts the lab's home is in its place."""
    return Path(pwd.getpwuid(0).pw_dir)


def kept_folders(layout: Layout) -> list[str]:
    """The folders that hosts must see even beneath a hidden one: the lab's, the code's and Python's."""
    interpreter = Path(sys.executable).resolve().parent.parent
    wanted = {layout.root, REPOSITORY, Path(sys.prefix), Path(sys.base_prefix), interpreter}
    wanted |= {Path(entry) for entry in sys.path if Path(entry).is_dir()}
    hidden = (Path("/tmp"), root_home())
    wanted = {path for path in wanted if any(path.is_relative_to(folder) and path != folder for folder in hidden)}
    return sorted(str(path) for path in wanted if not any(parent in wanted for parent in path.parents))


def login_environment(user: str) -> dict[str, str]:
    """The environment of a fresh login on a host, with the running Python's programs on PATH."""
    environment = {
        "HOME": str(RESEARCHER_HOME) if user == RESEARCHER else pwd.getpwnam(user).pw_dir,
        "LANG": "C.UTF-8",
        "LOGNAME": user,
        "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
        "SHELL": "/bin/bash",
        "TERM": os.environ.get("TERM", "dumb"),
        "USER": user,
    }
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return environment
