"""Tests of jobs, seen from outside the allocation."""
