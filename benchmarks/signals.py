"""Signals at random moments of short runs: the exit code, what was saved, what was left behind.

`signals:40` sends 40 instead of 300.
"""

from __future__ import annotations

import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from muster import train
from muster.runs.checkpoints import Checkpoints, verify
from muster.training import TrainOptions

NUM_SIGNALS = 300
AT_A_TIME = 2
ITERATIONS = 30
GRACE_SECONDS = 20.0
WORKERS = (0, 2)
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGUSR2: 75}
TARGETS = ("process", "group", "twice")
MARK = "MUSTER_SIGNALS_BENCHMARK"
OVERRIDES = {
    "algorithm.train_batch_size": 512,
    "checkpoint.every": 1,
    "evaluation.every": 2,
    "evaluation.episodes": 3,
    "stop.iterations": ITERATIONS,
    "name": "run",
}


@dataclass(frozen=True)
class Case:
    """One signal: which, to whom, to a run with how many workers, after how many seconds."""

    number: signal.Signals
    target: str
    workers: int
    delay: float
    gap: float


@dataclass(frozen=True)
class Outcome:
    """What came of it; `problem` is empty if all is well."""

    case: Case
    moment: str
    code: int
    seconds: float
    problem: str


def run(part: str = "") -> str:
    """Send the signals, a few runs at a time."""
    count = int(part or NUM_SIGNALS)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        outcomes = []
        for outcome in pool.map(_try, _cases(count)):
            outcomes.append(outcome)
            print(f"{len(outcomes)}/{count} {_line(outcome)}", file=sys.stderr, flush=True)
    return _page(outcomes)


def _cases(count: int) -> list[Case]:
    rng = random.Random(0)
    kinds = list(product(CODES, TARGETS, WORKERS))
    chosen = [kinds[k % len(kinds)] for k in range(count)]
    lengths = {workers: _undisturbed_seconds(workers) for workers in WORKERS}
    return [
        Case(number, target, workers, rng.uniform(0.0, lengths[workers]), rng.uniform(0.0, 2.0))
        for number, target, workers in chosen
    ]


def _undisturbed_seconds(workers: int) -> float:
    """Return how long a run lasts, from the start of Python to the end of the process: the moments are in it."""
    with tempfile.TemporaryDirectory(prefix="sig-", dir="/tmp") as folder:
        started = time.monotonic()
        _start(Case(signal.SIGTERM, "process", workers, 0.0, 0.0), Path(folder)).wait()
        return time.monotonic() - started


def _try(case: Case) -> Outcome:
    """Run, send the signal, look at what is left, and resume."""
    folder = Path(tempfile.mkdtemp(prefix="sig-", dir="/tmp"))
    try:
        process = _start(case, folder)
        time.sleep(case.delay)
        moment = _moment(folder, process)
        sent = time.monotonic()
        _send(case, process)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = time.monotonic() - sent
        problem = _problem(case, folder, moment, process.returncode, seconds) or _left_behind(folder)
        problem = problem or _resume_problem(folder)
        return Outcome(case, moment, process.returncode, seconds, problem)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(case: Case, folder: Path) -> subprocess.Popen[bytes]:
    settings = [text for key, value in OVERRIDES.items() for text in ("--set", f"{key}={value}")]
    (folder / "tmp").mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "MUSTER_"))}
    command = [str(Path(sys.executable).with_name("muster")), "train", "CartPole-v1", "--quiet", *settings]
    return subprocess.Popen(
        [*command, "--workers", str(case.workers), "--runs-dir", str(folder)],
        env={**kept, "TMPDIR": str(folder / "tmp"), MARK: folder.name},
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log").open("wb"),
        start_new_session=True,
    )


def _send(case: Case, process: subprocess.Popen[bytes]) -> None:
    """Send the signal; a process that has ended takes it no more."""
    try:
        if case.target == "group":
            os.killpg(process.pid, case.number)
            return
        process.send_signal(case.number)
        if case.target == "twice":
            time.sleep(case.gap)
            if process.poll() is None:
                os.killpg(process.pid, case.number)
    except ProcessLookupError:
        return


def _moment(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Return what the run is about to do, as far as its folder tells."""
    if process.poll() is not None:
        return "after the end"
    if not (folder / "run" / "status.json").exists():
        return "start"
    rows = _rows(folder / "run")
    if not rows:
        return "Ray and engine"
    return "close" if rows[-1] == ITERATIONS else "training"


def _problem(case: Case, folder: Path, moment: str, code: int, seconds: float) -> str:
    run_folder = folder / "run"
    rows, latest = _rows(run_folder), Checkpoints(run_folder / "checkpoints").latest()
    saved = int(latest.name) if latest else 0
    log = (folder / "log").read_text(errors="replace")
    if seconds > GRACE_SECONDS:
        return f"took {seconds:.0f} s"
    if "Traceback" in log:
        return f"traceback: {log.splitlines()[-1]}"
    is_finished = bool(rows) and rows[-1] == ITERATIONS
    if code == -case.number and moment == "start":
        return "" if not run_folder.exists() else "ended by the signal, with a folder"
    if code not in ((CODES[case.number], 0) if is_finished else (CODES[case.number],)):
        return f"code {code}: {log[-200:]}"
    if latest is not None:
        verify(latest)
    ended_at_once = case.target == "twice" and case.gap >= 0.9
    if len(rows) - saved > (1 if ended_at_once else 0):
        return f"{len(rows)} iterations trained, {saved} saved"
    return ""


def _left_behind(folder: Path) -> str:
    """Return what is left, after a second for what is ending."""
    mark = f"{MARK}={folder.name}".encode()
    deadline = time.monotonic() + 1.0
    while True:
        left = [path.name for path in (folder / "tmp").iterdir()]
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                    left.append((entry / "comm").read_text().strip())
            except OSError:
                continue
        if not left or time.monotonic() > deadline:
            return f"left behind: {', '.join(left)}" if left else ""
        time.sleep(0.1)


def _resume_problem(folder: Path) -> str:
    """Resume for one more iteration, if there is anything to resume, and look at the record."""
    latest = Checkpoints(folder / "run" / "checkpoints").latest()
    end = int(latest.name) + 1 if latest else 1
    overrides = {**OVERRIDES, "stop.iterations": end, "resources.workers": 0}
    result = train("CartPole-v1", overrides=overrides, options=TrainOptions(runs_dir=folder, resume=True))
    rows = _rows(folder / "run")
    if result.iterations != end or rows != list(range(1, end + 1)):
        return f"resumed at {result.iterations - 1} instead of {end - 1}: rows {rows}"
    return ""


def _rows(run_folder: Path) -> list[int]:
    try:
        with (run_folder / "metrics.csv").open() as file:
            return [int(row["iteration"]) for row in csv.DictReader(file)]
    except OSError:
        return []


def _line(outcome: Outcome) -> str:
    case = outcome.case
    text = f"{case.number.name} to {case.target}, {case.workers} workers, {outcome.moment} ({case.delay:.2f} s)"
    return f"{text}: code {outcome.code}, {outcome.seconds:.1f} s. {outcome.problem or 'good'}"


def _page(outcomes: list[Outcome]) -> str:
    cells = defaultdict(list)
    for outcome in outcomes:
        cells[outcome.case.number.name, outcome.case.target, outcome.case.workers].append(outcome)
    rows = [
        f"| {name} | {target} | {workers} | {len(cell)} | {sum(not o.problem for o in cell)} "
        f"| {median(o.seconds for o in cell):.1f} | {max(o.seconds for o in cell):.1f} |"
        for (name, target, workers), cell in cells.items()
    ]
    moments: dict[str, int] = defaultdict(int)
    for outcome in outcomes:
        moments[outcome.moment] += 1
    spread = ", ".join(f"{count} {moment}" for moment, count in moments.items())
    problems = [f"- {_line(outcome)}" for outcome in outcomes if outcome.problem]
    return "\n".join(
        [
            "# Signals at random moments",
            "",
            f"{len(outcomes)} signals to runs of {ITERATIONS} iterations of PPO on CartPole-v1, each of which is "
            "saved and every second one evaluated; `twice` is to the process and then to its group, at most 2 s "
            f"later. Moments: {spread}.",
            "",
            "Good: the exit code is the signal's (0 if the last iteration was done), every iteration in "
            "`metrics.csv` is saved (with a second signal, all but one), nothing is left (processes, temporary "
            "folders), and `--resume` continues there without a gap.",
            "",
            "| signal | to | workers | sent | good | median seconds to the end | longest |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            *(problems or ["No problem was found."]),
            "",
        ]
    )


if __name__ == "__main__":
    print(run(*sys.argv[1:]))
