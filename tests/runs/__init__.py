"""Tests of muster.runs."""
