"""The pages that a browser opens: the list of runs, and one run."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable
from importlib.resources import files

import muster
from muster.experiment.quantities import counted
from muster.files.shown import short_path
from muster.reports.page import json_in_html, page_file, plotly_script
from muster.runs.reading import printable
from muster.runs.status import LIVE_STATES
from muster.serving.feed import summary_html
from muster.serving.run_content import Content
from muster.serving.run_table import table_html
from muster.serving.run_watch import RunWatch, SeenRun, address

_JAVASCRIPT, _CSS = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
STOPPABLE = (*LIVE_STATES, "queued")


class Assets:
    """Scripts and style sheets, each at an address that changes with its content."""

    def __init__(self) -> None:
        here = files("muster.serving")
        texts = {
            "page.css": (page_file("page.css"), _CSS),
            "live.css": ((here / "live.css").read_text(encoding="utf-8"), _CSS),
            "plotly.js": (plotly_script(), _JAVASCRIPT),
            "page.js": (page_file("page.js"), _JAVASCRIPT),
            "live.js": ((here / "live.js").read_text(encoding="utf-8"), _JAVASCRIPT),
        }
        self.files = {name: (text.encode(), kind) for name, (text, kind) in texts.items()}
        digests = {name: hashlib.sha256(content).hexdigest()[:12] for name, (content, _) in self.files.items()}
        self._addresses = {name: f"/assets/{name}?v={digest}" for name, digest in digests.items()}

    def tags(self, *names: str) -> str:
        """Return the elements that load files."""
        return "".join(
            f'<link rel="stylesheet" href="{self._addresses[name]}">'
            if name.endswith(".css")
            else f'<script src="{self._addresses[name]}" defer></script>'
            for name in names
        )


def list_page(watch: RunWatch, assets: Assets) -> str:
    """Return the page with all runs."""
    notes = [] if watch.runs else ["No runs yet. Start one: muster train CartPole-v1"]
    if watch.left_out:
        notes.append(f"{counted(watch.left_out, 'run')} left out: a link leads out of this folder.")
    body = "".join(f'<p class="note">{html.escape(note)}</p>' for note in notes)
    rows = [seen.html for seen in watch.runs.values()]
    where = html.escape(printable(short_path(watch.root)))
    return _page(
        f"Runs in {where}",
        f"<h1>Runs</h1><p class='lead'>in {where}</p>",
        f"{_groups(watch)}{body}{table_html(rows)}",
        'data-events="/events"',
        assets.tags("page.css", "live.css", "live.js"),
    )


def run_page(seen: SeenRun, path: str, content: Content, log: str, assets: Assets) -> str:
    """Return the page of a run."""
    name = html.escape(printable(seen.name))
    can_stop = seen.row.state in STOPPABLE
    parts = "".join(f'<div class="part" data-hash="{digest}">{part}</div>' for digest, part in content.parts)
    header = (
        f'<p class="way"><a href="/">all runs</a> · <a href="/report/{path}">report as one file</a></p>'
        f"<h1>{name}</h1>"
        f'<p class="lead">{html.escape(content.lead)}</p><p id="summary">{summary_html(seen)}</p>'
        f'<p><button id="stop" type="button"{"" if can_stop else " hidden"}>save and stop</button> '
        '<span id="answer" class="note" role="status"></span></p>'
    )
    body = (
        '<noscript><p class="problems">The charts need JavaScript; the tables do not.</p></noscript>'
        f'<main id="parts">{parts}</main><h2>Log</h2><pre id="log" class="log">{html.escape(log)}</pre>'
        f'<script type="application/json" id="figures">{json_in_html(content.figures)}</script>'
    )
    return _page(
        name,
        header,
        body,
        f'data-events="/events/{path}" data-run="{html.escape(path)}" data-version="{content.version}"',
        assets.tags("page.css", "live.css", "plotly.js", "page.js", "live.js"),
    )


def _groups(watch: RunWatch) -> str:
    """Return links to the reports of sweeps and folders of several seeds."""
    names = sorted(groups_of(seen.name for seen in watch.runs.values()))
    links = ", ".join(f'<a href="/report/{address(name)}">{html.escape(printable(name))}</a>' for name in names)
    return f'<p class="note">Reports of several runs together: {links}</p>' if links else ""


def _page(title: str, header: str, body: str, data: str, tags: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="muster {muster.__version__}">
<link rel="icon" href="data:,">
<title>{title}</title>
{tags}</head>
<body {data}><header><div>{header}</div>
<button id="theme" type="button">light / dark</button></header>
<p id="connection" class="problems" hidden>The connection to muster serve is lost; what is shown is not new.</p>
{body}
</body></html>
"""


def groups_of(names: Iterable[str]) -> set[str]:
    """Return the folders that hold several runs, by the names of all runs."""
    return {name.rpartition("/")[0] for name in names} - {""}
