"""A run on hosts that are reached by ssh: a login node with its scheduler, or machines of one's own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from muster.errors import JobError
from muster.jobs.commands import UnansweredError
from muster.jobs.places.connection import Connection, UnreachableError
from muster.jobs.places.record import Elsewhere, HostRecord, RunElsewhere, last_line
from muster.runs.checkpoints import POINTERS
from muster.runs.folder import CODE, ELSEWHERE

CANCEL_SECONDS = 180.0
ALL_ELSE = (
    *("--archive", "--safe-links", "--partial"),
    *(f"--exclude=checkpoints/{name}" for name in POINTERS),
    *("--exclude=lock", "--exclude=job/part.json", "--exclude=.*.[0-9]*"),
    *("--exclude=launches/*/meeting/", "--exclude=launches/*/dashboard/"),
    f"--exclude=/{ELSEWHERE}",
)
"""rsync's options for a run's folder, without what belongs to processes there: locks, secrets, files in writing.

No link leads out of the folder, and the host cannot change where the run is looked for.
"""


class SshPlace:
    """The hosts of a run."""

    def __init__(self, record: Elsewhere) -> None:
        self._record = record

    def run(self, arguments: Sequence[str], *, may_ask: bool = False) -> str:
        """Run a command of muster's on the first host; see `Place`."""
        try:
            connection = self._open(self._record.host, may_ask=may_ask)
            return self._run(connection, self._record.first, arguments)
        except UnreachableError as error:
            raise UnansweredError(str(error).partition("\n")[0]) from None

    def attend(self, arguments: Sequence[str], *, host: str | None = None) -> int:
        """Run a command of muster's with this terminal; see `Place`."""
        name = host or self._record.host
        connection = self._open(name, may_ask=True)
        has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        return connection.attend(_line(self._record.hosts[name], arguments), has_terminal=has_terminal)

    def cancel(self, run: RunElsewhere, notice: Callable[[str], None]) -> bool:
        """Cancel on the first host, then on the others, so that none waits for a host that is gone."""
        first, *others = self._record.hosts

        def end(host: str) -> bool | JobError:
            try:
                connection = self._open(host, may_ask=host == first)
                arguments = ["cancel", run.folder_on(host), "--json"]
                answer = self._run(connection, self._record.hosts[host], arguments, seconds=CANCEL_SECONDS)
                return any(json.loads(last_line(answer)).values())
            except JobError as error:
                return error

        done = end(first)
        with ThreadPoolExecutor(max_workers=max(1, len(others))) as pool:
            for host, result in zip(others, pool.map(end, others), strict=True):
                if isinstance(result, UnreachableError):
                    notice(f"{host}: cannot be reached; its part ends by itself when the others are gone")
        if isinstance(done, JobError):
            raise done
        return done

    def fetch(self, run: RunElsewhere, target: Path, *, only: str | None = None) -> None:
        """Copy with rsync; what names a checkpoint is read first, and put in place when the checkpoint is here."""
        connection = self._open(self._record.host, may_ask=only is None)
        source = f"{self._record.host}:{run.folder}/"
        if only is not None:
            connection.rsync(*_only(only), source, f"{target}/")
            return
        with TemporaryDirectory() as scratch:
            pointers = ["--include=*/", *(f"--include=checkpoints/{name}" for name in POINTERS), "--exclude=*"]
            connection.rsync("--archive", "--safe-links", "--prune-empty-dirs", *pointers, source, f"{scratch}/")
            connection.rsync(*ALL_ELSE, source, f"{target}/")
            _place_pointers(Path(scratch), target)
        if run.member:
            code = f"{self._record.first.folder}/{CODE}"
            connection.rsync(*ALL_ELSE, f"{self._record.host}:{code}", f"{run.path}/")

    def early_state(self, run: RunElsewhere) -> tuple[str, str] | None:
        """Nothing: a run is submitted when muster there has it; see `Place`."""
        return None

    def converse(self, arguments: Sequence[str]) -> tuple[Connection, subprocess.Popen[str]]:
        """Start a command of muster's on the first host, with pipes; return the connection to that host, too."""
        connection = self._open(self._record.host, may_ask=True)
        return connection, connection.converse(_line(self._record.first, arguments))

    def _open(self, host: str, *, may_ask: bool) -> Connection:
        cluster = self._record.settings
        connection = Connection(host, cluster.setup, is_login=cluster.login_shell is not False)
        connection.open(may_ask=may_ask)
        return connection

    def _run(
        self, connection: Connection, host: HostRecord, arguments: Sequence[str], *, seconds: float = 60.0
    ) -> str:
        done = connection.run(f"exec {_line(host, arguments)}", seconds=seconds)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().removeprefix("error: ")
            raise JobError(f"{connection.host}: {said or f'exit code {done.returncode}'}")
        return done.stdout.decode(errors="replace")


def _only(folder: str) -> list[str]:
    """Return rsync's options for folders of one name; a file that has grown is written in place, as it is read."""
    skipped = ["--exclude=/code/", "--exclude=checkpoints/"]
    return [
        *("--archive", "--inplace", "--prune-empty-dirs", "--safe-links"),
        *skipped,
        *("--include=*/", f"--include={folder}/**", "--exclude=*"),
    ]


def _line(host: HostRecord, arguments: Sequence[str]) -> str:
    return shlex.join([host.python, "-P", "-m", "muster", *arguments])


def _place_pointers(found: Path, target: Path) -> None:
    """Put in place what names a checkpoint that is here."""
    for pointer in found.rglob("*"):
        placed = target / pointer.relative_to(found)
        if pointer.is_symlink() and (placed.parent / pointer.readlink().name).exists():
            beside = placed.with_name(f".{placed.name}.{os.getpid()}")
            beside.unlink(missing_ok=True)
            beside.symlink_to(pointer.readlink().name)
            beside.replace(placed)
