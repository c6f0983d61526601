"""Classes and functions that no other process can import, such as those of a notebook: kept in files, by value."""

from __future__ import annotations

import hashlib
import inspect
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster.errors import InputError
from muster.files.ownership import OWN_FOLDER

SUFFIX = ".simulator"
"""Of the files; a name such as `folder/Tank-1a2b3c4d.simulator:Tank` stands for what is in one."""
FOLDER = ".carried"
"""Beside the runs that use them."""
DIGITS = 32
"""Of the digest of its content, in a file's name."""


def name_of(thing: Any, folder: Path, expected: str) -> tuple[str, str | None]:
    """Return a name by which any process finds a class or function, and the folder to import it from, if any.

    What cannot be imported is written into a file in `folder`.

    Raises:
        InputError: if it is neither class nor function, or cannot be written.
    """
    if not is_code(thing):
        kind = type(thing).__name__
        raise InputError(
            f"expected {expected}, not an object of {kind}\n    pass the class itself, without brackets"
        )
    module = sys.modules.get(thing.__module__)
    file = getattr(module, "__file__", None)
    is_found = getattr(module, thing.__qualname__, None) is thing
    if file is None or not is_found or thing.__module__ == "__main__":
        return _written(thing, folder), None
    depth = thing.__module__.count(".") + (Path(file).name == "__init__.py")
    return f"{thing.__module__}:{thing.__qualname__}", str(Path(file).resolve().parents[depth])


def is_code(thing: Any) -> bool:
    """Return whether something is a class or a function."""
    return inspect.isclass(thing) or inspect.isfunction(thing)


def is_carried(identifier: str) -> bool:
    """Return whether a name stands for what such a file holds."""
    return identifier.rpartition(":")[0].endswith(SUFFIX)


def load_carried(path: Path) -> Callable[..., Any]:
    """Return what a file holds, if it is what its name says: to load it is to run its code.

    Raises:
        OSError: if there is no such file.
        ValueError: if its content has changed.
    """
    import cloudpickle

    content = path.read_bytes()
    written = path.name.removesuffix(SUFFIX).rpartition("-")[2]
    if len(written) < DIGITS or not hashlib.sha256(content).hexdigest().startswith(written):
        raise ValueError("its content is not what was written")
    loaded: Callable[..., Any] = cloudpickle.loads(content)
    return loaded


def _written(thing: Any, folder: Path) -> str:
    import cloudpickle

    try:
        content = cloudpickle.dumps(thing)
    except Exception as error:
        raise InputError(
            f"{thing.__qualname__} cannot be sent to other processes ({type(error).__name__}: {error})\n"
            "    put it into a file of its own, and import it from there"
        ) from None
    name = thing.__name__.strip("<>")
    path = folder / f"{name}-{hashlib.sha256(content).hexdigest()[:DIGITS]}{SUFFIX}"
    if not path.exists():
        folder.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content)
        Path(file.name).replace(path)
    return f"{path.resolve()}:{name}"
