"""Simulators: find the user's, check it, encode its spaces."""
