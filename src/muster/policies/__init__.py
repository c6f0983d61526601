"""Policies: load, act, save. Imports no engine, and nothing but NumPy."""

from muster.policies.policy import Policy, load_policy

__all__ = ["Policy", "load_policy"]
