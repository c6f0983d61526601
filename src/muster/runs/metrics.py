"""The record of a run's figures: `metrics.csv` and TensorBoard, the same names in both."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.files.regular import read_text
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
_MOST_DIGITS = 18
TIME_COLUMNS = ("time/total", "time/sample", "time/learn", "time/wait")


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
        rows = read_metrics(self._path)
        kept = [row for row in rows if int(row["iteration"]) <= last_iteration]
        lines = [_line(self._columns)] + [_line([row.get(c) or None for c in self._columns]) for row in kept]
        write_text(self._path, "".join(lines))
        return kept

    def _purge_tensorboard(self, step: int) -> None:
        """Tell TensorBoard to forget what lies past the checkpoint."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        log = SessionLog(status=SessionLog.START)
        self._tensorboard.add_event(Event(step=step, wall_time=time.time(), session_log=log))


def read_metrics(path: Path) -> list[dict[str, str]]:
    """Return the complete rows of a `metrics.csv`, as text; none if there are none that can be read."""
    try:
        return parse_metrics(read_text(path))
    except (OSError, ValueError):
        return []


def parse_metrics(text: str) -> list[dict[str, str]]:
    """Return the complete rows of a `metrics.csv`, as text; one that was cut off or damaged is left out.

    Raises:
        ValueError: if it does not begin with the names of the columns.
    """
    lines = text.replace("\0", "").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    try:
        table = list(csv.reader(lines))
    except csv.Error as error:
        raise ValueError(f"not valid CSV: {error}") from None
    if not table or table[0][: len(FIRST_COLUMNS)] != list(FIRST_COLUMNS):
        raise ValueError("does not begin with the names of the columns")
    rows = (dict(zip(table[0], cells, strict=True)) for cells in table[1:] if len(cells) == len(table[0]))
    return [row for row in rows if _is_count(row["iteration"]) and _is_count(row["steps"])]


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


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def _line(values: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if value is None else value for value in values])
    return text.getvalue()
