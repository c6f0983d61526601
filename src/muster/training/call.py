"""What a call of training is asked besides the experiment, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrainOptions:
    """What is asked of one call and is not part of the experiment."""

    runs_dir: str | Path | None = None
    resume: bool = False
    weights_from: str | Path | None = None
    show_worker_output: bool = False
    trust: bool = False
    """Resume, or take weights from, a run that another user could have changed: it runs code from its files."""


@dataclass(frozen=True)
class TrainResult:
    """What came of a run; `--json` prints exactly these."""

    run: str
    state: str
    reason: str
    steps: int
    iterations: int
    return_mean: float | None
    checkpoint: str | None
    exit_code: int
