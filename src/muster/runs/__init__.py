"""The run folder: every path, the records, the state."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """Lets `muster.runs()` list the runs, beside imports from this package; the list itself is in `muster.api`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_module("muster.api.run").runs(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
