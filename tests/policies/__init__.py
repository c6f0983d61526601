"""Tests of muster.policies."""
