"""`muster.load_policy`: from a folder, or by the name of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from muster import policies

if TYPE_CHECKING:
    from muster.api.run import Run
    from muster.policies import Policy
    from muster.training.call import TrainResult


def load_policy(path: str | Path | Run | TrainResult, *, trust: bool = False) -> Policy:
    """Load a policy of a run (its best checkpoint), by name or folder, of a checkpoint, or of any folder with one.

    A policy of the built-in network needs NumPy alone, and runs no code of its files. The other kinds import the
    network's class that they name, and so must be your own, or trusted.

    Raises:
        InputError: if there is no policy there, or what it needs is not installed.
        OwnershipError: if it would run code from files that another user can change.
        CheckpointError: if its files are damaged.
    """
    if not isinstance(path, str | Path):
        from muster.api.run import Run

        path = Run(path).path
    elif not Path(path).exists():
        from muster.runs.folder import runs_dir

        path = folder if (folder := runs_dir(None) / path).exists() else path
    return policies.load_policy(path, trust=trust)
