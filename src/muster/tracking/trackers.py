"""The trackers there are, each imported only when it is asked for."""

from __future__ import annotations

from pathlib import Path

from muster.errors import InputError
from muster.extras import how_to_install
from muster.tracking.tracker import Tracker

TRACKERS = ("mlflow", "tensorboard", "trackio", "wandb")
DEFAULT_PROJECT = "muster"


def open_tracker(kind: str, project: str, at: str | None) -> Tracker:
    """Return a tracker.

    Raises:
        InputError: if there is no such tracker, or its package is not installed.
    """
    if kind not in TRACKERS:
        raise InputError(f"--to {kind}: expected one of {', '.join(TRACKERS)}")
    try:
        return _tracker(kind, project, at)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed, which --to {kind} needs{how_to_install('track')}"
        ) from None


def _tracker(kind: str, project: str, at: str | None) -> Tracker:
    if kind == "mlflow":
        from muster.tracking.mlflow_tracker import MlflowTracker

        return MlflowTracker(project, at)
    if kind == "wandb":
        from muster.tracking.wandb_tracker import WandbTracker

        return WandbTracker(project, at)
    if kind == "trackio":
        from muster.tracking.trackio_tracker import TrackioTracker

        if at is not None:
            raise InputError("--at: Trackio has its database where TRACKIO_DIR says; leave --at out")
        return TrackioTracker(project)

    from muster.tracking.tensorboard_tracker import TensorboardTracker

    if at is None:
        raise InputError("--to tensorboard: expected a folder for its files: --at FOLDER")
    return TensorboardTracker(Path(at))
