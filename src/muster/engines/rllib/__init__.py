"""RLlib as an engine: the only package that imports `ray.rllib`."""
