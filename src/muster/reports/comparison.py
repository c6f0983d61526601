"""What several runs, or groups of seeds, say of each other: scores with intervals, efficiency, what differs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from muster.errors import InputError
from muster.experiment.quantities import counted
from muster.reports.curves import Curves, curves_of
from muster.reports.experiments import differences
from muster.reports.groups import SWEEP, Group, all_evaluated, find_group
from muster.statistics import FEWEST_SEEDS, Interval, interval_of_mean, probability_of_improvement

MOST_GROUPS = 18
SHARE_OF_BEST = 0.9
"""Efficiency is what it took to get this far from the worst beginning to the best final return."""
_OF_ONE_RUN = ("name", "seed", "env.paths")


@dataclass(frozen=True)
class Entry:
    """One side of a comparison."""

    name: str
    group: Group
    scores: np.ndarray[tuple[int], np.dtype[np.float64]]
    final: Interval | None
    """Interquartile mean of the final returns; None if no run has one."""
    by_steps: Curves | None
    nodes: int

    @property
    def can_tell(self) -> bool:
        """Whether there are enough runs for an interval that means something."""
        return len(self.scores) >= FEWEST_SEEDS

    @property
    def has_several_seeds(self) -> bool:
        """Whether its runs were trained, and so evaluated during training, with different seeds."""
        experiments = [run.record.experiment for run in self.group.runs]
        return len({experiment.seed for experiment in experiments if experiment is not None}) > 1


@dataclass(frozen=True)
class Comparison:
    """Several entries; the first is what the others are compared with."""

    entries: list[Entry]
    by_evaluations: bool
    """Whether final returns are those of evaluations, which all runs have then."""

    @property
    def simulators(self) -> dict[str, str]:
        """The simulators of the entries."""
        return {
            entry.name: run.record.experiment.env.id
            for entry in self.entries
            for run in entry.group.runs
            if run.record.experiment is not None
        }

    @property
    def is_comparable(self) -> bool:
        """Whether returns can be compared, because all are of the same simulator, in whatever folder it lies."""
        return len({identifier.rpartition("/")[2] for identifier in self.simulators.values()}) < 2

    def target(self) -> float | None:
        """Return the return by which efficiency is measured; None if there is none."""
        if not self.is_comparable:
            return None
        curves = [entry.by_steps.middle() for entry in self.entries if entry.by_steps is not None]
        if not curves:
            return None
        low, high = min(curve[0] for curve in curves), max(curve[-1] for curve in curves)
        return float(low + SHARE_OF_BEST * (high - low))

    def steps_to(self, entry: Entry, target: float) -> float | None:
        """Return how many steps an entry's interquartile mean took to a return; None if it did not get there."""
        return _first(entry.by_steps, target)

    def hours_to(self, entry: Entry, target: float) -> float | None:
        """Return how many hours of training these steps took, in the median of the runs."""
        steps = self.steps_to(entry, target)
        if steps is None:
            return None
        times = [np.interp(steps, run.column("steps"), run.column("time/total")) for run in entry.group.runs]
        known = [float(seconds) for seconds in times if np.isfinite(seconds)]
        return float(np.median(known)) / 3600 if known else None

    def improvement(self, entry: Entry) -> Interval | None:
        """Return how likely a run of an entry is better than one of the first."""
        first = self.entries[0]
        if entry is first or not len(entry.scores) or not len(first.scores) or not self.is_comparable:
            return None
        return probability_of_improvement(entry.scores, first.scores)

    def verdict(self, entry: Entry) -> str:
        """Say in words what can be said of an entry beside the first."""
        found = self.improvement(entry)
        first = self.entries[0]
        if entry is first:
            return "what the others are compared with"
        if found is None:
            return "no final return" if self.is_comparable else "another simulator"
        for one in (first, entry):
            if not one.can_tell:
                few = counted(len(one.scores), "seed")
                return f"too few seeds to tell: {one.name} has {few}; take at least {FEWEST_SEEDS}"
        if found.low <= 0.5 <= found.high:
            return f"no clear difference from {first.name}"
        return f"{'better' if found.value > 0.5 else 'worse'} than {first.name}"

    def notes(self) -> list[str]:
        """Return what a reader has to know before comparing."""
        notes = []
        if not self.is_comparable:
            named = ", ".join(f"{name} in {simulator}" for name, simulator in self.simulators.items())
            notes.append(f"The simulators differ, so the returns cannot be compared: {named}.")
        for entry in self.entries:
            missing = len(entry.group.runs) - len(entry.scores)
            if missing:
                notes.append(f"{entry.name}: {counted(missing, 'run')} without a return left out.")
            notes += [f"{entry.name}: {problem}" for problem in entry.group.problems]
        if self.by_evaluations and any(entry.has_several_seeds for entry in self.entries):
            notes.append(
                "Each seed was evaluated in episodes of its own; "
                "`muster evaluate GROUP` uses the same episodes for all."
            )
        return notes

    def differences(self) -> dict[str, tuple[str, ...]]:
        """Return the keys in which the entries' experiments differ, by the first run of each."""
        experiments = [run.record.experiment for entry in self.entries for run in entry.group.runs[:1]]
        known = [experiment for experiment in experiments if experiment is not None]
        if len(known) < len(self.entries):
            return {}
        return {key: values for key, values in differences(known).items() if key not in _OF_ONE_RUN}


def compare(targets: Sequence[str], directory: Path) -> Comparison:
    """Read what is to be compared.

    Raises:
        InputError: if there is nothing to compare.
    """
    if not 2 <= len(targets) <= MOST_GROUPS:
        raise InputError(f"compare: {counted(len(targets), 'run')} given; expected 2 to {MOST_GROUPS}")
    groups = [find_group(target, directory) for target in targets]
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        names = [str(target) for target in targets]
    taken = [best_trial(group) if group.kind == SWEEP else group for group in groups]
    by_evaluations = all_evaluated(taken)
    entries = [_entry(name, group, by_evaluations) for name, group in zip(names, taken, strict=True)]
    return Comparison(entries, by_evaluations)


def best_trial(sweep: Group) -> Group:
    """Return the best trial of a sweep: its trials differ, so they are no group of seeds.

    Raises:
        InputError: if none has a result.
    """
    best = sweep.sweep.best() if sweep.sweep else None
    chosen = [run for run in sweep.runs if best is not None and run.folder.name == best.name]
    if not chosen:
        raise InputError(f"{sweep.path}: no trial of this sweep has a result\n    compare its runs by name")
    return Group(sweep.name, sweep.path, SWEEP, chosen, sweep.sweep, sweep.problems)


def _entry(name: str, group: Group, by_evaluations: bool) -> Entry:
    if group.kind == SWEEP:
        name = f"{name}, best trial {group.runs[0].folder.name}"
    scores = group.scores(by_evaluations=by_evaluations)
    final = interval_of_mean(scores) if len(scores) else None
    nodes = max((run.order.nodes for run in group.runs if run.order is not None), default=1)
    return Entry(name, group, scores, final, curves_of(group.runs), nodes)


def _first(curves: Curves | None, target: float) -> float | None:
    if curves is None:
        return None
    reached = np.flatnonzero(curves.middle() >= target)
    return float(curves.x[reached[0]]) if len(reached) else None


HEADINGS = (
    "group",
    "runs",
    "final_return",
    "low",
    "high",
    "probability_of_improvement",
    "probability_low",
    "probability_high",
    "target_return",
    "steps_to_target",
    "hours_to_target",
    "node_hours_to_target",
    "verdict",
)


def as_rows(comparison: Comparison) -> list[list[object]]:
    """Return a row for each entry, as `HEADINGS` names its cells; None for what is not known."""
    target = comparison.target()
    rows: list[list[object]] = []
    for entry in comparison.entries:
        final, better = entry.final, comparison.improvement(entry)
        steps = comparison.steps_to(entry, target) if target is not None else None
        hours = comparison.hours_to(entry, target) if target is not None else None
        rows.append(
            [
                entry.name,
                len(entry.group.runs),
                *_cells(final, is_sampled=len(entry.scores) > 1),
                *_cells(better, is_sampled=True),
                target,
                steps,
                hours,
                None if hours is None else hours * entry.nodes,
                comparison.verdict(entry),
            ]
        )
    return rows


def _cells(interval: Interval | None, *, is_sampled: bool) -> tuple[float | None, ...]:
    """Return a value and its interval; there is none of a single run."""
    if interval is None:
        return None, None, None
    return (interval.value, interval.low, interval.high) if is_sampled else (interval.value, None, None)


def as_csv(comparison: Comparison) -> str:
    """Return the table of all entries."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADINGS)
    writer.writerows([["" if cell is None else cell for cell in row] for row in as_rows(comparison)])
    return text.getvalue()
