"""Engines: what trains."""
