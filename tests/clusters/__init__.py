"""Tests of muster.clusters."""
