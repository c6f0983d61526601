"""A user without privileges, whose home is another one on each host, and who may log in to some by ssh."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .cluster import Lab
from .host import Host
from .layout import RESEARCHER, RESEARCHER_HOME
from .sshd import Sshd

OWNER = (1500, 1500)
CONFIGURATION = """\
Host {names}
    User {user}
    IdentityFile {home}/.ssh/id_ed25519
    IdentitiesOnly yes
    UserKnownHostsFile {home}/.ssh/known_hosts
    StrictHostKeyChecking yes
    BatchMode no
"""


class Researcher:
    """Types at one host, the laptop, and owns an account on others."""

    name = RESEARCHER
    home = RESEARCHER_HOME

    def __init__(self, lab: Lab, sshd: Sshd, laptop: Host, others: Iterable[Host]) -> None:
        self._lab = lab
        self._sshd = sshd
        self.laptop = laptop
        self.others = list(others)
        for host in (laptop, *self.others):
            self.settle(host)
        self._make_keys()
        for host in self.others:
            self.authorize(host)

    def settle(self, host: Host) -> None:
        """Give the user an empty home on a host."""
        home = host.path(self.home)
        shutil.rmtree(home, ignore_errors=True)
        (home / ".ssh").mkdir(parents=True)
        self.own(home)

    def authorize(self, host: Host) -> None:
        """Let the laptop's key in."""
        key = self.laptop.path(self.home / ".ssh" / "id_ed25519.pub").read_text()
        self.write(host, ".ssh/authorized_keys", key)

    def write(self, host: Host, name: str, text: str) -> Path:
        """Write a file below the user's home on a host; return it as the machine sees it."""
        path = host.path(self.home / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.own(host.path(self.home))
        return path

    def own(self, folder: Path) -> None:
        """Make a folder and all in it the user's."""
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, *OWNER)

    def type(
        self, *command: str | Path, check: bool = True, limit_s: float = 150
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the laptop, in the user's project."""
        return self.laptop.run(command, user=self.name, cwd=self.project, check=check, limit_s=limit_s)

    @property
    def project(self) -> Path:
        """The user's project, on the laptop alone."""
        return self.home / "project"

    def _make_keys(self) -> None:
        folder = self.home / ".ssh"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id_ed25519")]
        self.laptop.run(command, user=self.name, cwd=Path("/"))
        names = " ".join(f"{host.name} {host.address}" for host in self.others)
        known = (self._sshd.configuration.parent.parent / "known-hosts").read_text()
        self.write(self.laptop, ".ssh/known_hosts", known)
        self.write(self.laptop, ".ssh/config", CONFIGURATION.format(names=names, user=self.name, home=self.home))
        self.laptop.path(folder / "config").chmod(0o600)
