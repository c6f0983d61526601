"""TensorBoard: event files in a folder, with evaluations beside the metrics."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from muster.errors import TrackerError
from muster.tracking.points import Point, TrackedRun
from muster.tracking.tracker import Known


class TensorboardTracker:
    """A folder of event files for each run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: RecordWriter | None = None

    def begin(self, run: TrackedRun) -> str:
        """Make the run's folder."""
        self._folder = self._folder / f"{run.name}-{run.identity[:6]}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrackerError(
                f"{self._folder}: cannot be made: {error.strerror}\n    choose another --at"
            ) from None
        return f"tensorboard --logdir {self._folder}"

    def known(self) -> Known:
        """Return what is in the event files; one that was cut off counts up to there."""
        found: Known = {}
        for path in sorted(self._folder.glob("events.out.tfevents.*")):
            for event in LegacyEventFileLoader(str(path)).Load():
                for value in event.summary.value:
                    found.setdefault(value.tag, {})[event.step] = value.simple_value
        return found

    def send(self, points: Sequence[Point]) -> None:
        """Append events and wait until they are in the file."""
        try:
            if self._writer is None:
                self._writer = _new_file(self._folder)
            for point in points:
                values = [Summary.Value(tag=name, simple_value=value) for name, value in point.values.items()]
                event = Event(step=point.step, wall_time=point.seconds, summary=Summary(value=values))
                self._writer.write(event.SerializeToString())
            self._writer.flush()
        except OSError as error:
            raise TrackerError(f"{self._folder}: cannot be written: {error.strerror or error}") from error

    def end(self, state: str) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


def _new_file(folder: Path) -> RecordWriter:
    """Begin an event file; a full disk ends the thread of TensorBoard's own writer, with a traceback."""
    name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
    writer = RecordWriter((folder / name).open("xb"))
    writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
    return writer
