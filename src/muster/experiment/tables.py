"""Nested tables, and the dotted keys by which flags and messages name what is in them.

A key of a table may have a dot in it, as in `"zone.1" = 2.0`; so tables are never rebuilt from dotted keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.errors import InputError
from muster.experiment.source import DEEPEST


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of all that is no table, and of empty tables."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def only(table: Mapping[str, Any], is_wanted: Callable[[str], bool], prefix: str = "") -> dict[str, Any]:
    """Return what of a table is at the dotted keys that are wanted."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            if inner := only(value, is_wanted, f"{prefix}{key}."):
                found[key] = inner
        elif is_wanted(f"{prefix}{key}"):
            found[key] = value
    return found


def value_at(table: Any, key: str) -> Any:
    """Return the value of a dotted key, or None."""
    if not isinstance(table, Mapping):
        return None
    if key in table:
        return table[key]
    inner = (value_at(table[name], key[len(name) + 1 :]) for name in table if key.startswith(f"{name}."))
    return next((value for value in inner if value is not None), None)


def put(table: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key, each dot of which leads to a table within.

    Raises:
        InputError: if that is a value, or nested too deep.
    """
    *sections, name = key.split(".")
    if len(sections) > DEEPEST:
        raise InputError(f"{key[:40]}...: nested too deep; expected at most {DEEPEST} levels")
    for section in sections:
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputError(f"{key}: {section} is a value, not a table")
        table = inner
    table[name] = value
