"""Reading of single environment variables, each with its name as source."""

from __future__ import annotations

from collections.abc import Mapping

from muster.clusters.allocation.model import Sourced
from muster.errors import AllocationError

Environment = Mapping[str, str]


def text(environ: Environment, *names: str) -> Sourced[str] | None:
    """Return the first of these variables that holds anything."""
    for name in names:
        if value := environ.get(name, "").strip():
            return Sourced(value, name)
    return None


def number(environ: Environment, *names: str) -> Sourced[int] | None:
    """Return the first of these variables that holds anything, as a number.

    Raises:
        AllocationError: if it holds something else.
    """
    found = text(environ, *names)
    if found is None:
        return None
    if not (found.value.isascii() and found.value.isdigit()):
        raise AllocationError(f"{found.source}={found.value}: expected a number")
    return Sourced(int(found.value), found.source)


def moment(environ: Environment, *names: str) -> Sourced[float] | None:
    """Return the first of these variables that holds anything, as unix time.

    Raises:
        AllocationError: if it holds something else.
    """
    found = text(environ, *names)
    if found is None:
        return None
    try:
        return Sourced(float(found.value), found.source)
    except ValueError:
        raise AllocationError(f"{found.source}={found.value}: expected unix time, such as 1767225600") from None


def seconds(environ: Environment, *names: str) -> Sourced[float] | None:
    """Return the first of these variables that holds anything, as a positive number of seconds.

    Raises:
        AllocationError: if it holds something else.
    """
    found = text(environ, *names)
    if found is None:
        return None
    try:
        value = float(found.value)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise AllocationError(f"{found.source}={found.value}: expected a number of seconds above 0")
    return Sourced(value, found.source)
