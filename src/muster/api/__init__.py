"""muster from Python and in notebooks: what `import muster` offers, over the same library as the commands."""
