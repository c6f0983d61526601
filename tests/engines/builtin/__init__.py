"""Tests of muster.engines.builtin."""
