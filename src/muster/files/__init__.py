"""Files that others may have written: what may be read, and whose they are."""
