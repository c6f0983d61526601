"""Tests of what `import muster` offers."""
