"""Runs of one experiment side by side on this machine: each a process of its own, with its share of the CPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import tomli_w

from muster.clusters.allocation.reading import usable_cpus
from muster.environment_variables import LAUNCH_CPUS_VARIABLE, PARENT_VARIABLE
from muster.errors import ERROR_PREFIX, MusterError
from muster.experiment import LoadedExperiment
from muster.runs.folder import RunFolder
from muster.runs.status import Status, read_status
from muster.training.call import TrainOptions, TrainResult
from muster.training.interruption import EXIT_CODES, InterruptionWatch

POLL_SECONDS = 0.2
LONGEST_END = 2000
"""Characters of what a process printed last that are shown if it says no reason."""


Show = Callable[[Sequence[Status]], None]
"""Takes the states of runs that train side by side."""


@dataclass
class _Running:
    number: int
    process: subprocess.Popen[str]
    output: IO[str]
    messages: Path


def most_at_once(loaded: LoadedExperiment, count: int) -> int:
    """Return how many runs go side by side: as many as there are CPUs, if the runs may decide on their workers.

    Under a launch, workers on all hosts serve one run after another.
    """
    can_share = loaded.experiment.resources.workers == "auto" and hasattr(os, "sched_setaffinity")
    if not can_share or os.environ.get(LAUNCH_CPUS_VARIABLE):
        return 1
    return max(1, min(count, usable_cpus()))


def train_side_by_side(
    each: Sequence[LoadedExperiment],
    options: TrainOptions,
    watch: InterruptionWatch,
    at_once: int,
    results: dict[int, TrainResult],
    show: Show,
) -> None:
    """Train experiments, so many at a time; put their results, by their places, into `results`.

    An interruption, or the first failure, lets those under way save and end.

    Raises:
        MusterError: of the first that failed.
    """
    waiting, shares = list(enumerate(each)), list(_shares(at_once))
    running: dict[int, _Running] = {}
    failure: MusterError | None = None
    is_ending = False
    with _none_left(running):
        while running or (waiting and not is_ending):
            for place, share in enumerate(shares):
                if place not in running and waiting and not is_ending:
                    running[place] = _start(*waiting.pop(0), options, share)
            time.sleep(POLL_SECONDS)
            show(_statuses(each, options))
            for place in [place for place, one in running.items() if one.process.poll() is not None]:
                ended = running.pop(place)
                result, error = _outcome(ended)
                failure = failure or error
                if result is not None:
                    results[ended.number] = result
            if not is_ending and ((interruption := watch.pending()) or failure):
                is_ending = True
                _signal(running, interruption.exit_code if interruption else EXIT_CODES[signal.SIGTERM])
    if failure is not None:
        raise failure


def _statuses(each: Sequence[LoadedExperiment], options: TrainOptions) -> list[Status]:
    folders = [RunFolder(Path(str(options.runs_dir)) / str(one.experiment.name)) for one in each]
    found = [(folder, read_status(folder.status)) for folder in folders]
    return [status or Status("waiting", run=folder.name) for folder, status in found]


def _shares(count: int) -> Iterator[set[int]]:
    """Deal out the CPUs of this process."""
    cpus = sorted(os.sched_getaffinity(0))
    for place in range(count):
        yield set(cpus[place::count])


def _start(number: int, loaded: LoadedExperiment, options: TrainOptions, cpus: set[int]) -> _Running:
    folder = Path(str(options.runs_dir))
    folder.mkdir(parents=True, exist_ok=True)
    name = loaded.experiment.name
    file, messages = folder / f"{name}.toml", folder / f"{name}.log"
    file.write_text(tomli_w.dumps(loaded.given()), encoding="utf-8")
    command = [sys.executable, "-m", "muster", "train", str(file), "--json", "--runs-dir", str(folder)]
    command += ["--resume"] if options.resume else []
    command += ["--from", str(options.weights_from)] if options.weights_from else []
    command += ["--trust"] if options.trust else []
    output = (folder / f"{name}.json").open("w+", encoding="utf-8")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        with messages.open("a", encoding="utf-8") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
            )
    finally:
        os.sched_setaffinity(0, before)
    return _Running(number, process, output, messages)


def _outcome(one: _Running) -> tuple[TrainResult | None, MusterError | None]:
    """Return what a process has printed as its result, and its error if it failed."""
    one.output.seek(0)
    lines = one.output.read().splitlines()
    one.output.close()
    Path(one.output.name).unlink()
    result = None
    if lines and lines[-1].startswith("{"):
        result = TrainResult(**json.loads(lines[-1]))
    code = one.process.returncode
    if code in (0, *EXIT_CODES.values()) and result is not None:
        return result, None
    text = one.messages.read_text(encoding="utf-8", errors="replace").rstrip()
    end = text.rpartition(ERROR_PREFIX)[2] if ERROR_PREFIX in text else text[-LONGEST_END:]
    error = MusterError(f"{one.messages.stem}: {end or f'ended with code {code}'}")
    if result is None:
        for file in (one.messages, one.messages.with_suffix(".toml")):
            file.unlink()
    error.exit_code = max(1, code)
    error.result = result
    return result, error


def _signal(running: dict[int, _Running], exit_code: int) -> None:
    """Send the signal after which a run ends with a code."""
    number = next(number for number, code in EXIT_CODES.items() if code == exit_code)
    for one in running.values():
        one.process.send_signal(number)


@contextmanager
def _none_left(running: dict[int, _Running]) -> Iterator[None]:
    """End and await what still runs when the block is left by an error."""
    try:
        yield
    finally:
        for one in running.values():
            one.process.terminate()
        for one in running.values():
            one.process.wait()
