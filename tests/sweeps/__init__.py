"""Tests of muster.sweeps."""
