"""A fake scheduler set up for a test: its commands in a folder for PATH, its hosts, its switches."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.fakes import misbehaviour
from tests.fakes.core import PAUSED, Configuration, HostEntry, QueueEntry, Site
from tests.fakes.jobs import DONE, Job
from tests.fakes.misbehaviour import Misbehaviour
from tests.fakes.schedulers import SCHEDULERS

SLURM_COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "scancel")
SLURM_DOWN = "{command}: error: Unable to contact slurm controller (connect failure)\n"
SLURM_REFUSAL = (
    "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n",
    1,
)
SUBMIT_COMMANDS = {"slurm": "sbatch", "pbs": "qsub", "cobalt": "qsub", "lsf": "bsub", "flux": "flux"}
QUEUES = {"workq": QueueEntry(), "short": QueueEntry(max_nodes=1, max_wall_time=3600.0)}


class FakeSite:
    """A scheduler of this test's own; `slurm` stands for the real commands, which can be made to misbehave."""

    def __init__(
        self,
        folder: Path,
        scheduler: str,
        hosts: Sequence[HostEntry] | None = None,
        queues: Mapping[str, QueueEntry] = QUEUES,
        without: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        """Without hosts everything runs on this machine, as one host; else they are reached by ssh."""
        self.folder = folder
        self.scheduler = scheduler
        here = HostEntry(socket.gethostname(), cpus=8)
        configuration = Configuration(
            scheduler, tuple(hosts or [here]), queues, on_this_machine=hosts is None, **settings
        )
        (folder / "bin").mkdir(parents=True)
        (folder / "jobs").mkdir()
        (folder / "site.json").write_text(json.dumps(asdict(configuration), indent=1))
        self._site = Site(folder)
        fake = SCHEDULERS.get(scheduler)
        for command in set(fake.commands if fake else SLURM_COMMANDS) - set(without):
            program = folder / "bin" / command
            program.write_text(f'#!/bin/sh\nexec {shlex.join(self._site.command(command))} "$@"\n')
            program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs in order to find the fakes and the programs of the running Python."""
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {"PATH": path}

    def write_profile(self, home: Path) -> None:
        """Let login shells find the commands, as a site's profile does: Debian's own sets PATH anew."""
        (home / ".bash_profile").write_text(f'PATH="{self.folder / "bin"}:$PATH"\n')

    def run(
        self, *words: str | Path, stdin: str = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this machine with the fakes on PATH; in a home folder of its own."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        self.write_profile(home)
        environment = {**os.environ, **self.environment, "HOME": str(home)}
        command = [str(word) for word in words]
        return subprocess.run(
            command,
            check=False,
            env=environment,
            cwd=cwd or home,
            input=stdin,
            text=True,
            capture_output=True,
            timeout=120,
        )

    def jobs(self) -> list[Job]:
        """All jobs."""
        return self._site.table.all()

    def wait(self, number: int, *states: str, limit_s: float = 20.0) -> list[Job]:
        """Wait until all jobs of a number are in one of the states, by default ended; return them."""
        deadline = time.monotonic() + limit_s
        while True:
            jobs = self._site.table.of(number)
            if jobs and all(job.state in (states or (DONE,)) for job in jobs):
                return jobs
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {limit_s:g} s for job {number}: {jobs}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        """What the jobs' runners printed: errors of the fakes themselves."""
        return "".join(path.read_text() for path in (self.folder / "jobs").glob("*/runner.log"))

    def pause(self) -> None:
        """Let no job start, so that all stay queued."""
        (self.folder / PAUSED).touch()

    def unpause(self) -> None:
        """Let jobs start again."""
        (self.folder / PAUSED).unlink()
        self._site.schedule()

    def misbehave(self, command: str, **how: Any) -> None:
        """Let a command misbehave: `hang=60`, `stdout="garbage"`, `stderr=…`, `code=1`, `times=2`."""
        misbehaviour.switch_on(self._switches, command, Misbehaviour(**how))

    def go_down(self) -> None:
        """Let every command fail with the scheduler's own text for a server that does not answer."""
        fake = SCHEDULERS.get(self.scheduler)
        texts = fake.outages if fake else {name: (SLURM_DOWN.format(command=name), 1) for name in SLURM_COMMANDS}
        for command, (text, code) in texts.items():
            self.misbehave(command, stderr=text, code=code)

    def refuse_submits(self) -> None:
        """Let the submit command fail as if the user had no right to."""
        fake = SCHEDULERS.get(self.scheduler)
        text, code = fake.refusal if fake else SLURM_REFUSAL
        self.misbehave(SUBMIT_COMMANDS[self.scheduler], stderr=text, code=code)

    def behave(self) -> None:
        """Let every command work again."""
        for path in self._switches.glob("*"):
            misbehaviour.switch_off(self._switches, path.name)

    def close(self) -> None:
        """End all jobs of this machine at once, and let none start."""
        self.pause()
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and self._is_mine(process):
                with suppress(ProcessLookupError):
                    os.kill(int(process.name), signal.SIGKILL)

    @property
    def _switches(self) -> Path:
        return self.folder / "misbehaviour"

    def _is_mine(self, process: Path) -> bool:
        """Whether a process is a runner, a rank or a job of this site, by what it was started with."""
        mark = str(self.folder).encode()
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                if mark in (process / name).read_bytes() and int(process.name) != os.getpid():
                    return True
        return False
