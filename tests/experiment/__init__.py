"""Tests of muster.experiment."""
