"""What is wrong with an experiment, in the words of its file: place, value, what is expected, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from muster.errors import Problem
from muster.experiment.schema import ALGORITHM_TAGS, ALGORITHMS, Experiment, section_model
from muster.experiment.sweep_checking import conflicts, dotted, readable_part, refusals

_LONGEST_VALUE = 80
_TABLE_ERRORS = ("model_type", "model_attributes_type", "dict_type", "union_tag_invalid_input")
_MESSAGES = {
    "string_pattern_mismatch": "expected letters, digits, '.', '_' and '-', beginning with a letter or digit",
    "string_unicode": "expected text in UTF-8",
}


class Lines:
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


def validation_problems(
    error: ValidationError, table: dict[str, Any], sources: Mapping[str, str], lines: Lines
) -> list[Problem]:
    """Return each error of the schema as a problem at its place."""
    details = error.errors()
    if any(detail["type"].startswith("union_tag") for detail in details):
        details += _errors_besides_the_algorithm(table)
    problems = []
    for detail in details:
        loc = [str(part) for part in detail["loc"]] or ["experiment"]
        if loc[0] == "algorithm" and loc[1:2] and loc[1] in ALGORITHM_TAGS:
            loc.pop(1)
        loc = [part for part in loc if not part.startswith(("constrained-", "literal["))]
        depth = 3 if loc[0] == "sweep" else 2
        problems.append(_problem(detail, ".".join(loc[:depth]), table, sources, lines))
    return _one_per_place(problems)


def sweep_problems(table: dict[str, Any], sources: Mapping[str, str], lines: Lines) -> list[Problem]:
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
    if not isinstance(table.get("algorithm"), dict):
        return []
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
    detail: ErrorDetails, key: str, table: dict[str, Any], sources: Mapping[str, str], lines: Lines
) -> Problem:
    place = lines.place(key, sources)
    section = table.get(key)
    if detail["type"].startswith("union_tag") and isinstance(section, dict):
        place = lines.place("algorithm.name", sources)
        name = shortened(section.get("name"))
        return Problem(place, f"no algorithm {name}; expected one of {', '.join(ALGORITHMS)}")
    if detail["type"].startswith("union_tag") or (detail["type"] in _TABLE_ERRORS and "." not in key):
        return Problem(place, f"{shortened(section)}: expected a table", _table_hint(key, section))
    if detail["type"] == "extra_forbidden":
        return Problem(place, *_unknown_key(key, table))
    if detail["type"] == "missing":
        return Problem(
            place, "is required, but not given", 'for example: id = "CartPole-v1"' if key == "env.id" else ""
        )
    message = _MESSAGES.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    return Problem(place, f"{shortened(detail['input'])}: {message}")


def shortened(value: object) -> str:
    """Return a value as Python writes it, cut off where it gets long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to print"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _table_hint(key: str, value: object) -> str:
    main = {"algorithm": "name", "env": "id"}.get(key)
    if main is None or not isinstance(value, str):
        return f"write [{key}] on a line, and its keys below"
    return f'write [{key}] on a line and {main} = "{value}" below; as a flag: --set {key}.{main}={value}'


def _algorithm_name(table: Mapping[str, Any]) -> str:
    section = table.get("algorithm")
    return str(section.get("name", "PPO")).upper() if isinstance(section, Mapping) else "PPO"


def _unknown_key(key: str, table: dict[str, Any]) -> tuple[str, str]:
    section, _, name = key.rpartition(".")
    model = section_model(section, _algorithm_name(table)) if section else Experiment
    names = [f.alias or n for n, f in model.model_fields.items()] if model else []
    near = difflib.get_close_matches(name, names, n=1)
    where = f"[{section}]" if section else "an experiment"
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif elsewhere := _keys_elsewhere(name, _algorithm_name(table)):
        hint = f"did you mean {' or '.join(elsewhere)}?"
    else:
        hint = f"known here: {', '.join(names)}"
    return f"{where} has no key {name!r}", hint


def _keys_elsewhere(name: str, algorithm: str) -> list[str]:
    """Return the dotted keys of all sections that end with a name."""
    found = []
    for section in Experiment.model_fields:
        model = section_model(section, algorithm)
        keys = [f.alias or n for n, f in model.model_fields.items()] if model else []
        found += [f"{section}.{key}" for key in keys if key == name]
    return found
