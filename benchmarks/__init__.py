"""Measurements: each prints what it measured, beside what it is compared with."""
