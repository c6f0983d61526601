"""What is asked of a launch, and what its ranks agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_TIMEOUT = 300.0


@dataclass(frozen=True)
class LaunchOptions:
    """The flags of `muster launch`; None where the allocation decides."""

    command: Sequence[str]
    records: Path
    """Folder for the meeting, logs and timelines of launches; all hosts must share it."""
    cpus: int | None = None
    gpus: int | None = None
    nodes: int | None = None
    min_nodes: int | None = None
    head: str | None = None
    interface: str | None = None
    port_range: tuple[int, int] | None = None
    timeout: float = DEFAULT_TIMEOUT
    unset: Sequence[str] = ()
    dashboard: bool = False
