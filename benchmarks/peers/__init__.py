"""Other frameworks' PPO on the same workloads: one program each, run by the Python of its own environment."""
