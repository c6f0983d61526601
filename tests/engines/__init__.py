"""Tests of muster.engines."""
