"""What comes of runs, for a person to look at."""
