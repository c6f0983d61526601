"""Launching: one Ray over all hosts of an allocation, a command on its head, and nothing left afterwards."""
