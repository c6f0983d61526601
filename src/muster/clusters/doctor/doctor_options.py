"""What is asked of an examination."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DoctorOptions:
    """The flags of `muster doctor`."""

    records: Path
    """Folder in which the ranks meet; all hosts must share it."""
    target: str | None
    """Experiment file, or a simulator's id, to be built on every host."""
    timeout: float
    """Seconds to wait for all hosts, and then for all that they found."""
    interface: str | None = None
    port_range: tuple[int, int] | None = None
