"""Tests of muster.simulators."""
