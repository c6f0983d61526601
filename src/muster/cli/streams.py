"""Standard output and error that never end a training: a closed pipe, a full disk, a lost terminal."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


class SteadyStream(io.TextIOWrapper):
    """Text that is lost if it cannot be written."""

    def write(self, text: str) -> int:
        """Write, or lose the text."""
        with suppress(OSError, ValueError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or keep what cannot be written yet."""
        with suppress(OSError, ValueError):
            super().flush()


def steady_streams() -> None:
    """Make both streams steady. A descriptor that is closed is opened, lest a file of the run takes its number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout, sys.stderr = _steady(sys.stdout), _steady(sys.stderr)


def _steady(stream: TextIO | None) -> TextIO:
    if stream is None:
        return io.StringIO()
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return SteadyStream(
        stream.buffer,
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
