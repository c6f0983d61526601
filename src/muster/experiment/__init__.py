"""The experiment: the file, its schema, loading and overrides."""

from muster.experiment.loading import LoadedExperiment, Override, load_experiment, load_object, parse_set
from muster.experiment.schema import Experiment

__all__ = ["Experiment", "LoadedExperiment", "Override", "load_experiment", "load_object", "parse_set"]
