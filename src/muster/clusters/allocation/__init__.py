"""The allocation: the hosts, CPUs, GPUs, memory and end time that a scheduler gave us, read inside it."""
