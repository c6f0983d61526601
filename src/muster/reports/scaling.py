"""Is there a real speed-up? What measured speeds say, the law through them, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from muster.reports.pictures import save
from muster.training.scaling_runs import Measured

WORTHWHILE = 0.7
"""Efficiency below which more workers are not recommended."""
CLEAR_GAIN = 1.1
"""How many times as fast more workers must be to be recommended: less may be noise."""
FEWEST_POINTS = 3
"""Numbers of workers that must be measured before the law through them is a forecast."""
LARGEST_ERROR = 0.1
"""By how much the law may miss one of them then."""


@dataclass(frozen=True)
class Scaling:
    """Several measurements, the first of the fewest workers, and the law through them.

    An iteration takes `serial + parallel / workers` seconds: Amdahl's law. Training in one process, without
    workers, is measured beside them, and is no part of the law.
    """

    measured: tuple[Measured, ...]
    serial: float
    parallel: float

    @classmethod
    def of(cls, measured: Sequence[Measured]) -> Scaling:
        """Fit the law to measurements, with neither part below zero."""
        rows = tuple(sorted(measured, key=lambda row: row.workers))
        with_workers = [row for row in rows if row.workers] or list(rows)
        seconds = np.array([row.seconds for row in with_workers])
        shares = np.array([1 / max(1, row.workers) for row in with_workers])
        serial, parallel = 0.0, float(seconds @ shares / (shares @ shares))
        if len(with_workers) > 1:
            columns = np.stack([np.ones_like(shares), shares], axis=1)
            fitted = np.linalg.lstsq(columns, seconds, rcond=None)[0]
            if fitted[1] <= 0:
                serial, parallel = float(seconds.mean()), 0.0
            elif fitted[0] > 0:
                serial, parallel = map(float, fitted)
        return cls(rows, serial, parallel)

    @property
    def serial_fraction(self) -> float:
        """The share of one worker's iteration that more workers do not shorten."""
        total = self.serial + self.parallel
        return self.serial / total if total else 0.0

    def speed_up(self, row: Measured) -> float:
        """How many times as fast as with the fewest workers."""
        return row.speed / self.measured[0].speed

    def efficiency(self, row: Measured) -> float:
        """The speed-up, divided by how many times as many workers it took."""
        return self.speed_up(row) * max(1, self.measured[0].workers) / max(1, row.workers)

    @property
    def recommended(self) -> Measured:
        """The most workers that are still well used, and clearly faster than any fewer."""
        best = self.measured[0]
        for row in self.measured[1:]:
            if self.efficiency(row) >= WORTHWHILE and row.speed >= CLEAR_GAIN * best.speed:
                best = row
        return best

    @property
    def gain_of_doubling(self) -> float | None:
        """How many times as fast twice the most workers would be, by the law; None if it is no good forecast."""
        rows = [row for row in self.measured if row.workers]
        if len(rows) < FEWEST_POINTS or any(abs(self._law(row) / row.seconds - 1) > LARGEST_ERROR for row in rows):
            return None
        return self._law(rows[-1]) / (self.serial + self.parallel / (2 * rows[-1].workers))

    def _law(self, row: Measured) -> float:
        return self.serial + self.parallel / max(1, row.workers)

    def as_table(self) -> dict[str, Any]:
        """Return all of it for a script."""
        best = self.recommended
        return {
            "rows": [
                {
                    "workers": row.workers,
                    **({} if row.hosts is None else {"hosts": row.hosts}),
                    "steps_per_second": round(row.speed, 1),
                    "speed_up": round(self.speed_up(row), 3),
                    "efficiency": round(self.efficiency(row), 3),
                    "seconds": round(row.seconds, 4),
                    "sample_seconds": round(row.sample, 4),
                    "learn_seconds": round(row.learn, 4),
                    "wait_seconds": round(row.wait, 4),
                }
                for row in self.measured
            ],
            "serial_fraction": round(self.serial_fraction, 4),
            "recommended_workers": best.workers,
            "gain_of_doubling": None if (gain := self.gain_of_doubling) is None else round(gain, 3),
        }


def plot(scaling: Scaling, title: str, path: Path) -> None:
    """Draw speed and parts of an iteration against the number of workers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = scaling.measured
    first = next((row for row in rows if row.workers), rows[0])
    workers = [row.workers for row in rows]
    figure, (speeds, parts) = pyplot.subplots(1, 2, figsize=(10, 4))
    fewest = max(1, first.workers)
    reach = np.linspace(fewest, max(1.5, 1.25 * workers[-1]), 100)
    law = first.steps / (scaling.serial + scaling.parallel / reach)
    speeds.plot(workers, [row.speed for row in rows], "o", label="measured", zorder=3)
    speeds.plot(reach, law, "-", label=f"law: {scaling.serial_fraction:.0%} serial")
    speeds.plot(reach, first.speed * reach / fewest, ":", color="grey", label="ideal")
    speeds.set(xlabel="workers", ylabel="steps a second", ylim=(0, None), title="speed")
    speeds.xaxis.get_major_locator().set_params(integer=True)
    speeds.legend()
    labels = [str(row.workers) for row in rows]
    sample, learn = [row.sample for row in rows], [row.learn for row in rows]
    parts.bar(labels, sample, label="sampling")
    parts.bar(labels, learn, bottom=sample, label="learning")
    parts.set(xlabel="workers", ylabel="seconds", title="an iteration")
    parts.legend()
    figure.suptitle(title)
    figure.tight_layout()
    save(figure, path)
    pyplot.close(figure)
