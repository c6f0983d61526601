"""Fake schedulers on PATH: PBS, Cobalt, LSF and Flux, which run jobs on this machine or on the lab's hosts."""
