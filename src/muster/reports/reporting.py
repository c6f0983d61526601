"""Which report a name asks for, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from muster.errors import InputError
from muster.reports.groups import RUN, SWEEP, Group, find_group
from muster.reports.run_report import run_page
from muster.reports.seeds_report import seeds_page
from muster.reports.sweep_report import sweep_page


@dataclass(frozen=True)
class Report:
    """What is reported on."""

    group: Group

    @property
    def folder(self) -> Path:
        """The folder that is reported on."""
        return self.group.path

    @property
    def kind(self) -> str:
        """`run`, `seeds` or `sweep`."""
        return self.group.kind

    @property
    def problems(self) -> list[str]:
        """What is missing or damaged in the folder."""
        if self.kind == RUN:
            return self.group.runs[0].problems
        return [
            *self.group.problems,
            *(f"{run.folder.name}: {problem}" for run in self.group.runs for problem in run.problems),
        ]

    def html(self, film: str | None = None) -> str:
        """Return the page.

        Raises:
            InputError: if Plotly is not installed.
        """
        if self.kind == RUN:
            return run_page(self.group.runs[0], film)
        if film is not None:
            raise InputError(f"--film: {self.folder} holds several runs\n    give one of them")
        return (
            sweep_page(self.group, self.problems) if self.kind == SWEEP else seeds_page(self.group, self.problems)
        )


def report_of(target: str, directory: Path) -> Report:
    """Read what is to be reported on.

    Raises:
        InputError: if there is no such run, sweep or folder of runs.
    """
    return Report(find_group(target, directory))
