"""The tutorial's commands, run in order in one folder, with small budgets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.commands import MUSTER, ROOT, environment

PAGES = (
    "five-minutes",
    "your-own-simulator",
    "make-it-robust",
    "make-it-fast",
    "take-it-to-the-cluster",
    "past-the-wall-time",
    "read-the-report",
)
BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>]+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
SMALLER = (
    (r"--stop-steps (100|8)k", "--stop-steps 2k"),
    (r"--set stop.steps=20_000", "--set stop.steps=1000"),
    (r"resume week --stop-steps 2M", "resume week --stop-steps 256"),
    (r"\+ 40\)", "+ 15)"),
    (r"--seconds 5", "--seconds 0.5"),
    (r"--workers 0,1 ", "--workers 0 "),
    (r"--workers 2 ", "--workers 1 "),
    (r"--seeds 5", "--seeds 1"),
    (r"(muster evaluate .*)", r"\1 --episodes 2"),
)
"""What is written for a reader, and what takes its place here."""


def blocks(page: str) -> list[re.Match[str]]:
    """Return the code blocks of a page of the tutorial."""
    return list(BLOCK.finditer((ROOT / "docs" / "tutorial" / f"{page}.md").read_text()))


def commands(text: str) -> list[str]:
    """Return the commands of a console block, made smaller."""
    found = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    for pattern, small in SMALLER:
        found = [re.sub(pattern, small, line) for line in found]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, with a budget that a test can afford."""
    copy = tmp_path_factory.mktemp("tutorial")
    for name in ("heatpump.py", "heatpump.toml"):
        shutil.copy(ROOT / "examples" / "heatpump" / name, copy)
    experiment = (copy / "heatpump.toml").read_text()
    assert "steps = 300_000" in experiment
    (copy / "heatpump.toml").write_text(experiment.replace("steps = 300_000", "steps = 2_000"))
    return copy


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work(page: str, folder: Path) -> None:
    """Each page needs what the pages before it left."""
    count = 0
    for block in blocks(page):
        text, note = block["text"], block["note"] or ""
        if block["language"] == "python" and (name := re.match(r"# (\w+\.py)\n", text)):
            (folder / name[1]).write_text(text)
        if block["language"] != "console" or note.startswith("not executed: "):
            continue
        expected = [int(code) for code in re.findall(r"\d+", note)] if note.startswith("exit code: ") else [0]
        for command in commands(text):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=environment(PATH=f"{MUSTER.parent}{os.pathsep}{os.environ['PATH']}", COLUMNS="120"),
                capture_output=True,
                text=True,
                check=False,
                timeout=200,
            )
            assert done.returncode in expected, f"{command}\n{done.stdout}\n{done.stderr}"
            count += 1
    assert count >= 1


def test_the_experiment_that_is_shown_is_the_one_in_the_example() -> None:
    [shown] = [block["text"] for block in blocks("five-minutes") if block["language"] == "toml"]
    kept = (ROOT / "examples" / "heatpump" / "heatpump.toml").read_text()
    assert kept.endswith(shown)


def test_every_page_leads_to_the_next() -> None:
    for page, following in pairwise(PAGES):
        assert f"]({following}.md)" in (ROOT / "docs" / "tutorial" / f"{page}.md").read_text()
