"""`muster report`: a run, a sweep or the runs of several seeds as one HTML file."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import AsJson, Run, RunsDir, Trust, writable_file
from muster.cli.screen import print_json
from muster.runs.folder import runs_dir as folder_of_runs


def report(
    run: Run,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write; default: report.html in the folder.")
    ] = None,
    film: Annotated[
        bool, typer.Option("--film", help="Add a film of the best policy; this runs the simulator (extra video).")
    ] = False,
    trust: Trust = False,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Write a report of a run, a sweep or a folder of several seeds: one HTML file that needs no network."""
    from muster.reports.page import require_plotly
    from muster.reports.reporting import report_of
    from muster.runs.files import explained, write_text

    require_plotly()
    directory = folder_of_runs(runs_dir)
    found = report_of(run, directory)
    path = output or found.folder / "report.html"
    writable_file("--output", path, (".html", ".htm"))
    clip = _film(str(found.folder), trust=trust) if film else None
    with explained(path, afterwards=""):
        write_text(path, found.html(clip))
    if as_json:
        print_json(
            {"report": str(path), "kind": found.kind, "bytes": path.stat().st_size, "problems": found.problems}
        )
        return
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
    for problem in found.problems:
        print(f"missing or damaged: {problem}")


def _film(run: str, *, trust: bool) -> str:
    """Let the run's best policy act for an episode; return the film as an address that holds its bytes."""
    from muster.cli.play import play

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        play(run, video=path, trust=trust)
        return f"data:video/mp4;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
