"""A run's metrics: writing `metrics.csv` and TensorBoard, the same names in both; reading `metrics.csv` fast."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

from muster.errors import StorageError
from muster.files.regular import open_regular, read_bytes
from muster.runs.files import explained, write_text
from muster.runs.folder import RunFolder
from muster.runs.numbers import finite

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
_KEYS = FIRST_COLUMNS[:2]
"""What every row has a number for."""
TIME_COLUMNS = ("time/total", "time/sample", "time/learn", "time/wait")
_ZERO = b"\0"
"""What a crash may leave in place of what was written before."""
_PLACES, _PIECE, _LONGEST_HEADER = 60, 8192, 65_536
"""Of a sample: where it is taken, and how many bytes."""
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
        try:
            rows = parse_metrics(read_bytes(self._path))
        except FileNotFoundError:
            rows = MetricsTable()
        except ValueError as error:
            raise StorageError(f"{self._path}: {error}\n    rename it; `--resume` then starts a new one") from None
        kept = [row for row in rows if int(row["iteration"]) <= last_iteration]
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

    Columns that every run has are empty in that of a version which had them not.

    Lines are found only when they are asked for: the last row or a whole column cost much less than all rows.
    """

    def __init__(self, columns: Sequence[str] = (), content: bytes = b"") -> None:
        """Take the columns, and the file of which they are the first line."""
        self.columns = tuple(columns)
        self._lacking = {name: "" for name in (*FIRST_COLUMNS, *TIME_COLUMNS) if name not in self.columns}
        self._content = content
        self._begin = content.find(b"\n") + 1
        # A last line that was not ended is left out.
        self._end = content.rfind(b"\n") + 1

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._sound(self._content[self._begin : self._end].split(b"\n"))

    def _sound(self, lines: Iterable[bytes]) -> list[bytes]:
        commas, starts_well = len(self.columns) - 1, _COUNTS.match
        found = []
        for line in lines:
            if line.startswith(_ZERO):
                line = line.lstrip(_ZERO)
            if line.count(b",") == commas and starts_well(line):
                found.append(line)
        return found

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
        end = self._end - 1
        while end > self._begin:
            start = self._content.rfind(b"\n", 0, end) + 1
            if sound := self._sound([self._content[start:end]]):
                return self._row(sound[0])
            end = start - 1
        return {}

    def values(self, column: str) -> list[float]:
        """Return a number for every row; NaN for a cell that is empty, damaged or infinite, or no such column."""
        return self._values(column, self._lines)

    def all_numbers(self) -> list[list[float]] | None:
        """Return the numbers of all cells, row by row, NaN for an empty one; None if any is damaged."""
        try:
            return [[float(cell or "nan") for cell in line.split(b",")] for line in self._lines]
        except ValueError:
            return None

    def numbers(self, column: str) -> list[float]:
        """Return the numbers of a column; cells without one are left out."""
        return [value for value in self.values(column) if not math.isnan(value)]

    def _values(self, column: str, lines: Sequence[bytes]) -> list[float]:
        if column not in self.columns:
            return [math.nan] * len(lines)
        at = self.columns.index(column)
        found = [_number(line.split(b",", at + 1)[at]) for line in lines]
        return [value if math.isfinite(value) else math.nan for value in found]

    def _row(self, line: bytes) -> dict[str, str]:
        cells = line.rstrip(b"\r").decode("utf-8", errors="replace").split(",")
        return dict(zip(self.columns, cells, strict=True)) | self._lacking


def _number(cell: bytes) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def read_sampled_metrics(path: Path, places: int = _PLACES, piece: int = _PIECE) -> MetricsTable:
    """Return some rows of a `metrics.csv`, evenly spread, and the last ones; all of them if it is short.

    They are those in pieces of so many bytes, at so many places.

    However long it is, this takes the same time.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it does not begin with the names of the columns.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= 2 * places * piece:
            return parse_metrics(file.read(size))
        found = [file.read(_LONGEST_HEADER).partition(b"\n")[0]]
        for place in range(places):
            file.seek((size - piece) * (place + 1) // places)
            # The first and the last line of a piece are cut off.
            found += file.read(piece).split(b"\n")[1:-1]
    return parse_metrics(b"\n".join(found) + b"\n")


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
    header = content[: max(0, content.find(b"\n"))]
    text = header.decode("utf-8-sig", errors="replace").replace("\0", "").rstrip("\r")
    try:
        columns = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"not valid CSV: {error}") from None
    if tuple(columns[: len(_KEYS)]) != _KEYS:
        raise ValueError("does not begin with the names of the columns")
    return MetricsTable(columns, content)


def numbers(rows: Sequence[Mapping[str, str]], column: str) -> list[float]:
    """Return the numbers of a column; cells that are empty or damaged are left out."""
    return [value for row in rows if (value := finite(row.get(column))) is not None]


def _line(values: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if value is None else value for value in values])
    return text.getvalue()
