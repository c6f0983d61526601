"""Find what an experiment names: a registered id, `module:Class`, or `path/to/file.py:Class`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from muster.errors import ExperimentError, Problem
from muster.files.carried import is_carried, load_carried
from muster.simulators.registrations import registering_module
from muster.simulators.shipped_code import placed

ENVPOOL = "envpool"
_ENVPOOL_NEEDED = "envpool>=1.0.1"
_GYMNASIUM_ID = re.compile(r"(?:[\w.]+:)?(?:[\w.-]+/)?[\w.:-]+-v\d+")


def find_simulator(identifier: str, paths: Sequence[str] = (), imports: Sequence[str] = ()) -> None:
    """Look whether there is a simulator of that name, without building it.

    Raises:
        ExperimentError: if there is none.
    """
    extend_search_path(paths)
    import_modules(imports)
    if envpool_id(identifier) is not None:
        require_in_envpool(identifier)
    elif is_gymnasium_id(identifier):
        require_registered(identifier)
    else:
        import_attribute(identifier, "env.id")


def import_modules(names: Sequence[str]) -> None:
    """Import modules that register simulators.

    Raises:
        ExperimentError: if one cannot be imported.
    """
    for name in names:
        _import_module(name, "env.import")


def _import_module(name: str, key: str) -> None:
    try:
        importlib.import_module(name)
    except Exception as error:
        raise ExperimentError(name, [_import_problem(name, key, error)]) from None


def is_batched(identifier: str, config: Mapping[str, Any], vectorized: bool | None) -> bool:
    """Return whether a simulator is one that steps many at once: as said, or else as can be seen from its name.

    A class or function that takes `num_envs` does, unless the configuration gives it.

    Raises:
        ExperimentError: if it is said of an EnvPool that it does not.
    """
    if (name := envpool_id(identifier)) is not None:
        if vectorized is False:
            hint = f'leave it out; Gymnasium\'s own simulator, if it has one, is env.id = "{name}"'
            problem = Problem("env.vectorized", "false: an EnvPool always steps many at once", hint)
            raise ExperimentError(identifier, [problem])
        return True
    if vectorized is not None:
        return vectorized
    if is_gymnasium_id(identifier):
        return False
    found = import_attribute(identifier, "env.id")
    try:
        return "num_envs" in inspect.signature(found).parameters and "num_envs" not in config
    except (TypeError, ValueError):
        return False


def envpool_id(identifier: str) -> str | None:
    """Return the id that EnvPool has for a simulator named `envpool:ID`; None for any other name."""
    module, colon, name = identifier.partition(":")
    return name if colon and module == ENVPOOL else None


def require_in_envpool(identifier: str) -> None:
    """Look whether EnvPool has what `envpool:ID` names.

    Raises:
        ExperimentError: if it does not, or is not there.
    """
    try:
        envpool = importlib.import_module(ENVPOOL)
    except ImportError as error:
        message = f"EnvPool cannot be imported: {error}"
        raise ExperimentError(
            identifier, [Problem("env.id", message, f"pip install '{_ENVPOOL_NEEDED}'")]
        ) from None
    if not hasattr(envpool.registration.registry, "_normalize_env_seed"):
        message = f"EnvPool {envpool.__version__} takes no seed for each of its simulators"
        raise ExperimentError(identifier, [Problem("env.id", message, f"pip install '{_ENVPOOL_NEEDED}'")])
    known, name = envpool.list_all_envs(), envpool_id(identifier)
    if name not in known:
        near = difflib.get_close_matches(str(name), known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        raise ExperimentError(identifier, [Problem("env.id", f"EnvPool has no {name!r}", hint)])


def require_registered(identifier: str) -> None:
    """Look whether Gymnasium knows an id; in `module:Id-v0`, the module is imported first.

    Raises:
        ExperimentError: if it does not.
    """
    import gymnasium

    module, _, name = identifier.rpartition(":")
    if module:
        _import_module(module, "env.id")
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error:
        raise ExperimentError(identifier, [_no_such_id(module, name)]) from None


def is_registered(identifier: str) -> bool:
    """Return whether Gymnasium knows an id by now, without importing anything for it."""
    import gymnasium

    try:
        gymnasium.spec(identifier)
    except (gymnasium.error.Error, ImportError):
        return False
    return True


def is_gymnasium_id(identifier: str) -> bool:
    """Return whether a name is an id of Gymnasium's, rather than a class or function."""
    return ":" not in identifier or _GYMNASIUM_ID.fullmatch(identifier) is not None


def _no_such_id(module: str, name: str) -> Problem:
    import gymnasium

    message = f"no simulator {name!r} is registered with Gymnasium" + (f" by {module}" if module else "")
    found = None if module else registering_module(name)
    if found == ENVPOOL:
        return Problem("env.id", message, f'EnvPool has it: env.id = "{ENVPOOL}:{name}"')
    if found and found not in sys.modules:
        hint = f'its package must be imported first: env.import = ["{found}"], or env.id = "{found}:{name}"'
        return Problem("env.id", message, hint)
    near = difflib.get_close_matches(name, list(gymnasium.registry), n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return Problem("env.id", message, f"{hint}For your own, give module:Class or path/to/file.py:Class")


def extend_search_path(paths: Sequence[str]) -> None:
    """Let modules be found in these folders, too."""
    for path in map(placed, paths):
        if path not in sys.path:
            sys.path.append(path)


def import_attribute(name: str, key: str, paths: Sequence[str] = ()) -> Callable[..., Any]:
    """Import `module:attribute`, `module.attribute` or `path/to/file.py:attribute`; `key` is where it was named.

    Raises:
        ExperimentError: if there is no such thing.
    """
    extend_search_path(paths)
    source, colon, attribute = name.rpartition(":")
    if not colon:
        source, _, attribute = name.rpartition(".")
    if not source or not attribute:
        raise ExperimentError(name, [Problem(key, f"{name!r}: expected module:Class or path/to/file.py:Class")])
    if is_carried(name):
        return _load_carried(Path(placed(source)), key)
    try:
        module = (
            _import_file(Path(placed(source)), key) if source.endswith(".py") else importlib.import_module(source)
        )
    except ExperimentError:
        raise
    except Exception as error:
        raise ExperimentError(name, [_import_problem(source, key, error)]) from None
    found = getattr(module, attribute, None)
    if not callable(found):
        names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        near = difflib.get_close_matches(attribute, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(names) or 'no class or function'}"
        raise ExperimentError(name, [Problem(key, f"{source} has no class or function {attribute!r}", hint)])
    return found  # type: ignore[no-any-return]


def _load_carried(path: Path, key: str) -> Callable[..., Any]:
    try:
        return load_carried(path)
    except Exception as error:
        hint = "it holds a class of a notebook or script: train again from there"
        message = f"cannot be read: {type(error).__name__}: {error}"
        raise ExperimentError(str(path), [Problem(key, message, hint)]) from None


def _import_file(path: Path, key: str) -> ModuleType:
    """Import a file as the module of its own name, so that its classes pickle the same in every process."""
    if not path.is_file():
        raise ExperimentError(str(path), [Problem(key, f"no such file: {path}")])
    path, name = path.resolve(), path.stem
    if (loaded := sys.modules.get(name)) is not None:
        source = getattr(loaded, "__file__", None)
        if Path(source or "") == path:
            return loaded
        message = f"a module {name!r} is loaded already, from {source or 'Python itself'}"
        raise ExperimentError(str(path), [Problem(key, message, "give the file another name")])
    extend_search_path([str(path.parent)])
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_problem(source: str, key: str, error: Exception) -> Problem:
    if isinstance(error, ModuleNotFoundError) and error.name and source.startswith(error.name):
        return Problem(
            key,
            f"no module {error.name!r}",
            'install it, or name the folder it is in: env.paths = ["..."]',
        )
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" ({own[-1].filename}:{own[-1].lineno})" if len(own) > 1 else ""
    return Problem(key, f"importing {source!r} failed: {type(error).__name__}: {error}{where}")
