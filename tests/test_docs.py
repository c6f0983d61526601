"""Examples of the documentation do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster import environment_variables
from muster.environment_variables import GIVEN, INTERNAL, SET

DOCS = Path(__file__).parents[1] / "docs"


def test_the_loop_over_iterations_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_RUNS_DIR", str(tmp_path))
    section = (DOCS / "python.md").read_text().partition("## One iteration at a time")[2]
    [loop, block, *_] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, object] = {}
    exec(loop, names)
    [run] = tmp_path.iterdir()
    assert '"state": "stopped"' in (run / "status.json").read_text()
    exec(block, names)
    assert len(list(tmp_path.iterdir())) == 2


def test_every_environment_variable_has_a_meaning_and_is_documented() -> None:
    names = {value for name, value in vars(environment_variables).items() if name.endswith("_VARIABLE")}
    assert names == {*GIVEN, *SET, *INTERNAL}
    page = (DOCS / "commands.md").read_text().partition("\n## Environment\n")[2]
    rows = [line for line in page.splitlines() if line.startswith("| `MUSTER_")]
    assert rows == [f"| `{name}` | {meaning} |" for name, meaning in {**GIVEN, **SET}.items()]
