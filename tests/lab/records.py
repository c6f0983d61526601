"""Which process is ours: a process id that cannot be mistaken for a later process of the same number."""

import json
import os
import select
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import LabError


@dataclass(frozen=True)
class ProcessRecord:
    """A process of this machine, known by its id, its start and the machine's own start."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> "ProcessRecord":
        """The record of a process that is alive now."""
        return cls(pid, _start_ticks(pid), _boot_id())

    @classmethod
    def load(cls, path: Path) -> "ProcessRecord":
        """The record that `save` wrote."""
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        """Write beside, then rename: a reader never sees half a record."""
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(asdict(self)))
        beside.rename(path)

    def is_alive(self) -> bool:
        """Whether this very process, and not a later one of the same number, still runs."""
        try:
            return _boot_id() == self.boot_id and _start_ticks(self.pid) == self.start_ticks
        except FileNotFoundError:
            return False

    def kill(self, limit_s: float = 20.0) -> None:
        """End the process with SIGKILL and wait until it is gone; no harm if it is gone already."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # The handle is held before the start is compared, so the number cannot change hands in between.
            if not self.is_alive():
                return
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not select.select([handle], [], [], limit_s)[0]:
                raise LabError(f"process {self.pid} is still there {limit_s:g} s after SIGKILL")
        except ProcessLookupError:
            return
        finally:
            os.close(handle)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_ticks(pid: int) -> int:
    """Field 22 of the process's stat; its name, field 2, may itself hold blanks and parentheses."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    state, start = after_name[0], after_name[19]
    if state in "ZX":
        raise FileNotFoundError(f"process {pid} has ended")
    return int(start)
