"""Jobs of a scheduler, seen from outside the allocation: submit, watch, cancel, and go past the wall time."""
