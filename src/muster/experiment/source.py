"""Reading a TOML file that a person wrote, or anything else that was given in its place."""

from __future__ import annotations

import codecs
import difflib
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from muster.errors import ExperimentError, InputError, Problem
from muster.files.regular import read_bytes

LARGEST_BYTES = 10 * 1024**2
DEEPEST = 32
"""Levels of tables and arrays; more is no experiment."""

SUFFIX = ".toml"
"""With which the name of an experiment file ends."""
MOST_NAMED = 5
"""Files that an error names; of more, none."""

DEFAULT = "default"
"""The source of a value that nobody gave."""


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file, and its content.

    Raises:
        InputError: if there is no such file, or it is not valid TOML in UTF-8.
    """
    try:
        text = _decoded(read_bytes(path, LARGEST_BYTES), path)
        table = tomllib.loads(text)
    except FileNotFoundError:
        raise no_such_file(path) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise _too_deep(str(path)) from None
    except ValueError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    require_plain(table, str(path))
    return text, table


def no_such_file(path: Path) -> InputError:
    """Return the error of an experiment file that is not there; it names those that may be meant."""
    try:
        stems = sorted(other.stem for other in path.parent.iterdir() if other.suffix == SUFFIX)
    except (OSError, ValueError):
        stems = []
    if near := difflib.get_close_matches(path.stem, stems, n=1):
        hint = f"did you mean {path.with_name(near[0] + SUFFIX)}?"
    elif 0 < len(stems) <= MOST_NAMED:
        hint = f"there is: {', '.join(str(path.with_name(stem + SUFFIX)) for stem in stems)}"
    else:
        hint = "`muster init` writes one to start from"
    return InputError(f"{path}: no such file\n    {hint}")


def require_plain(table: Mapping[str, Any], subject: str, place: Callable[[str], str] = str) -> None:
    """Refuse what cannot be an experiment whatever its keys: deep nesting, text that no file can hold.

    Raises:
        InputError: naming the key by its place.
    """
    waiting: list[tuple[str, Any, int]] = [("", table, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        if depth > DEEPEST:
            raise _too_deep(subject)
        if isinstance(value, Mapping):
            waiting += [(f"{key}.{name}".lstrip("."), inner, depth + 1) for name, inner in value.items()]
            waiting += [(key, name, depth) for name in value]
        elif isinstance(value, list | tuple):
            waiting += [(key, inner, depth + 1) for inner in value]
        elif isinstance(value, str) and (wrong := _unwritable(value)):
            problem = Problem(place(key[:60]), f"{value[:60]!r}: holds {wrong}", "expected text in UTF-8")
            raise ExperimentError(subject, [problem])


def _decoded(content: bytes, path: Path) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:2]:
        raise InputError(f"{path}: is in UTF-16, expected UTF-8\n    save it as UTF-8 in the editor")
    try:
        # TOML reads Windows' line ends, but no mark of the byte order at its beginning.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        byte = f"{content[error.start]:#04x}"
        raise InputError(f"{path}:{line}: byte {byte} is not UTF-8\n    save it as UTF-8") from None


def _unwritable(text: str) -> str | None:
    if "\0" in text:
        return "a NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "bytes that are not UTF-8"
    return None


def _too_deep(subject: str) -> InputError:
    return InputError(f"{subject}: tables or arrays are nested too deep; expected at most {DEEPEST} levels")
