"""Training: build, step, record, checkpoint, stop."""

from muster.training.train import TrainOptions, TrainResult, train

__all__ = ["TrainOptions", "TrainResult", "train"]
