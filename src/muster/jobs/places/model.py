"""A place: where runs live that are not on this file system. Muster's own commands are run for them there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from muster.jobs.places.record import Elsewhere, RunElsewhere

Notice = Callable[[str], None]


class Place(Protocol):
    """Where a run lives."""

    def run(self, arguments: Sequence[str], *, may_ask: bool = False) -> str:
        """Run a command of muster's there; return what it prints.

        Raises:
            UnansweredError: if the place cannot be reached; nothing may be done because of it.
            JobError: with what the command says, if it fails.
        """
        ...

    def attend(self, arguments: Sequence[str], *, host: str | None = None) -> int:
        """Run a command there with this process's terminal and output, until it ends; return its exit code."""
        ...

    def cancel(self, run: RunElsewhere, notice: Notice) -> bool:
        """Save and end a run; return whether there was anything left to end."""
        ...

    def fetch(self, run: RunElsewhere, target: Path, *, only: str | None = None) -> None:
        """Bring what is new of a run's folder to a folder here; nothing there is changed or removed.

        With `only`, nothing but folders of that name below it, and nobody is asked for a password.
        """
        ...

    def early_state(self, run: RunElsewhere) -> tuple[str, str] | None:
        """Return state and reason of a run that has not begun, where muster there cannot know; else None."""
        ...


def find_place(record: Elsewhere) -> Place:
    """Return the place of a run."""
    if record.kind == "ray":
        from muster.jobs.places.ray import RayPlace

        return RayPlace(record)
    from muster.jobs.places.ssh import SshPlace

    return SshPlace(record)
