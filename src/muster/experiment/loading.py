"""From a TOML file, a simulator's id and overrides to an experiment, or to all that is wrong with them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from muster.errors import ExperimentError, InputError, Problem
from muster.experiment.problems import Lines, sweep_problems, validation_problems
from muster.experiment.schema import Experiment, section_model
from muster.experiment.source import DEFAULT, SUFFIX, no_such_file, read_toml, require_plain
from muster.experiment.tables import leaves, only, put
from muster.files.regular import is_regular
from muster.simulators.lookup import find_simulator, is_registered

CLUSTERS = "clusters"
"""A table that an experiment's file may end with: where it can run is no part of what it is."""

_FILE_ENDING = re.compile(r"\.[A-Za-z]{1,5}$")


@dataclass(frozen=True)
class Override:
    """A value that did not come from the file: dotted key, value, and the flag that gave it."""

    key: str
    value: Any
    source: str


@dataclass(frozen=True)
class LoadedExperiment:
    """An experiment, and for each dotted key of it where its value came from."""

    experiment: Experiment
    sources: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    subject: str = "experiment"

    def place(self, key: str) -> str:
        """Return where a key was given, as error messages say it: file and line, or flag."""
        return self.places.get(key, key)

    def replace(self, key: str, value: Any, source: str) -> LoadedExperiment:
        """Return a copy in which one dotted key has another value."""
        table = self.experiment.as_table()
        put(table, key, value)
        sources = {**self.sources, key: source}
        try:
            return replace(self, experiment=Experiment.model_validate(table), sources=sources)
        except ValidationError as error:
            lines = Lines(Path(self.subject), "")
            raise ExperimentError(self.subject, validation_problems(error, table, sources, lines)) from None

    def given(self) -> dict[str, Any]:
        """Return the table of what was given, without defaults, as a file that gives the same experiment."""
        return only(self.experiment.as_table(), lambda key: self.sources.get(key) != DEFAULT or key == "env.paths")

    def without(self, name: str) -> LoadedExperiment:
        """Return a copy that lacks a top-level key or table."""
        table = self.experiment.as_table()
        table.pop(name, None)
        kept = {key: source for key, source in self.sources.items() if key.partition(".")[0] != name}
        return replace(self, experiment=Experiment.model_validate(table), sources=kept)


def parse_set(text: str) -> Override:
    """Read one `--set key=value`; the value is read as TOML, or else taken as a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set {text}: expected KEY=VALUE, for example --set algorithm.lr=3e-4")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except ValueError:
        parsed = value
    except RecursionError:
        raise InputError(f"--set {key}: nested too deep") from None
    return Override(key.strip(), parsed, f"--set {key.strip()}")


def load_experiment(target: str | Path, overrides: Sequence[Override] = ()) -> LoadedExperiment:
    """Load an experiment file, or make an experiment of a simulator's id, and apply the overrides.

    Raises:
        ExperimentError: with every problem that was found, each with its place.
    """
    path = Path(target)
    if path.suffix == SUFFIX:
        text, table = read_toml(path)
        table.pop(CLUSTERS, None)
        given = {key: f"file {path}" for key, _ in leaves(table)}
        return _load(table, given, overrides, Lines(path, text), path.resolve().parent)
    if path.suffix == ".py":
        raise InputError(f"{target}: which class or function of it? For example: {target}:MySimulator")
    _require_no_file(path)
    table = {"env": {"id": str(target)}}
    return _load(table, {"env.id": "argument"}, overrides, Lines(path, ""), Path.cwd())


def _require_no_file(path: Path) -> None:
    """Refuse what is meant to be a file rather than a simulator's name.

    Raises:
        InputError: naming the file that is probably meant.
    """
    if not path.name or ":" in path.name or is_registered(str(path)):
        return
    if is_regular(path):
        raise InputError(f"{path}: the name of an experiment file ends with {SUFFIX}\n    rename it")
    if _FILE_ENDING.search(path.name) or is_regular(path.with_name(path.name + SUFFIX)):
        raise no_such_file(path)


def load_saved(path: Path) -> LoadedExperiment:
    """Load the resolved experiment of a run; what it names is not looked up, and so not imported.

    Raises:
        InputError: if it is not a valid experiment.
    """
    text, table = read_toml(path)
    given = {key: f"file {path}" for key, _ in leaves(table)}
    return _load(table, given, (), Lines(path, text), None)


def load_run(path: Path, name: str, overrides: Sequence[Override] = ()) -> LoadedExperiment:
    """Load the resolved experiment of a run to resume: what is asked for are the overrides alone.

    Raises:
        InputError: if it is not a valid experiment, or the overrides do not fit.
    """
    saved = load_saved(path)
    unchanged = dict.fromkeys(saved.sources, DEFAULT)
    loaded = replace(saved, sources=unchanged, places={}, subject=f"--resume {name}")
    for override in (*overrides, Override("name", name, "argument")):
        loaded = loaded.replace(override.key, override.value, override.source)
    return loaded


def load_object(experiment: Experiment, overrides: Sequence[Override] = ()) -> LoadedExperiment:
    """Take an experiment that was made in Python, and apply the overrides.

    Raises:
        ExperimentError: if these do not fit.
    """
    table = experiment.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    given = {key: "argument" for key, _ in leaves(table)}
    return _load(table, given, overrides, Lines(Path("experiment"), ""), Path.cwd())


def _load(
    table: dict[str, Any], given: dict[str, str], overrides: Sequence[Override], lines: Lines, folder: Path | None
) -> LoadedExperiment:
    """Validate a table; with a folder, its simulator is looked up too, and imported from there."""
    for override in overrides:
        put(table, override.key, override.value)
        given |= {key: override.source for key, _ in leaves({override.key: override.value})}
        given[override.key] = override.source
    require_plain(table, str(lines.path), lambda key: lines.place(key, given))
    try:
        experiment = Experiment.model_validate(table)
    except ValidationError as error:
        problems = validation_problems(error, table, given, lines)
        if folder is not None:
            problems += _simulator_problems(table, given, lines)
        raise ExperimentError(str(lines.path), problems + sweep_problems(table, given, lines)) from None
    if problems := sweep_problems(table, given, lines):
        raise ExperimentError(str(lines.path), problems)
    experiment = _with_search_paths(experiment, folder, given)
    # A section without a key, such as `[stop]` alone, gives nothing.
    keys = [key for key, _ in leaves(experiment.as_table())]
    sources = {key: DEFAULT if section_model(key) else given.get(key, DEFAULT) for key in keys}
    places = {key: lines.place(key, given) for key in given}
    return LoadedExperiment(experiment, sources, places, str(lines.path))


def _with_search_paths(experiment: Experiment, base: Path | None, given: Mapping[str, str]) -> Experiment:
    """Make the places to import from absolute, so that the run's own copy of the file works anywhere.

    Paths in a file are relative to the file, those of flags to the current folder. The run's copy is resolved
    already, and is no place to import from.
    """
    here = Path.cwd()
    root = here if base is None or given.get("env.paths", "").startswith("--") else base
    paths = [str((root / path).resolve()) for path in experiment.env.paths]
    for extra in (base or here, here):
        if str(extra) not in paths:
            paths.append(str(extra))
    if base is None:
        return experiment.model_copy(update={"env": experiment.env.model_copy(update={"paths": paths})})
    require_plain({"folder": paths}, "env.paths")
    env = experiment.env.model_copy(
        update={"paths": paths, "id": _absolute(experiment.env.id, base, given.get("env.id"))}
    )
    model = experiment.model
    if model.class_ is not None:
        model = model.model_copy(update={"class_": _absolute(model.class_, base, given.get("model.class"))})
    return experiment.model_copy(update={"env": env, "model": model})


def _absolute(name: str, base: Path, source: str | None) -> str:
    """Make the path of `path/to/file.py:Class` absolute; other names stay as they are."""
    file, colon, attribute = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        return name
    folders = (Path.cwd(), base) if source and source.startswith("--") else (base, Path.cwd())
    found = next((folder / file for folder in folders if (folder / file).is_file()), folders[0] / file)
    return f"{found.resolve()}:{attribute}"


def _simulator_problems(table: dict[str, Any], sources: Mapping[str, str], lines: Lines) -> list[Problem]:
    """Look for the simulator too, although the experiment is not valid, so that all is told at once."""
    env = table.get("env")
    identifier = env.get("id") if isinstance(env, dict) else None
    if not isinstance(identifier, str) or not identifier or identifier.partition(":")[0].endswith(".py"):
        return []
    try:
        find_simulator(identifier)
    except ExperimentError as error:
        place = lines.place("env.id", sources)
        return [Problem(place, problem.message, problem.hint) for problem in error.problems]
    return []
