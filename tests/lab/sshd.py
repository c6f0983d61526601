"""A real sshd on every host, with a key made for the lab; plain `ssh node2` works between hosts."""

import subprocess
from pathlib import Path

from .cluster import Lab
from .host import Host
from .waiting import wait_until

DAEMONS = ("sshd",)
PROGRAMS = ("ssh", "sshd", "ssh-keygen")

SERVER_CONFIGURATION = """\
ListenAddress {address}
HostKey {folder}/host-key
AuthorizedKeysFile {folder}/key.pub .ssh/authorized_keys
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
StrictModes no
# mpirun opens many sessions at once.
MaxStartups 100
Subsystem sftp internal-sftp
"""

CLIENT_CONFIGURATION = """\
Host login node* {subnet_pattern}
    User root
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known-hosts
    StrictHostKeyChecking yes
    BatchMode yes
    ConnectTimeout 10
"""


class Sshd:
    """The ssh servers of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._folder = lab.layout.service("ssh")

    @property
    def configuration(self) -> Path:
        """What `ssh -F` takes; the hosts have it as their system's own."""
        return self._folder / "client" / "lab.conf"

    def start(self) -> None:
        """Start a server on every host, and return when each answers."""
        self._folder.mkdir(mode=0o700)
        self.configuration.parent.mkdir()
        for name in ("key", "host-key"):
            command = [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                "lab",
                "-f",
                str(self._folder / name),
            ]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        names = ",".join(f"{host.name},{host.address}" for host in self._lab.hosts.values())
        (self._folder / "known-hosts").write_text(f"{names} {(self._folder / 'host-key.pub').read_text()}")
        pattern = f"{self._lab.login.address}".rpartition(".")[0] + ".*"
        self.configuration.write_text(CLIENT_CONFIGURATION.format(folder=self._folder, subnet_pattern=pattern))
        for host in self._lab.hosts.values():
            self.rejoin(host)

    def is_set_up(self) -> bool:
        """Whether this lab has ssh servers."""
        return self.configuration.exists()

    def rejoin(self, host: Host) -> None:
        """Start the server on a host, for the first time or after a boot."""
        configuration = self._folder / f"sshd-{host.name}.conf"
        configuration.write_text(SERVER_CONFIGURATION.format(address=host.address, folder=self._folder))
        host.run(["mount", "--bind", self.configuration.parent, "/etc/ssh/ssh_config.d"])
        host.run(["/usr/sbin/sshd", "-f", configuration, "-E", self._folder / f"sshd-{host.name}.log"])
        wait_until(host.path("/run/sshd.pid").exists, f"sshd on {host.name}")
