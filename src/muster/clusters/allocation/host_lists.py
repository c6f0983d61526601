"""Lists of hosts as schedulers write them: compressed names, repeated counts, node files."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path

from muster.errors import AllocationError

MOST_HOSTS = 1_000_000
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_][A-Za-z0-9._:-]*")
_PIECE = re.compile(r"([^\[\],\s]*)(?:\[([^\[\]]*)\])?")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_SEPARATOR = re.compile(r"[,\s]+(?![^\[]*\])")


def expand_host_list(written: str, source: str) -> tuple[str, ...]:
    """Expand `n[08-10],p[1-2]s[1,3]-ib,login` to single names, in order and each once.

    Raises:
        AllocationError: if it cannot be read; the message names the source and the part.
    """
    names: dict[str, None] = {}
    for part in filter(None, _SEPARATOR.split(written.strip())):
        names.update(dict.fromkeys(_expand(part, source)))
    if not names:
        raise AllocationError(f"{source} names no host")
    return tuple(names)


def expand_counts(written: str, source: str) -> tuple[int, ...]:
    """Expand `72(x2),36` to 72, 72, 36.

    Raises:
        AllocationError: if it cannot be read.
    """
    counts: list[int] = []
    for part in written.split(","):
        found = _COUNT.fullmatch(part.strip())
        if found is None or int(found[2] or 1) > MOST_HOSTS:
            raise AllocationError(f"{source}={written}: {part!r} is not a count such as 72 or 72(x2)")
        counts += [int(found[1])] * int(found[2] or 1)
    return tuple(counts)


def count_lines(path: Path, source: str) -> dict[str, int]:
    """Read a node file of one host a line: each host once, in order, with the number of its lines.

    Raises:
        AllocationError: if the file is empty or a line is no host name.
        FileNotFoundError: if there is no such file.
    """
    counts: dict[str, int] = {}
    for place, (name, *rest) in _rows(path, source):
        if rest:
            raise AllocationError(f"{place}: expected one host name a line, found {' '.join([name, *rest])!r}")
        counts[name] = counts.get(name, 0) + 1
    return counts


def sum_slots(path: Path, source: str) -> dict[str, int]:
    """Read a node file of `host slots ...` lines: each host once, in order, with the sum of its slots.

    Raises:
        AllocationError: if the file is empty or a line has no number of slots.
        FileNotFoundError: if there is no such file.
    """
    counts: dict[str, int] = {}
    for place, (name, *rest) in _rows(path, source):
        if not rest or not rest[0].isdigit():
            raise AllocationError(f"{place}: expected a host and its slots, found {' '.join([name, *rest])!r}")
        counts[name] = counts.get(name, 0) + int(rest[0])
    return counts


def short_name(name: str) -> str:
    """Return a host's name without its domain, for schedulers and hosts spell it differently."""
    return name if name.replace(".", "").isdigit() else name.partition(".")[0].lower()


def pair_counts(written: str, source: str) -> dict[str, int]:
    """Read `h1 4 h2 4`: each host with its number.

    Raises:
        AllocationError: if a host has no number.
    """
    words = written.split()
    pairs = list(itertools.zip_longest(words[::2], words[1::2], fillvalue=""))
    for name, count in pairs:
        if not _NAME.fullmatch(name) or not count.isdigit():
            raise AllocationError(f"{source}: expected a host and its slots, found {f'{name} {count}'.strip()!r}")
    return {name: int(count) for name, count in pairs}


def _expand(part: str, source: str) -> Iterator[str]:
    pieces = [piece for piece in _PIECE.findall(part) if any(piece)]
    rebuilt = "".join(f"{prefix}[{ranges}]" if ranges else prefix for prefix, ranges in pieces)
    if rebuilt != part:
        raise AllocationError(f"{source}: {part!r} is not a host list such as n[01-04],login")
    choices = [
        [prefix + number for number in _numbers(ranges, part, source)] if ranges else [prefix]
        for prefix, ranges in pieces
    ]
    if math.prod(map(len, choices)) > MOST_HOSTS:
        raise AllocationError(f"{source}: {part!r} names more than {MOST_HOSTS:,} hosts")
    for combination in itertools.product(*choices):
        name = "".join(combination)
        if not _NAME.fullmatch(name):
            raise AllocationError(f"{source}: {name!r} is not a host name")
        yield name


def _numbers(ranges: str, part: str, source: str) -> list[str]:
    numbers: list[str] = []
    for piece in ranges.split(","):
        found = _RANGE.fullmatch(piece.strip())
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if found is None or not low <= high < low + MOST_HOSTS:
            raise AllocationError(f"{source}: {piece!r} in {part!r} is not a range such as 01-04")
        numbers += [f"{number:0{len(found[1])}d}" for number in range(low, high + 1)]
    return numbers


def _rows(path: Path, source: str) -> Iterator[tuple[str, list[str]]]:
    is_empty = True
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        place = f"{path}, line {number} (from {source})"
        if not _NAME.fullmatch(words[0]):
            raise AllocationError(f"{place}: {words[0]!r} is not a host name")
        is_empty = False
        yield place, words
    if is_empty:
        raise AllocationError(f"{path} (from {source}) names no host")
