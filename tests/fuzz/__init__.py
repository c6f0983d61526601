"""Random files, flags and damaged run folders: every command ends with a message, none with a traceback."""
