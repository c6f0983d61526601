"""Where text goes: results to standard output, the rest to standard error."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from muster.errors import ERROR_PREFIX, MusterError
from muster.runs.reading import printable

if TYPE_CHECKING:
    from rich.console import Console

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
SHARE_BETWEEN_LINES = 0.05
"""Of the time that a run has taken so far."""
_BARS = "▁▂▃▄▅▆▇█"
_GAP = "  "
_UNLIMITED = 100_000
"""Columns of what is no terminal."""


def console(*, stderr: bool = False) -> Console:
    """Return a console that changes nothing in what it prints."""
    from rich.console import Console

    # The stream as it is now: a simulator may replace it later.
    file = sys.stderr if stderr else sys.stdout
    return Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a result for a script: one line on standard output."""
    print(json.dumps(value, default=str), flush=True)


def show_notice(message: str) -> None:
    """Print what is worth knowing besides the result."""
    print_text(console(stderr=True), message)


def show_error(error: MusterError) -> None:
    """Print why a command failed; the simulator's own traceback as it is."""
    sys.stdout.flush()
    screen, message = console(stderr=True), str(error).rstrip()
    if error.traceback and message.endswith(error.traceback.rstrip()):
        message = message.removesuffix(error.traceback.rstrip()).rstrip()
    print_text(screen, message, mark=ERROR_PREFIX, style="bold red")
    if error.traceback:
        screen.print(f"\n{error.traceback.rstrip()}")


def print_text(screen: Console, text: str, *, mark: str = "", style: str = "") -> None:
    """Print sentences after a coloured mark, without what would drive the terminal, such as a name may have.

    In a terminal, lines are broken between words.
    """
    from rich.text import Text

    text = "\n".join(map(printable, (mark + text).expandtabs().splitlines()))
    if screen.is_terminal:
        text = between_words(text, screen.width)
    screen.print(Text.assemble((mark, style), text.removeprefix(mark)))


def between_words(text: str, width: int) -> str:
    """Break lines that are too long between two words, indented as they are.

    A line with a word that does not fit, such as a path, stays whole.
    """
    lines = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        longest = max(map(len, line.split()), default=0)
        if len(line) <= width or len(indent) + longest > width:
            lines.append(line)
        else:
            lines += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def columns(
    rows: Sequence[Sequence[str]], *, numbers: Container[int] = (), foldable: Mapping[int, int] | None = None
) -> str:
    """Lay out rows, the first with the headings, as lines of text; columns of numbers are aligned right.

    In a terminal that is too narrow, `foldable` columns are broken over lines, down to the widths given. Much
    faster than a table of rich, which matters for hundreds of runs.
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    available = shutil.get_terminal_size((_UNLIMITED, 0)).columns
    for at, narrowest in (foldable or {}).items():
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - available
        widths[at] -= max(0, min(excess, widths[at] - narrowest))
    return "\n".join(line for row in rows for line in _lines_of(row, widths, numbers))


def _lines_of(row: Sequence[str], widths: Sequence[int], numbers: Container[int]) -> Iterator[str]:
    pieces = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*pieces, fillvalue=""):
        cells = []
        for at, (part, width) in enumerate(zip(parts, widths, strict=True)):
            space = " " * (width - _width(part))
            cells.append(space + part if at in numbers else part + space)
        yield _GAP.join(cells).rstrip()


def _folded(cell: str, width: int) -> list[str]:
    """Break a cell into pieces that fit a width."""
    if _width(cell) <= width:
        return [cell]
    pieces = [""]
    for character in cell:
        if _width(pieces[-1] + character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw values as a line of small bars, averaged to fit the width."""
    if not values:
        return ""
    count = min(width, len(values))
    # By parts, so that sums and the span of the largest numbers are still numbers.
    scale = max(map(abs, values)) or 1.0
    values = [value / scale for value in values]
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(_BARS[min(len(_BARS) - 1, int((mean - low) / span * len(_BARS)))] for mean in means)


def figure(value: float | None) -> str:
    """Write a figure such as a return to the precision that a person reads."""
    return "-" if value is None else f"{value:,.1f}" if 10 <= abs(value) < 1e6 else f"{value:.3g}"


class Pace:
    """How often to print a line on progress: often at first, seldom in a long run, whose output is a job's log."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._next = 0.0

    def is_due(self) -> bool:
        """Whether a line is due now; if so, the next one is due later."""
        now = time.monotonic()
        if now < self._next:
            return False
        pause = (now - self._started) * SHARE_BETWEEN_LINES
        self._next = now + min(max(pause, SHORTEST_PAUSE), LONGEST_PAUSE)
        return True
