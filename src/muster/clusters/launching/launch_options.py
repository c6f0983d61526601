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
    head_address: tuple[str, int] | None = None
    """Where the ranks meet if they share no folder; the host is the head's."""
    interface: str | None = None
    port_range: tuple[int, int] | None = None
    timeout: float = DEFAULT_TIMEOUT
    unset: Sequence[str] = ()
    setup: Sequence[str] = ()
    """Shell lines that make the environment of Ray and the command on each host."""
    dashboard: bool = False
    grace: float | None = None
    """Seconds between a signal that ends the launch and the end of all; None: as long as the scheduler waits."""
