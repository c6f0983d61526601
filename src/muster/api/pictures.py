"""What a notebook shows as a picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from muster.reports.pictures import DOTS_PER_INCH, save
from muster.runs.files import explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture:
    """A matplotlib figure that a notebook displays, and that can be saved."""

    def __init__(self, figure: Figure, title: str) -> None:
        self.figure = figure
        self._title = title

    def save(self, path: str | Path) -> None:
        """Write it as PNG, PDF or SVG, as the file's name says."""
        with explained(Path(path), afterwards=""):
            save(self.figure, Path(path))

    def __repr__(self) -> str:
        return f"Picture({self._title})"

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.figure.savefig(content, format="png", dpi=DOTS_PER_INCH)
        return content.getvalue()
