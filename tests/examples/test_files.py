"""Every experiment file of the examples trains, as its folder is, for an iteration or two."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import muster
from muster.training import TrainOptions
from tests.commands import ROOT

EXAMPLES = ROOT / "examples"
PACKAGES = {"lunarlander": "Box2D", "pong": "ale_py", "wireless": "mobile_env"}
SMALL: dict[str, Any] = {
    "stop.iterations": 1,
    "resources.workers": 0,
    "algorithm.train_batch_size": 64,
    "evaluation.every": 0,
    "checkpoint.simulators": False,
}
OF_RLLIB: dict[str, Any] = {"algorithm.num_steps_sampled_before_learning_starts": 50}
BUILT = ("reactor", "go")
"""Need a program first: they have tests of their own."""
FILES = [
    pytest.param(path, id=path.stem)
    for path in sorted(EXAMPLES.rglob("*.toml"))
    if path.stem not in BUILT and "[sweep" not in path.read_text()
]


@pytest.mark.parametrize("path", FILES)
def test_a_file_trains(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix, package in PACKAGES.items():
        if path.stem.startswith(prefix) and find_spec(package) is None:
            pytest.skip(f"needs the package {package}")
    monkeypatch.chdir(path.parent)
    values = {**SMALL, **(OF_RLLIB if '"DQN"' in path.read_text() else {})}
    result = muster.train(path.name, overrides=values, options=TrainOptions(runs_dir=tmp_path / "runs"))
    assert (result.state, result.iterations) == ("finished", 1)
    assert muster.load_policy(result.run) is not None


def test_every_folder_of_examples_is_in_the_list() -> None:
    page = (EXAMPLES / "README.md").read_text()
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and not path.name.startswith(("_", "."))}
    assert folders == {name for name in folders if f"]({name})" in page}
    assert all((EXAMPLES / name / "README.md").exists() for name in folders)
