"""A report as one HTML file: everything in it, nothing loaded from elsewhere, all text escaped."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

import muster
from muster.errors import InputError
from muster.extras import how_to_install
from muster.reports.figures import Figure

# Nothing may be requested, whatever the page holds.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src data:; font-src data:; base-uri 'none'; form-action 'none'"
)


class Page:
    """Collects the parts of a page."""

    def __init__(self, title: str, lead: str) -> None:
        self._title = title
        self._lead = lead
        self._parts: list[str] = []
        self._figures: dict[str, dict[str, Any]] = {}

    @property
    def parts(self) -> list[str]:
        """The parts so far, each an HTML element."""
        return list(self._parts)

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        """The data of the charts in these parts, by the ids of their elements."""
        return dict(self._figures)

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str, kind: str = "") -> None:
        """Add a paragraph; its kind is a class of the style sheet."""
        self._parts.append(f'<p class="{kind}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>")

    def tiles(self, tiles: Iterable[tuple[str, str]]) -> None:
        """Add the few values that matter most, each with what it is."""
        cells = (
            f'<div class="tile"><b>{html.escape(value)}</b><span>{html.escape(label)}</span></div>'
            for label, value in tiles
        )
        self._parts.append(f'<div class="tiles">{"".join(cells)}</div>')

    def list(self, items: Iterable[str], kind: str = "") -> None:
        """Add a list."""
        lines = "".join(f"<li>{html.escape(item)}</li>" for item in items)
        self._parts.append(f'<ul class="{kind}">{lines}</ul>')

    def chart(self, figure: Figure | None) -> None:
        """Add a chart, if there is one."""
        if figure is not None:
            self._parts.append(self._chart(figure))

    def small_charts(self, figures: Iterable[Figure]) -> None:
        """Add charts side by side."""
        self._parts.append(f'<div class="small">{"".join(map(self._chart, figures))}</div>')

    def table(
        self, headings: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()
    ) -> None:
        """Add a table; the columns of numbers are aligned right."""
        right = set(numbers)

        def cells(row: Sequence[object], tag: str) -> str:
            kinds = (' class="n"' if at in right else "" for at in range(len(row)))
            return "".join(
                f"<{tag}{kind}>{html.escape(str(cell))}</{tag}>" for cell, kind in zip(row, kinds, strict=True)
            )

        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
        head = f"<thead><tr>{cells(headings, 'th')}</tr></thead>"
        self._parts.append(f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>')

    def code(self, text: str, *, is_command: bool = False) -> None:
        """Add text as it is."""
        kind = ' class="command"' if is_command else ""
        self._parts.append(f"<pre{kind}>{html.escape(text)}</pre>")

    def folded(self, summary: str, text: str) -> None:
        """Add text that is shown at a click."""
        self._parts.append(
            f"<details><summary>{html.escape(summary)}</summary><pre>{html.escape(text)}</pre></details>"
        )

    def film(self, data_address: str) -> None:
        """Add a film, whose bytes are in its address."""
        self._parts.append(
            f'<div class="film"><video controls loop muted src="{html.escape(data_address)}"></video></div>'
        )

    def _chart(self, figure: Figure) -> str:
        name = f"figure-{len(self._figures)}"
        self._figures[name] = figure.as_data()
        axes = "".join(
            f'<button data-figure="{name}" data-axis="{html.escape(label)}" '
            f'aria-pressed="{str(at == 0).lower()}">{html.escape(label)}</button>'
            for at, label in enumerate(figure.axes)
        )
        buttons = f'<div class="axes">{axes}</div>' if axes else ""
        chart = f'<div class="chart" id="{name}" style="min-height:{figure.height}px"></div>'
        return f"<figure><h3>{html.escape(figure.title)}</h3>{buttons}{chart}</figure>"

    def html(self) -> str:
        """Return the whole file."""
        style, script = page_file("page.css"), page_file("page.js")
        parts = "\n".join(self._parts)
        text = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="muster {muster.__version__}">
<title>{html.escape(self._title)}</title>
<style>{style}</style></head>
<body><header><div><h1>{html.escape(self._title)}</h1><p class="lead">{html.escape(self._lead)}</p></div>
<button id="theme" type="button">light / dark</button></header>
<noscript><p class="problems">The charts need JavaScript; the tables do not.</p></noscript>
{parts}
<script type="application/json" id="figures">{json_in_html(self._figures)}</script>
<script>{plotly_script()}</script>
<script>{script}</script>
</body></html>
"""
        # Half a character, as JSON may name one, cannot be written.
        return text.encode("utf-8", "replace").decode("utf-8")


def page_file(name: str) -> str:
    """Return the style sheet or the script of all pages."""
    return (files("muster.reports") / name).read_text(encoding="utf-8")


def json_in_html(value: Any) -> str:
    """Return JSON that cannot end the element it stands in."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def require_plotly() -> None:
    """Look that Plotly is installed.

    Raises:
        InputError: saying what to install.
    """
    plotly_script()


def plotly_script() -> str:
    """Return Plotly's own script, as its package ships it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError(f"a report needs the extra `report`{how_to_install('report')}") from None
    return str(get_plotlyjs())
