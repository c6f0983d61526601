"""Sweeps: trials of one experiment with other values, on Tune."""

from muster.sweeps.summary import SweepResult
from muster.sweeps.sweep import SweepOptions, sweep

__all__ = ["SweepOptions", "SweepResult", "sweep"]
