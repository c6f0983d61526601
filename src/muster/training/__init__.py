"""Training: build, step, record, checkpoint, stop."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from muster.training.call import TrainOptions, TrainResult
from muster.training.train import Training, train

__all__ = ["TrainOptions", "TrainResult", "Training", "train"]


class _Callable(ModuleType):
    """Lets `for row in muster.training(experiment): ...` be written beside imports from this package."""

    def __call__(self, *arguments: Any, **options: Any) -> Training:
        return Training(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
