"""Find the user's simulator by its name and build it."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from muster.errors import ExperimentError, MusterError, Problem, SimulatorError
from muster.simulators.placeholders import filled_in
from muster.simulators.shipped_code import placed

if TYPE_CHECKING:
    import gymnasium

_GYMNASIUM_ID = re.compile(r"(?:[\w.]+:)?(?:[\w.-]+/)?[\w.:-]+-v\d+")


@dataclass(frozen=True)
class Simulator:
    """How to build the user's simulator; plain data, so that any worker can build its own.

    `folder` holds the folders of those that ask for one; `spare_index` is that of a simulator beside the trained
    ones.
    """

    id: str
    config: dict[str, Any] = field(default_factory=dict)
    wrappers: Sequence[str | dict[str, Any]] = ()
    max_episode_steps: int | None = None
    paths: Sequence[str] = ()
    folder: str = "simulators"
    spare_index: int = 0

    def build(self, render_mode: str | None = None, index: int | None = None) -> gymnasium.Env[Any, Any]:
        """Build one simulator; no two that live at the same time may have the same index.

        Raises:
            ExperimentError: if there is no such simulator or wrapper.
            Exception: whatever the simulator's own constructor raises.
        """
        import gymnasium

        _extend_search_path(self.paths)
        index = self.spare_index if index is None else index
        config = filled_in(self.config, index, Path(self.folder).absolute() / f"{index:04d}")
        if _is_gymnasium_id(self.id):
            env = self._build_registered(render_mode, config)
        else:
            env = self._build_imported(render_mode, config)
        for wrapper in self.wrappers:
            entry = {"class": wrapper} if isinstance(wrapper, str) else dict(wrapper)
            env = import_attribute(str(entry.pop("class", "")), "env.wrappers")(env, **entry)
        if not isinstance(env, gymnasium.Env):
            raise ExperimentError(
                self.id,
                [
                    Problem(
                        "env.id",
                        f"gives a {type(env).__name__}, expected a gymnasium.Env",
                        "derive the simulator from gymnasium.Env, with reset(seed=..., options=...) and a "
                        "step that returns five values",
                    )
                ],
            )
        return env

    def reward_threshold(self) -> float | None:
        """Return the return at which the simulator counts as solved, if it is registered with one."""
        import gymnasium

        if not _is_gymnasium_id(self.id):
            return None
        return gymnasium.spec(self.id).reward_threshold

    def _build_registered(self, render_mode: str | None, config: dict[str, Any]) -> gymnasium.Env[Any, Any]:
        import gymnasium

        _require_registered(self.id)
        options = {"max_episode_steps": self.max_episode_steps} if self.max_episode_steps else {}
        return gymnasium.make(self.id, disable_env_checker=True, render_mode=render_mode, **options, **config)

    def _build_imported(self, render_mode: str | None, config: dict[str, Any]) -> gymnasium.Env[Any, Any]:
        import gymnasium

        from muster.simulators.old_gym import OldGymAdapter, is_old

        maker = import_attribute(self.id, "env.id")
        parameters = inspect.signature(maker).parameters
        names = {name for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD} - {"render_mode"}
        arguments: dict[str, Any] = dict(config)
        if len(names) == 1 and (only := names.pop()) in ("config", "env_config"):
            arguments = {only: dict(config)}
        if render_mode and "render_mode" in parameters:
            arguments["render_mode"] = render_mode
        env: gymnasium.Env[Any, Any] = maker(**arguments)
        if is_old(env):
            env = OldGymAdapter(env)
        if self.max_episode_steps:
            env = gymnasium.wrappers.TimeLimit(env, self.max_episode_steps)
        return env


def build_explained(simulator: Simulator, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Build a simulator; what its own code raises becomes an error for the user, with its traceback.

    Raises:
        SimulatorError: if it cannot be built.
    """
    with simulator_errors(f"{simulator.id}: the simulator could not be built"):
        return simulator.build(render_mode)


def close_problem(env: gymnasium.Env[Any, Any]) -> str | None:
    """Close a simulator that is no longer needed; return the traceback of what it raised, if it did."""
    try:
        env.close()
    except Exception:
        return traceback.format_exc()
    return None


@contextmanager
def simulator_errors(what: str) -> Iterator[None]:
    """Turn whatever the simulator's own code raises into a `SimulatorError` with its traceback."""
    try:
        yield
    except MusterError:
        raise
    except Exception as error:
        raise SimulatorError(f"{what}: {type(error).__name__}: {error}\n\n{traceback.format_exc()}") from None


def find_simulator(identifier: str, paths: Sequence[str] = ()) -> None:
    """Look whether there is a simulator of that name, without building it.

    Raises:
        ExperimentError: if there is none.
    """
    _extend_search_path(paths)
    if _is_gymnasium_id(identifier):
        _require_registered(identifier)
    else:
        import_attribute(identifier, "env.id")


def _require_registered(identifier: str) -> None:
    import gymnasium

    try:
        gymnasium.spec(identifier)
    except ModuleNotFoundError as error:
        module = identifier.partition(":")[0]
        raise ExperimentError(identifier, [Problem("env.id", f"no module {module!r}: {error}")]) from None
    except gymnasium.error.Error:
        raise ExperimentError(identifier, [_no_such_id(identifier)]) from None


def _is_gymnasium_id(identifier: str) -> bool:
    return ":" not in identifier or _GYMNASIUM_ID.fullmatch(identifier) is not None


def _no_such_id(identifier: str) -> Problem:
    import gymnasium

    near = difflib.get_close_matches(identifier, list(gymnasium.registry), n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return Problem(
        "env.id",
        f"no simulator {identifier!r} is registered with Gymnasium",
        f"{hint}For your own, give module:Class or path/to/file.py:Class",
    )


def _extend_search_path(paths: Sequence[str]) -> None:
    for path in map(placed, paths):
        if path not in sys.path:
            sys.path.append(path)


def import_attribute(name: str, key: str, paths: Sequence[str] = ()) -> Callable[..., Any]:
    """Import `module:attribute`, `module.attribute` or `path/to/file.py:attribute`; `key` is where it was named.

    Raises:
        ExperimentError: if there is no such thing.
    """
    _extend_search_path(paths)
    source, colon, attribute = name.rpartition(":")
    if not colon:
        source, _, attribute = name.rpartition(".")
    if not source or not attribute:
        raise ExperimentError(name, [Problem(key, f"{name!r}: expected module:Class or path/to/file.py:Class")])
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


def _import_file(path: Path, key: str) -> ModuleType:
    """Import a file as the module of its own name, so that its classes pickle the same in every process."""
    if not path.is_file():
        raise ExperimentError(str(path), [Problem(key, f"no such file: {path}")])
    path, name = path.resolve(), path.stem
    if (loaded := sys.modules.get(name)) is not None:
        if Path(getattr(loaded, "__file__", None) or "") == path:
            return loaded
        raise ExperimentError(
            str(path), [Problem(key, f"a module {name!r} is loaded already", "give the file another name")]
        )
    _extend_search_path([str(path.parent)])
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
