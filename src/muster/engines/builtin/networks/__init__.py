"""Policy and value networks behind one protocol, and the rows that they read."""
