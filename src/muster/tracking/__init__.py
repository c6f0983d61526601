"""Feeding experiment trackers from run folders."""
