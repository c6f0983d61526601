"""`muster.compare`: runs, folders of several seeds or sweeps beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.api.pictures import Picture
from muster.api.run import as_frame, name_of_run
from muster.reports import comparison as reports
from muster.reports.comparison_file import write_comparison
from muster.reports.pictures import draw_comparison
from muster.runs.folder import runs_dir as folder_of_runs

if TYPE_CHECKING:
    from muster.api.run import Run
    from muster.training.call import TrainResult


class Comparison:
    """Several runs or groups of seeds; the first is what the others are compared with."""

    def __init__(self, found: reports.Comparison) -> None:
        self._found = found

    @property
    def table(self) -> Any:
        """A row for each: final return with interval, efficiency; a DataFrame with pandas, else dicts."""
        rows = reports.as_rows(self._found)
        return as_frame([dict(zip(reports.HEADINGS, row, strict=True)) for row in rows])

    @property
    def verdicts(self) -> dict[str, str]:
        """What can be said of each beside the first, in words."""
        return {entry.name: self._found.verdict(entry) for entry in self._found.entries[1:]}

    @property
    def notes(self) -> list[str]:
        """What a reader has to know before comparing."""
        return self._found.notes()

    @property
    def differences(self) -> dict[str, tuple[str, ...]]:
        """The keys of the experiments that differ."""
        return self._found.differences()

    def plot(self) -> Picture:
        """Draw curves with their intervals, and the final returns."""
        return Picture(draw_comparison(self._found), ", ".join(entry.name for entry in self._found.entries))

    def save(self, path: str | Path) -> None:
        """Write a page (.html), a picture (.png, .pdf, .svg) or a table (.csv), as the file's name says."""
        write_comparison(self._found, Path(path))

    def __repr__(self) -> str:
        parts = []
        for entry in self._found.entries:
            final = "no return" if entry.final is None else f"{entry.final.value:.4g}"
            parts.append(f"{entry.name}: {final}")
        return f"Comparison({', '.join(parts)})"

    def _repr_png_(self) -> bytes:
        return self.plot()._repr_png_()


def compare(*runs: str | Path | Run | TrainResult, runs_dir: str | Path | None = None) -> Comparison:
    """Compare runs, folders of several seeds, or sweeps (of which the best trial is taken).

    Raises:
        InputError: if one of them is not there.
    """
    names = [str(name_of_run(run)) for run in runs]
    return Comparison(reports.compare(names, folder_of_runs(runs_dir)))
