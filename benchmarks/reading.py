"""How long the commands take that only read run folders: many rows, many runs; beside another checkout, if given.

`python -m benchmarks reading:/path/to/checkout` measures both in turns, so that the machine is as busy for both.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from muster import train
from muster.training import TrainOptions

ROOT = Path(__file__).parents[1]
ROWS, RUNS, ROWS_EACH = 100_000, 500, 50
ROUNDS = 15
COMMANDS = {
    f"`muster show`, {ROWS:,} rows": ["show", "long"],
    f"`muster runs`, {RUNS} runs": ["runs", "--runs-dir", "many"],
    f"`muster runs --json`, {RUNS} runs": ["runs", "--json", "--runs-dir", "many"],
    "`muster --help`": ["--help"],
}


def run(other: str = "") -> str:
    """Measure every command, with this checkout and another one in turns."""
    checkouts = [ROOT, *([Path(other)] if other else [])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_runs(folder)
        lines = [
            "# Reading run folders",
            "",
            f"Seconds from start to end of the process, median of {ROUNDS} rounds in turns, files in the cache, "
            f"on {os.cpu_count()} CPUs.",
            "",
            "| command | seconds |" + (" before | times as fast |" if other else ""),
            "|---|---|" + ("---|---|" if other else ""),
        ]
        for title, command in COMMANDS.items():
            rounds = [[_seconds(checkout, command, folder) for checkout in checkouts] for _ in range(ROUNDS)]
            cells = [statistics.median(column) for column in zip(*rounds, strict=True)]
            ratio = f" {statistics.median(one[1] / one[0] for one in rounds):.1f} |" if other else ""
            lines.append(f"| {title} | {' | '.join(f'{cell:.2f}' for cell in cells)} |{ratio}")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"


def _seconds(checkout: Path, command: list[str], folder: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "muster", *command], cwd=folder, env=environment, check=True, capture_output=True
    )
    return time.perf_counter() - began


def _make_runs(folder: Path) -> None:
    """Make a run of many rows, and many runs, out of a real one."""
    options = TrainOptions(runs_dir=folder)
    train("CartPole-v1", overrides={"name": "one", "resources.workers": 0, "stop.iterations": 3}, options=options)
    _stretch(folder / "one", folder / "long", ROWS)
    for number in range(RUNS):
        _stretch(folder / "one", folder / "many" / f"run-{number:03d}", ROWS_EACH)


def _stretch(source: Path, target: Path, rows: int) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("tensorboard"))
    with (source / "metrics.csv").open(encoding="utf-8") as file:
        header, *found = csv.reader(file)
    with (target / "metrics.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for number in range(1, rows + 1):
            writer.writerow([str(number), str(number * 2048), *found[number % len(found)][2:]])
    status = json.loads((source / "status.json").read_text(encoding="utf-8"))
    status |= {"iteration": rows, "steps": rows * 2048}
    (target / "status.json").write_text(json.dumps(status), encoding="utf-8")
