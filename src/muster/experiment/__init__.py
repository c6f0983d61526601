"""The experiment: the file, its schema, loading and overrides."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.experiment.loading import LoadedExperiment, Override, load_experiment, load_object, parse_set
    from muster.experiment.schema import Experiment

__all__ = ["Experiment", "LoadedExperiment", "Override", "load_experiment", "load_object", "parse_set"]


def __getattr__(name: str) -> Any:
    """Import a name on first use: a command that only lists runs need not load the schema."""
    if name not in __all__:
        raise AttributeError(f"module 'muster.experiment' has no attribute {name!r}")
    home = "schema" if name == "Experiment" else "loading"
    return getattr(import_module(f"muster.experiment.{home}"), name)
