"""Jobs: scripts, states and chains, against fake schedulers."""
