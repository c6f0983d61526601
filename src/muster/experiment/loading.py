"""From a TOML file, a simulator's id and overrides to an experiment, or to all that is wrong with them."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from muster.errors import ExperimentError, InputError, Problem
from muster.experiment.schema import ALGORITHM_TAGS, ALGORITHMS, Experiment, section_model
from muster.experiment.sweep_checking import conflicts, dotted, readable_part, refusals
from muster.simulators.building import find_simulator


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
        _put(table, key, value)
        experiment = Experiment.model_validate(table)
        return replace(self, experiment=experiment, sources={**self.sources, key: source})

    def given(self) -> dict[str, Any]:
        """Return the table of what was given, without defaults, as a file that gives the same experiment."""
        table: dict[str, Any] = {}
        for key, value in _leaves(self.experiment.as_table()):
            if self.sources.get(key) != "default" or key == "env.paths":
                _put(table, key, value)
        return table

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
    except tomllib.TOMLDecodeError:
        parsed = value
    return Override(key.strip(), parsed, f"--set {key.strip()}")


def load_experiment(target: str | Path, overrides: Sequence[Override] = ()) -> LoadedExperiment:
    """Load an experiment file, or make an experiment of a simulator's id, and apply the overrides.

    Raises:
        ExperimentError: with every problem that was found, each with its place.
    """
    path = Path(target)
    if path.suffix == ".toml":
        text, table = _read(path)
        given = {key: f"file {path}" for key, _ in _leaves(table)}
        return _load(table, given, overrides, _Lines(path, text), path.resolve().parent)
    if path.suffix == ".py":
        raise InputError(f"{target}: which class or function of it? For example: {target}:MySimulator")
    table = {"env": {"id": str(target)}}
    return _load(table, {"env.id": "argument"}, overrides, _Lines(path, ""), Path.cwd())


def load_object(experiment: Experiment, overrides: Sequence[Override] = ()) -> LoadedExperiment:
    """Take an experiment that was made in Python, and apply the overrides.

    Raises:
        ExperimentError: if these do not fit.
    """
    table = experiment.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    given = {key: "argument" for key, _ in _leaves(table)}
    return _load(table, given, overrides, _Lines(Path("experiment"), ""), Path.cwd())


def _load(
    table: dict[str, Any], given: dict[str, str], overrides: Sequence[Override], lines: _Lines, folder: Path
) -> LoadedExperiment:
    for override in overrides:
        _put(table, override.key, override.value)
        leaves = _leaves({override.key: override.value})
        given |= {override.key: override.source, **{key: override.source for key, _ in leaves}}
    try:
        experiment = Experiment.model_validate(table)
    except ValidationError as error:
        problems = _problems(error, table, given, lines) + _simulator_problems(table, given, lines)
        raise ExperimentError(str(lines.path), problems + _sweep_problems(table, given, lines)) from None
    if problems := _sweep_problems(table, given, lines):
        raise ExperimentError(str(lines.path), problems)
    experiment = _with_search_paths(experiment, folder)
    sources = {key: given.get(key, "default") for key, _ in _leaves(experiment.as_table())}
    places = {key: lines.place(key, given) for key in given}
    return LoadedExperiment(experiment, sources, places, str(lines.path))


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file\n    `muster init` writes one to start from") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def _with_search_paths(experiment: Experiment, base: Path) -> Experiment:
    """Make the places to import from absolute, so that the run's own copy of the file works anywhere."""
    paths = [str((base / path).resolve()) for path in experiment.env.paths]
    for extra in (base, Path.cwd()):
        if str(extra) not in paths:
            paths.append(str(extra))
    env = experiment.env.model_copy(update={"paths": paths, "id": _absolute(experiment.env.id, base)})
    model = experiment.model
    if model.class_ is not None:
        model = model.model_copy(update={"class_": _absolute(model.class_, base)})
    return experiment.model_copy(update={"env": env, "model": model})


def _absolute(name: str, base: Path) -> str:
    """Make the path of `path/to/file.py:Class` absolute; other names stay as they are."""
    file, colon, attribute = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        return name
    found = next((folder / file for folder in (base, Path.cwd()) if (folder / file).is_file()), base / file)
    return f"{found.resolve()}:{attribute}"


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputError(f"{key}: {section} is a value, not a table")
        table = inner
    table[name] = value


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class _Lines:
    """Finds the line of a TOML file on which a key stands."""

    _HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?$")
    _KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._found: dict[str, int] = {}
        section = ""
        for number, line in enumerate(text.splitlines(), start=1):
            if header := self._HEADER.match(line):
                section = header[1].strip()
                self._found.setdefault(section, number)
            elif key := self._KEY.match(line):
                name = key[1].replace('"', "").replace("'", "")
                self._found.setdefault(f"{section}.{name}".lstrip("."), number)

    def place(self, key: str, sources: Mapping[str, str]) -> str:
        source = sources.get(key, "")
        if source.startswith("--"):
            return source if source.endswith(key) else f"{source} ({key})"
        sections = key.split(".")
        while sections:
            if number := self._found.get(".".join(sections)):
                return f"{self.path}:{number}: {key}"
            sections.pop()
        return key


def _problems(
    error: ValidationError, table: dict[str, Any], sources: Mapping[str, str], lines: _Lines
) -> list[Problem]:
    details = error.errors()
    if any(detail["type"].startswith("union_tag") for detail in details):
        details += _errors_besides_the_algorithm(table)
    problems = []
    for detail in details:
        loc = [str(part) for part in detail["loc"]]
        if loc[0] == "algorithm" and loc[1:2] and loc[1] in ALGORITHM_TAGS:
            loc.pop(1)
        loc = [part for part in loc if not part.startswith(("constrained-", "literal["))]
        depth = 3 if loc[0] == "sweep" else 2
        problems.append(_problem(detail, ".".join(loc[:depth]), table, sources, lines))
    return _one_per_place(problems)


def _sweep_problems(table: dict[str, Any], sources: Mapping[str, str], lines: _Lines) -> list[Problem]:
    """Check what a sweep varies against the experiment, even if this one is not valid itself."""
    if table.get("sweep") is None:
        return []
    section, is_whole = readable_part(table["sweep"])
    problems = []
    for key, detail, changed in refusals(table, section):
        refused = _problem(detail, min(key, dotted(detail), key=len), changed, sources, lines)
        place = lines.place(f"sweep.parameters.{key}", sources)
        problems.append(Problem(place, refused.message, refused.hint))
    problems = _one_per_place(problems)
    if is_whole:
        problems += [Problem(lines.place(f"sweep.{key}", sources), *rest) for key, *rest in conflicts(section)]
    return problems


def _simulator_problems(table: dict[str, Any], sources: Mapping[str, str], lines: _Lines) -> list[Problem]:
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


def _one_per_place(problems: Iterable[Problem]) -> list[Problem]:
    """Join what is said of one key: a key that takes several types is refused by each of them."""
    joined: dict[str, Problem] = {}
    for problem in problems:
        if (before := joined.get(problem.place)) and before.message != problem.message:
            expected = problem.message.rpartition(": ")[2]
            problem = Problem(problem.place, f"{before.message}, or {expected}", before.hint)
        joined[problem.place] = problem
    return list(joined.values())


def _errors_besides_the_algorithm(table: dict[str, Any]) -> list[ErrorDetails]:
    """Check the rest of `[algorithm]` as if it were PPO's, since its own name says nothing."""
    section = {**table["algorithm"], "name": "PPO"}
    try:
        Experiment.model_validate({**table, "algorithm": section})
    except ValidationError as error:
        return [
            detail
            for detail in error.errors()
            if detail["loc"][0] == "algorithm" and detail["type"] != "extra_forbidden"
        ]
    return []


def _problem(
    detail: ErrorDetails, key: str, table: dict[str, Any], sources: Mapping[str, str], lines: _Lines
) -> Problem:
    place = lines.place(key, sources)
    if detail["type"].startswith("union_tag"):
        name = str(table["algorithm"].get("name"))
        place = lines.place("algorithm.name", sources)
        return Problem(place, f"no algorithm {name!r}; expected one of {', '.join(ALGORITHMS)}")
    if detail["type"] == "extra_forbidden":
        return Problem(place, *_unknown_key(key, table))
    if detail["type"] == "missing":
        return Problem(
            place, "is required, but not given", 'for example: id = "CartPole-v1"' if key == "env.id" else ""
        )
    message = detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    return Problem(place, f"{detail['input']!r}: {message}")


def _unknown_key(key: str, table: dict[str, Any]) -> tuple[str, str]:
    section, _, name = key.rpartition(".")
    model = (
        section_model(section, str(table.get("algorithm", {}).get("name", "PPO")).upper())
        if section
        else Experiment
    )
    names = [f.alias or n for n, f in model.model_fields.items()] if model else []
    near = difflib.get_close_matches(name, names, n=1)
    where = f"[{section}]" if section else "an experiment"
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(names)}"
    return f"{where} has no key {name!r}", hint
