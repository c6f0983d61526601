"""Places where runs live that are not on this file system, and how muster's commands reach them."""
