"""The rooms and what may import what."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "muster"
RANKS = {
    "errors": 0,
    "files": 1,
    "experiment": 2,
    "simulators": 2,
    "policies": 2,
    "engines": 3,
    "clusters": 3,
    "runs": 3,
    "training": 4,
    "reports": 4,
    "jobs": 5,
    "sweeps": 5,
    "cli": 6,
}
NEIGHBOURS = {
    ("experiment", "simulators"),
    ("policies", "simulators"),
    ("clusters", "runs"),
    ("training", "reports"),
}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def own_files() -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE]


@pytest.mark.parametrize("path", own_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_dependencies_point_one_way(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0]
    for module in imports_of(path):
        parts = module.split(".")
        if parts[0] != "muster" or len(parts) == 1 or parts[1] == room:
            continue
        allowed = RANKS[parts[1]] < RANKS[room] or (room, parts[1]) in NEIGHBOURS
        assert allowed, f"{room} imports {module}"


def test_only_one_module_starts_ray() -> None:
    starters = [path.name for path in own_files() if "ray.init(" in path.read_text()]
    assert starters == ["local.py"]


def test_only_the_sweeps_import_tune() -> None:
    importers = {
        path.relative_to(PACKAGE).parts[0]
        for path in own_files()
        if any(module.startswith("ray.tune") for module in imports_of(path)) or "import tune" in path.read_text()
    }
    assert importers == {"sweeps"}


def test_only_one_package_imports_rllib() -> None:
    importers = {
        path.relative_to(PACKAGE).parent
        for path in own_files()
        for module in imports_of(path)
        if module.startswith("ray.rllib")
    }
    assert importers == {Path("engines/rllib")}


def test_the_command_line_and_the_built_in_engine_import_neither_torch_nor_rllib(tmp_path: Path) -> None:
    code = (
        "import sys, muster.cli.main\n"
        "from muster import train\n"
        "from muster.training import TrainOptions\n"
        "overrides = {'resources.workers': 0, 'stop.iterations': 1}\n"
        f"train('CartPole-v1', overrides=overrides, options=TrainOptions(runs_dir={str(tmp_path)!r}))\n"
        "heavy = {'torch', 'ray'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_worker_imports_neither_torch_nor_rllib_nor_the_experiment() -> None:
    code = (
        "import sys, muster.engines.builtin.workers\n"
        "heavy = {'torch', 'ray', 'pydantic', 'rich', 'typer', 'tensorboard'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_public_names() -> None:
    import muster

    assert muster.__all__ == ["Experiment", "Policy", "TrainResult", "__version__", "load_policy", "train"]
    assert all(hasattr(muster, name) for name in muster.__all__)
