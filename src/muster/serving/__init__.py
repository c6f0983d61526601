"""The pages of all runs below a folder, live in a browser."""
