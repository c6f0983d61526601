"""Progress in a notebook: the live view's lines, kept up to date in one output."""

from __future__ import annotations

import io
import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console

from muster.cli.views import LiveView, View, headline
from muster.stepping.evaluation import Evaluation
from muster.training.listener import RunStart
from muster.training.progress import Progress

SECONDS_BETWEEN = 0.5
WIDTH = 100


def in_notebook() -> bool:
    """Return whether this process is a notebook's kernel, which can replace what it has displayed."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookView(LiveView):
    """The live view, drawn as text into one output of a notebook; notices stay above it."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO(), width=WIDTH, force_jupyter=False), verbose=False)
        self._display: Any = None
        self._drawn_at = 0.0
        self._head = ""
        self._notices: list[str] = []

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.start is not None:
            self._draw()

    def started(self, start: RunStart) -> None:
        super().started(start)
        self._head = headline(start)
        self._draw()

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        super().iterated(row, progress)
        if time.monotonic() - self._drawn_at > SECONDS_BETWEEN:
            self._draw()

    def evaluated(self, iteration: int, result: Evaluation) -> None:
        super().evaluated(iteration, result)
        self._draw()

    def noticed(self, message: str) -> None:
        self._notices.append(f"note: {message}")
        self._draw()

    def failed(self, error: str, traceback: str) -> None:
        self._notices.append(f"simulator failed: {error}")
        self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        console = Console(file=io.StringIO(), width=WIDTH, record=True, force_jupyter=False)
        console.print(self._render())
        text = "\n".join(part for part in (self._head, *self._notices, console.export_text().rstrip()) if part)
        bundle = {"text/plain": text}
        if self._display is None:
            self._display = display(bundle, raw=True, display_id=True)
        else:
            self._display.update(bundle, raw=True)
        self._drawn_at = time.monotonic()
