"""Sending what run folders record to experiment trackers."""
