"""muster trains a reinforcement-learning agent in your own simulator, on a laptop or a supercomputer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster import training
    from muster.api.comparing import compare
    from muster.api.evaluating import evaluate
    from muster.api.policies import load_policy
    from muster.api.run import Run, runs
    from muster.api.training import sweep, train
    from muster.experiment import Experiment
    from muster.policies import Policy
    from muster.training import Training, TrainOptions, TrainResult
    from muster.training.listener import Silence as Callback

__version__ = "0.1.0"

_HOMES = {
    "Callback": ("muster.training.listener", "Silence"),
    "Experiment": ("muster.experiment", "Experiment"),
    "Policy": ("muster.policies", "Policy"),
    "Run": ("muster.api.run", "Run"),
    "TrainOptions": ("muster.training", "TrainOptions"),
    "TrainResult": ("muster.training", "TrainResult"),
    "Training": ("muster.training", "Training"),
    "compare": ("muster.api.comparing", "compare"),
    "evaluate": ("muster.api.evaluating", "evaluate"),
    "load_policy": ("muster.api.policies", "load_policy"),
    "sweep": ("muster.api.training", "sweep"),
    "train": ("muster.api.training", "train"),
}
_CALLABLE_ROOMS = ("runs", "training")
"""Packages that can be called: `muster.runs()`, `muster.training(...)`."""
__all__ = [
    "Callback",
    "Experiment",
    "Policy",
    "Run",
    "TrainOptions",
    "TrainResult",
    "Training",
    "__version__",
    "compare",
    "evaluate",
    "load_policy",
    "runs",
    "sweep",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that a worker or a saved policy loads only what it needs."""
    if name in _CALLABLE_ROOMS:
        return import_module(f"muster.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """List what there is to use, for completion."""
    return sorted(__all__)
