"""One virtual host: commands on it, its processes, and the faults that can befall it."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import IO

from .errors import CommandFailedError, LabError
from .layout import Layout, kept_folders, login_environment, root_home
from .namespaces import HOST, FirstProcess, HostPlan, enter_command
from .network import Switch

Output = IO[str] | int | None
SHARED_MEMORY_SIZE = "2g"
TEMPORARY_SIZE = "4g"


@dataclass(frozen=True)
class HostProcess:
    """A process on a host."""

    pid: int
    """Its id as the machine sees it: what `os.kill` takes from outside the lab."""
    host_pid: int
    """Its id as the host sees it."""
    name: str
    """What it runs, as `ps -o comm` shows it."""
    command: tuple[str, ...]
    """Its arguments; empty for a process that has ended and waits to be reaped."""


class Host:
    """A host of the lab, up or down."""

    def __init__(self, name: str, address: IPv4Address, layout: Layout, switch: Switch) -> None:
        self.name = name
        self.address = address
        self._layout = layout
        self._switch = switch
        self._folder = layout.hosts / name
        self._first = FirstProcess(self._folder)

    def __repr__(self) -> str:
        return f"Host({self.name}, {self.address})"

    def is_up(self) -> bool:
        """Whether the host runs; a cut link does not matter."""
        return self._first.is_alive()

    def boot(self) -> None:
        """Start the host with empty /tmp, /run and /dev/shm, and no service on it."""
        if self.is_up():
            raise LabError(f"{self.name} is up already")
        stage = self._folder / "stage"
        stage.mkdir(parents=True, exist_ok=True)
        plan = HostPlan(
            name=self.name,
            ends_with_owner=self._layout.owner.exists(),
            folders={
                "stage": str(stage),
                "home": str(root_home()),
                "shared_home": str(self._layout.home),
                "shm_size": SHARED_MEMORY_SIZE,
                "tmp_size": TEMPORARY_SIZE,
            },
            files={f"/etc/{path.name}": str(path) for path in self._layout.files.iterdir()},
            kept=kept_folders(self._layout),
        )
        self._first.start(plan, HOST)
        self._switch.plug(self.name, self._first.pid, self.address)

    def crash(self) -> None:
        """Lose power: the link is dead first, so that no peer hears a good-bye, then every process is."""
        if self.is_up():
            self._switch.cut(self.name)
        self.end()

    def end(self) -> None:
        """End every process on the host at once; its peers see their connections close."""
        self._first.kill()

    def cut(self) -> None:
        """Let all packets from and to the host vanish."""
        self._switch.cut(self.name)

    def slow(self, rate: str) -> None:
        """Limit the host's link to `rate` in each direction, such as `500kbit` or `10mbit`."""
        self._switch.slow(self.name, self._first.pid, rate)

    def mend(self) -> None:
        """Undo `cut` and `slow`."""
        self._switch.mend(self.name, self._first.pid)

    def popen(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str = "root",
        stdout: Output = None,
        stderr: Output = None,
    ) -> subprocess.Popen[str]:
        """Start a command on the host; signals and exit code of the result are the command's own.

        It starts in the shared folder with the environment of a fresh login and `env`. Standard output and
        error go where the caller's go.
        """
        return subprocess.Popen(
            self._entering(command, cwd, user),
            env=login_environment(user) | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    def run(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str = "root",
        check: bool = True,
        limit_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the host to its end; with `check` a failure raises CommandFailedError."""
        process = self.popen(command, env=env, cwd=cwd, user=user, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        words = [str(word) for word in command]
        try:
            stdout, stderr = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            stdout, stderr = process.communicate()
            outcome = f"not done after {limit_s:g} s"
            raise CommandFailedError(self.name, words, outcome, stdout, stderr) from None
        except BaseException:
            _kill_group(process)
            raise
        if check and process.returncode != 0:
            raise CommandFailedError(self.name, words, f"exit code {process.returncode}", stdout, stderr)
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def attend(self, command: Sequence[str | Path], cwd: Path | None = None) -> int:
        """Run a command in the caller's terminal, to be typed at, and return its exit code."""
        return subprocess.call(self._entering(command, cwd, "root"), env=login_environment("root"))

    def _entering(self, command: Sequence[str | Path], cwd: Path | None, user: str) -> list[str]:
        if not self.is_up():
            raise LabError(f"{self.name} is down")
        words = [str(word) for word in command]
        return enter_command(self._first.pid, cwd or self._layout.shared, user, words)

    def processes(self) -> list[HostProcess]:
        """All processes on the host but its first, whoever started them."""
        first = self._first.pid
        table = Path(f"/proc/{first}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == first:
                continue
            # It may end while we look, and the machine guards some processes of its own.
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if (entry / "ns/pid").readlink() == table:
                    found.append(_read_process(entry))
        return sorted(found, key=lambda process: process.host_pid)

    def path(self, path: str | Path) -> Path:
        """How the machine reaches a path as this host sees it, such as its /tmp."""
        return Path(f"/proc/{self._first.pid}/root") / Path(path).relative_to("/")


def _kill_group(process: subprocess.Popen[str]) -> None:
    """End a command and what it started, unless it has ended by itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_process(entry: Path) -> HostProcess:
    """The process of a folder in the machine's /proc."""
    status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
    arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return HostProcess(
        pid=int(entry.name),
        host_pid=int(status["NSpid"].split()[-1]),
        name=status["Name"].strip(),
        command=tuple(filter(None, arguments)),
    )
