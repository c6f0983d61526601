"""The first process of a virtual host: started in namespaces of its own, ended with all that runs there."""

import json
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .errors import LabError
from .records import ProcessRecord

HOST = ("net", "uts", "ipc", "pid", "mount")
NETWORK_ONLY = ("net", "uts", "pid")
BOOT_LIMIT_S = 20.0

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class HostPlan:
    """What the first process makes of its fresh namespaces; read by init.py."""

    name: str
    ends_with_owner: bool
    """The host ends when the process that started it ends, however that happens."""
    folders: dict[str, str] = field(default_factory=dict)
    """stage: an empty folder to prepare mounts in; home and shared_home: what covers it; shm_size, tmp_size.
    Without any, the machine's folders stay as they are."""
    files: dict[str, str] = field(default_factory=dict)
    """A file of the machine -> the file that hides it on this host."""
    kept: Sequence[str] = ()
    """Folders of the machine that stay visible though they lie beneath one that is hidden."""


class FirstProcess:
    """The process that holds a host's namespaces: the host is up as long as it lives."""

    def __init__(self, folder: Path) -> None:
        """The first process whose record, console and mount stage are in `folder`, started or not."""
        self.folder = folder
        self._starter: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Its id as the machine sees it."""
        return self._record().pid

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._path.exists() and self._record().is_alive()

    def start(self, plan: HostPlan, namespaces: Sequence[str]) -> None:
        """Start it, and return when it has made the host."""
        console = self.folder / "console"
        plan_file = self.folder / "plan.json"
        plan_file.write_text(json.dumps(asdict(plan)))
        command = [
            "unshare",
            "--fork",
            "--kill-child",
            "--propagation=private",
            *(f"--{name}" for name in namespaces),
        ]
        command += [sys.executable, "-I", "-S", str(_HERE / "init.py"), str(plan_file)]
        with console.open("w") as log:
            self._starter = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if plan.ends_with_owner else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._starter.stdout is not None
        ready, _, _ = select.select([self._starter.stdout], [], [], BOOT_LIMIT_S)
        answer = self._starter.stdout.readline() if ready else ""
        if not answer.strip():
            self._starter.kill()
            raise LabError(f"{plan.name} did not come up; its console says:\n{console.read_text()}")
        ProcessRecord.of(int(answer)).save(self._path)

    def kill(self) -> None:
        """End it and every process of its host at once."""
        if self._path.exists():
            self._record().kill()
        if self._starter is not None:
            self._starter.wait()
            for stream in (self._starter.stdin, self._starter.stdout):
                if stream is not None:
                    stream.close()
            self._starter = None

    @property
    def _path(self) -> Path:
        return self.folder / "first-process.json"

    def _record(self) -> ProcessRecord:
        try:
            return ProcessRecord.load(self._path)
        except FileNotFoundError:
            raise LabError(f"{self.folder.name} has not been started") from None


def enter_command(pid: int, folder: Path, user: str, command: Sequence[str]) -> list[str]:
    """The command that runs `command` inside the namespaces of the first process `pid`."""
    return [sys.executable, "-I", "-S", str(_HERE / "enter.py"), str(pid), str(folder), user, *command]
