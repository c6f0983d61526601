"""The only room that calls a live simulator: build, reset, step, close, and what may go wrong."""
