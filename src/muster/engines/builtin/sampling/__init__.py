"""Env groups, what they sample, and who steps them: this process, or workers."""
