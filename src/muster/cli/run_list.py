"""The list of runs as `muster runs` prints it: chosen, sorted and grouped."""

from __future__ import annotations

import fnmatch
import math
import os
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muster.cli.screen import columns, figure, print_json
from muster.experiment.quantities import format_duration
from muster.files.regular import read_text
from muster.runs.finding import list_runs
from muster.runs.folder import RunFolder
from muster.runs.reading import RunRecord, printable, read_state
from muster.runs.summary import short_simulator, summarize

_HEADINGS = ("run", "state", "simulator", "algorithm", "steps", "return", "time", "ago")
_NUMBERS = range(4, 8)
_FOLDABLE = {0: 16, 2: 11}
"""How narrow the names of runs and simulators may become in a narrow terminal."""
_OF_ONE_RUN = ("name", "seed", "resources", "evaluation", "checkpoint", "env.paths")
"""What may differ between runs of the same experiment."""


def _by_return(record: RunRecord) -> float:
    value = record.status.return_mean
    return math.inf if value is None else -value


SORTS: dict[str, Callable[[RunRecord], Any]] = {
    "name": lambda record: record.folder.path,
    "state": lambda record: record.status.shown_state,
    "steps": lambda record: -record.status.steps,
    "return": lambda record: (
        -(record.status.return_mean if record.status.return_mean is not None else float("-inf"))
    ),
    "updated": lambda record: -record.status.updated,
}
"""How runs can be sorted; without any of these, those that started last come first."""


@dataclass(frozen=True)
class Choice:
    """Which runs are listed, and in which order."""

    pattern: str | None = None
    states: Sequence[str] = ()
    sort: str | None = None
    is_reversed: bool = False

    def of(self, directory: Path) -> list[RunRecord]:
        """Return the runs of a folder that are chosen."""
        folders = [folder for folder in list_runs(directory) if self._has_name(folder, directory)]
        found = [record for folder in folders if self._has_state(record := read_state(folder))]
        if self.sort is not None:
            found.sort(key=SORTS[self.sort])
        return found[::-1] if self.is_reversed else found

    def _has_name(self, folder: RunFolder, directory: Path) -> bool:
        if self.pattern is None:
            return True
        name = os.path.relpath(folder.path, directory)
        return fnmatch.fnmatchcase(name, self.pattern) or self.pattern in name

    def _has_state(self, record: RunRecord) -> bool:
        return not self.states or record.status.shown_state in self.states


def show_list(directory: Path, choice: Choice, *, by_experiment: bool = False, as_json: bool = False) -> None:
    """Print the runs of a folder."""
    found = choice.of(directory)
    if as_json:
        print_json([_as_json(record) for record in found])
    elif not found:
        print(_none(directory, choice))
    elif by_experiment:
        print("\n\n".join(_group(name, records, directory) for name, records in grouped(found).items()))
    else:
        print(_table(found, directory))
    if not as_json:
        for record in found:
            for problem in record.problems:
                print(f"{printable(record.folder.name)}: {problem}")


def grouped(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Return runs of the same experiment together, by what tells it from the others."""
    groups: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for record in records:
        groups.setdefault(_experiment(record), []).append(record)
    tables = [dict(experiment) for experiment in groups]
    titles = (_title(table, [other for other in tables if _what(other) == _what(table)]) for table in tables)
    return dict(zip(titles, groups.values(), strict=True))


def _what(table: dict[str, str]) -> tuple[str, str]:
    return table.get("algorithm.name", "?"), table.get("env.id", "?")


def _title(table: dict[str, str], alike: Sequence[dict[str, str]]) -> str:
    """Return algorithm and simulator, and the keys in which the others with these differ."""
    if not table:
        return "experiments that cannot be read"
    differing = [key for key in table if len({other.get(key) for other in alike}) > 1]
    rest = [f"{key.removeprefix('algorithm.')} {table[key]}" for key in differing]
    return ", ".join([" on ".join(_what(table)), *rest])


def _experiment(record: RunRecord) -> tuple[tuple[str, str], ...]:
    """Return the keys and values of a run's experiment that its seeds share; none if it cannot be read."""
    try:
        table = tomllib.loads(read_text(record.folder.experiment))
    except (OSError, ValueError, RecursionError):
        return ()
    return tuple((key, value) for key, value in _leaves(table) if not key.startswith(_OF_ONE_RUN))


def _leaves(table: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        found += (
            _leaves(value, f"{name}.")
            if isinstance(value, dict)
            else [(name, f"{value:.4g}" if isinstance(value, float) else str(value))]
        )
    return found


def _group(title: str, records: Sequence[RunRecord], directory: Path) -> str:
    returns = [record.status.return_mean for record in records if record.status.return_mean is not None]
    mean = f", mean return {figure(sum(returns) / len(returns))}" if returns else ""
    count = f"{len(records)} run{'s' if len(records) > 1 else ''}"
    return f"{printable(title)}: {count}{mean}\n{_table(records, directory)}"


def _none(directory: Path, choice: Choice) -> str:
    if choice.pattern is not None or choice.states:
        return f"no such runs in {directory}"
    return f"no runs in {directory}; start one: muster train CartPole-v1"


def _table(records: Sequence[RunRecord], directory: Path) -> str:
    rows = [_HEADINGS, *(_cells(record, directory) for record in records)]
    return columns(rows, numbers=_NUMBERS, foldable=_FOLDABLE)


def _cells(record: RunRecord, directory: Path) -> tuple[str, ...]:
    status, summary = record.status, summarize(record.folder)
    return (
        printable(os.path.relpath(record.folder.path, directory)),
        status.shown_state,
        printable(short_simulator(summary.simulator)) if summary.simulator else "-",
        printable(summary.algorithm or "-"),
        f"{status.steps:,}",
        figure(status.return_mean),
        "-" if summary.seconds is None else format_duration(summary.seconds),
        _ago(time.time() - status.updated) if status.updated else "-",
    )


def _ago(seconds: float) -> str:
    """Write how long ago something was, in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def _as_json(record: RunRecord) -> dict[str, object]:
    status = {**asdict(record.status), "state": record.status.shown_state, "run": str(record.folder.path)}
    return {**status, **asdict(summarize(record.folder)), "problems": record.problems}
