"""Runs: every path of a run, its records, its state."""
