"""Tests of muster.training."""
