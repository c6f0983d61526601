"""A run's metrics: writing `metrics.csv` and TensorBoard, the same names in both; reading `metrics.csv` fast."""

from __future__ import annotations

import csv
import io
import math
import re
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

from muster.files.regular import read_bytes
from muster.runs.files import explained, write_text
from muster.runs.folder import RunFolder

FIRST_COLUMNS = (
    "iteration",
    "steps",
    "episodes",
    "return/mean",
    "return/min",
    "return/max",
    "length/mean",
    "failures/simulator",
    "failures/worker",
)
TIME_COLUMNS = ("time/total", "time/sample", "time/learn", "time/wait")
_COUNTS = re.compile(rb"[0-9]{1,18},[0-9]{1,18},")
"""What a sound row begins with: iteration and steps."""


def metric_column(name: str) -> str:
    """Return the column of a metric of one's own."""
    return f"metrics/{name}"


Row = Mapping[str, float | int | None]


class MetricsRecord:
    """Appends one row an iteration; on resume, first cuts the rows past the checkpoint."""

    def __init__(self, folder: RunFolder, engine_columns: Sequence[str], last_iteration: int) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._path = folder.metrics
        self._columns = (*FIRST_COLUMNS, *engine_columns, *TIME_COLUMNS)
        with explained(folder.path):
            kept = self._cut_rows_after(last_iteration)
            self._tensorboard = EventFileWriter(str(folder.tensorboard))
        self._purge_tensorboard(int(kept[-1]["steps"]) + 1 if kept else 0)

    def append(self, row: Row) -> None:
        """Record one iteration."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        with explained(self._path):
            with self._path.open("a", encoding="utf-8", newline="") as file:
                file.write(_line([row.get(column) for column in self._columns]))
            values = [
                Summary.Value(tag=name, simple_value=float(value))
                for name, value in row.items()
                if value is not None and name != "iteration"
            ]
            event = Event(step=int(row["steps"] or 0), wall_time=time.time(), summary=Summary(value=values))
            self._tensorboard.add_event(event)
            self._tensorboard.flush()

    def close(self) -> None:
        """Close the files."""
        self._tensorboard.close()

    def _cut_rows_after(self, last_iteration: int) -> list[dict[str, str]]:
        kept = [row for row in read_metrics(self._path) if int(row["iteration"]) <= last_iteration]
        lines = [_line(self._columns)] + [_line([row.get(c) or None for c in self._columns]) for row in kept]
        write_text(self._path, "".join(lines))
        return kept

    def _purge_tensorboard(self, step: int) -> None:
        """Tell TensorBoard to forget what lies past the checkpoint."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        log = SessionLog(status=SessionLog.START)
        self._tensorboard.add_event(Event(step=step, wall_time=time.time(), session_log=log))


class MetricsTable(Sequence[dict[str, str]]):
    """The complete rows of a `metrics.csv`, as text by column names; damaged ones are left out.

    Lines are looked at only when they are asked for: the last row, some values of a column or a whole column cost
    much less than all rows.
    """

    def __init__(self, columns: Sequence[str] = (), lines: Sequence[bytes] = ()) -> None:
        self.columns = tuple(columns)
        self._all_lines = lines

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._sound(self._all_lines)

    def _sound(self, lines: Sequence[bytes]) -> list[bytes]:
        commas, starts_well = len(self.columns) - 1, _COUNTS.match
        return [line for line in lines if line.count(b",") == commas and starts_well(line)]

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> dict[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, str]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, str] | list[dict[str, str]]:
        if isinstance(index, slice):
            return [self._row(line) for line in self._lines[index]]
        return self._row(self._lines[index])

    def last(self) -> dict[str, str]:
        """Return the newest row; empty if there is none."""
        return next((self._row(line) for end in reversed(self._all_lines) for line in self._sound([end])), {})

    def values(self, column: str) -> list[float]:
        """Return a number for every row; NaN for a cell that is empty, damaged or infinite, or no such column."""
        return self._values(column, self._lines)

    def numbers(self, column: str) -> list[float]:
        """Return the numbers of a column; cells without one are left out."""
        return [value for value in self.values(column) if not math.isnan(value)]

    def some_numbers(self, column: str, most: int) -> list[float]:
        """Return at most so many numbers of a column, evenly spread over the rows."""
        step = max(1, math.ceil(len(self._all_lines) / most))
        values = self._values(column, self._sound(self._all_lines[::step]))
        return [value for value in values if not math.isnan(value)]

    def _values(self, column: str, lines: Sequence[bytes]) -> list[float]:
        if column not in self.columns:
            return [math.nan] * len(lines)
        at = self.columns.index(column)
        found = [_number(line.split(b",", at + 1)[at]) for line in lines]
        return [value if math.isfinite(value) else math.nan for value in found]

    def _row(self, line: bytes) -> dict[str, str]:
        return dict(zip(self.columns, line.decode("utf-8", errors="replace").split(","), strict=True))


def _number(cell: bytes) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def read_metrics(path: Path) -> MetricsTable:
    """Return the complete rows of a `metrics.csv`; none if there are none that can be read."""
    try:
        return parse_metrics(read_bytes(path))
    except (OSError, ValueError):
        return MetricsTable()


def parse_metrics(content: bytes) -> MetricsTable:
    """Return the complete rows of a `metrics.csv`; one that was cut off or damaged is left out.

    Raises:
        ValueError: if it does not begin with the names of the columns.
    """
    # A crash may leave pages of zeros, an editor other line ends.
    for found, wanted in ((b"\0", b""), (b"\r\n", b"\n")):
        if found in content:
            content = content.replace(found, wanted)
    lines = content.split(b"\n")
    lines.pop()
    header = csv.reader(line.decode("utf-8", errors="replace") + "\n" for line in lines)
    try:
        columns = next(header, [])
    except csv.Error as error:
        raise ValueError(f"not valid CSV: {error}") from None
    if tuple(columns[: len(FIRST_COLUMNS)]) != FIRST_COLUMNS:
        raise ValueError("does not begin with the names of the columns")
    return MetricsTable(columns, lines[header.line_num :])


def numbers(rows: Sequence[Mapping[str, str]], column: str) -> list[float]:
    """Return the numbers of a column; cells that are empty or damaged are left out."""
    found = []
    for row in rows:
        try:
            value = float(row.get(column, ""))
        except ValueError:
            continue
        if math.isfinite(value):
            found.append(value)
    return found


def _line(values: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if value is None else value for value in values])
    return text.getvalue()
