"""The built-in engine: PPO and TRPO on Ray actors, or in this process."""
