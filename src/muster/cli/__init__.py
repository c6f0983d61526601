"""The command line: one command a file; a result in, a person's text or JSON out."""
