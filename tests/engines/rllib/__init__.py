"""Tests of muster.engines.rllib."""
