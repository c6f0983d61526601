"""A comparison as a file: a page, a picture or a table, by the file's name."""

from __future__ import annotations

from pathlib import Path

from muster.reports.comparison import Comparison, as_csv
from muster.runs.files import explained, write_text

PICTURES = (".png", ".pdf", ".svg")
PAGES = (".html", ".htm")
TABLES = (".csv",)


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write a comparison.

    Raises:
        InputError: if a page needs an extra that is not installed.
        StorageError: if it cannot be written.
    """
    suffix = path.suffix.lower()
    with explained(path, afterwards=""):
        if suffix in TABLES:
            write_text(path, as_csv(comparison))
        elif suffix in PAGES:
            from muster.reports.comparison_page import comparison_page

            write_text(path, comparison_page(comparison))
        else:
            from muster.reports.pictures import draw_comparison, save

            save(draw_comparison(comparison), path)
