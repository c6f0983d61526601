"""Tests of muster.cli."""
