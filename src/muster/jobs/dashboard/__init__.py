"""Ray's dashboard and TensorBoard of a run, wherever it is, on a page of this machine."""
