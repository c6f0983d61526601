"""Strict reading of options and of a job script's directives."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

Options = dict[str, list[str]]
"""The values of each option in order; [""] for one that takes none."""


class UnknownOptionError(Exception):
    """An option that does not exist, or lacks its value."""

    def __init__(self, option: str) -> None:
        super().__init__(option)
        self.option = option


def parse(words: Iterable[str], with_value: str, without: str = "") -> tuple[Options, list[str]]:
    """Read options as getopt does, until the first word that is none; return them and the other words.

    `with_value` and `without` hold the options, separated by blanks: `-N`, `--cwd`. A long one may have one dash
    only, as LSF's do.
    """
    taking, plain = with_value.split(), without.split()
    options: Options = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if word in plain:
            options.setdefault(word, []).append("")
        elif word in taking:
            if not rest:
                raise UnknownOptionError(word)
            options.setdefault(word, []).append(rest.pop(0))
        elif equals and name.startswith("--") and name in taking:
            options.setdefault(name, []).append(value)
        elif not word.startswith("--") and word[:2] in taking:
            options.setdefault(word[:2], []).append(word[2:])
        elif not word.startswith("--") and word[:2] in plain:
            options.setdefault(word[:2], []).append("")
            rest.insert(0, f"-{word[2:]}")
        else:
            raise UnknownOptionError(word)
    return options, rest


def directives(script: str, mark: str, *, to_the_end: bool = False) -> list[str]:
    """The words of a script's directives; only those before the first command count, if not `to_the_end`."""
    words: list[str] = []
    for line in script.splitlines():
        if re.match(rf"{mark}\s", line):
            words += shlex.split(re.sub(rf"^{mark}", "", line), comments=True)
        elif line.strip() and not line.startswith("#") and not to_the_end:
            break
    return words


def merged(first: Options, second: Options) -> Options:
    """All options of both; for a single value take the last."""
    return {name: [*first.get(name, []), *second.get(name, [])] for name in {**first, **second}}


def last(options: Options, name: str, default: str = "") -> str:
    """The value that counts where an option is given once or more."""
    return options.get(name, [default])[-1]


def colon_seconds(text: str) -> float | None:
    """Seconds of `[[HH:]MM:]SS`; None if it is none."""
    if not re.fullmatch(r"(\d+:){0,2}\d+", text):
        return None
    seconds = 0.0
    for part in text.split(":"):
        seconds = seconds * 60 + int(part)
    return seconds


def read_script(path: str, refuse: Callable[[], Exception]) -> str:
    """The text of a script file, or what `refuse` makes if it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError:
        raise refuse() from None
