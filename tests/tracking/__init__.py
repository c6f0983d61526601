"""Tests of feeding trackers."""
