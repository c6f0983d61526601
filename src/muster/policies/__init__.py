"""Policies: load, act, save. Imports no engine until a policy of that engine is loaded; else NumPy alone."""

from muster.policies.policy import Policy, load_policy

__all__ = ["Policy", "load_policy"]
