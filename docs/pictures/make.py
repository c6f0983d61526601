"""Makes the pictures of the documentation from a real run: `python docs/pictures/make.py`.

It trains examples/heatpump once, and writes live.svg, the live view as a moving picture, and report.png, the
report in headless Chromium.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme

import muster
from muster.cli.views import LiveView, headline
from muster.training.listener import RunStart
from muster.training.progress import Progress

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "heatpump"
FRAMES, SECONDS, WIDTH = 20, 10, 92
THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)
FRAME = """<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
{styles}
</style>
<defs>{lines}</defs>
<g class="frame" style="animation-delay:{{delay}}s">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
<!-- {terminal_width} {terminal_height} -->"""
BROWSER = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--hide-scrollbars",
    "--virtual-time-budget=5000",
]


class Film(LiveView):
    """The live view, of which some moments are kept."""

    def __init__(self, every: int) -> None:
        super().__init__(Console(file=io.StringIO(), width=WIDTH), verbose=False)
        self._every = every
        self.frames: list[str] = []

    def started(self, start: RunStart) -> None:
        super().started(start)
        self._head = headline(start).splitlines()[0]

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        super().iterated(row, progress)
        if progress.iteration % self._every == 0:
            self._keep()

    def _keep(self) -> None:
        console = Console(
            file=io.StringIO(), width=WIDTH, record=True, force_terminal=True, color_system="truecolor"
        )
        console.print("$ muster train heatpump.toml", highlight=False)
        console.print(self._head, highlight=False)
        console.print(self._render())
        name = f"f{len(self.frames)}"
        self.frames.append(console.export_svg(theme=THEME, code_format=FRAME, unique_id=name))


def moving_picture(frames: list[str]) -> str:
    """Return frames that are shown one after another, again and again."""
    count, parts = len(frames), []
    for place, frame in enumerate(frames):
        parts.append(frame.replace("{delay}", f"{place * SECONDS / count:.2f}"))
    width, height = re.findall(r"<!-- ([\d.]+) ([\d.]+) -->", frames[-1])[0]
    share = 100 / count
    body = re.sub(r"<!-- [^>]* -->", "", "\n".join(parts))
    before, _, after = body.rpartition('class="frame"')
    wide, tall = f"{float(width) + 32:.0f}", f"{float(height) + 24:.0f}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="-16 -12 {wide} {tall}">
<title>muster train heatpump.toml</title>
<style>
.frame {{ visibility: hidden; animation: show {SECONDS}s step-end infinite; }}
@keyframes show {{ 0% {{ visibility: visible; }} {share:.2f}% {{ visibility: hidden; }} }}
@media (prefers-reduced-motion: reduce) {{ .frame {{ animation: none; }} .last {{ visibility: visible; }} }}
</style>
<rect x="-16" y="-12" width="{wide}" height="{tall}" rx="8" fill="#0d1117"/>
{before}class="frame last"{after}
</svg>
"""


def main() -> None:
    """Train, and make both pictures."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in ("heatpump.py", "heatpump.toml"):
            shutil.copy(EXAMPLE / name, folder)
        film = Film(every=147 // FRAMES)
        options = muster.TrainOptions(runs_dir="runs")
        result = muster.train("heatpump.toml", listener=film, options=options)
        assert result.state == "finished"
        (HERE / "live.svg").write_text(moving_picture(film.frames))
        page, picture = Path(folder, "report.html"), Path(folder, "report.png")
        command = ["muster", "report", str(result.run), "--output", str(page)]
        subprocess.run(command, check=True)
        browser = shutil.which("chromium") or shutil.which("google-chrome") or "chrome"
        size = [f"--user-data-dir={folder}/browser", "--window-size=1280,1560", f"--screenshot={picture}"]
        subprocess.run([browser, *BROWSER, *size, page.as_uri()], check=True, capture_output=True)
        shutil.copy(picture, HERE / "report.png")


if __name__ == "__main__":
    main()
