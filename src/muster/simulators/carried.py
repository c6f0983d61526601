"""Classes and functions that no other process can import, such as those of a notebook: kept in files, by value."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle

from muster.errors import InputError

SUFFIX = ".simulator"
"""Of the files; a name such as `folder/Tank-1a2b3c4d.simulator:Tank` stands for what is in one."""


def name_of(simulator: Any, folder: Path) -> tuple[str, str | None]:
    """Return a name by which any process finds a class or function, and the folder to import it from, if it needs one.

    One that cannot be imported is written into a file in `folder`.

    Raises:
        InputError: if it is neither, or cannot be written.
    """
    if not (inspect.isclass(simulator) or inspect.isfunction(simulator)):
        kind = type(simulator).__name__
        hint = f"pass the class itself ({kind}, without brackets), or a function that makes one"
        raise InputError(
            f"a simulator is built many times: expected a class or a function, not a {kind}\n    {hint}"
        )
    module = sys.modules.get(simulator.__module__)
    file = getattr(module, "__file__", None)
    is_found = getattr(module, simulator.__qualname__, None) is simulator
    if file is not None and is_found and simulator.__module__ != "__main__":
        root = Path(file).resolve().parents[simulator.__module__.count(".") + (Path(file).name == "__init__.py")]
        return f"{simulator.__module__}:{simulator.__qualname__}", str(root)
    return _written(simulator, folder), None


def _written(simulator: Any, folder: Path) -> str:
    try:
        content = cloudpickle.dumps(simulator)
    except Exception as error:
        raise InputError(
            f"{simulator.__qualname__} cannot be sent to other processes ({type(error).__name__}: {error})\n"
            "    put it into a file of its own, and import it from there"
        ) from None
    name = simulator.__name__.strip("<>")
    path = folder / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}{SUFFIX}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.touch(0o600)
        beside.write_bytes(content)
        beside.replace(path)
    return f"{path.resolve()}:{name}"


def is_carried(identifier: str) -> bool:
    """Return whether a name stands for what such a file holds."""
    return identifier.rpartition(":")[0].endswith(SUFFIX)


def short_name(identifier: str) -> str:
    """Return the name that a carried class or function has itself."""
    return identifier.rpartition(":")[2]


def load_carried(path: Path) -> Callable[..., Any]:
    """Return what a file holds.

    Raises:
        OSError: if there is no such file.
    """
    loaded: Callable[..., Any] = cloudpickle.loads(path.read_bytes())
    return loaded
