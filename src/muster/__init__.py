"""muster trains a reinforcement-learning agent in your own simulator, on a laptop or a supercomputer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster import training
    from muster.experiment import Experiment
    from muster.policies import Policy, load_policy
    from muster.training import Training, TrainResult, train

__version__ = "0.1.0"
__all__ = ["Experiment", "Policy", "TrainResult", "Training", "__version__", "load_policy", "train", "training"]

_HOMES = {
    "Experiment": "muster.experiment",
    "Policy": "muster.policies",
    "TrainResult": "muster.training",
    "Training": "muster.training",
    "load_policy": "muster.policies",
    "train": "muster.training",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that a worker or a saved policy loads only what it needs."""
    if name == "training":
        return import_module("muster.training")
    if name not in _HOMES:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
