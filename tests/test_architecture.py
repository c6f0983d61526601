"""The rooms and what may import what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rooms import (
    ENGINE_RANKS,
    NEIGHBOURS,
    PACKAGE,
    PICTURE,
    RANKS,
    drawing,
    imports_of,
    own_files,
    room_of,
    table,
)

DESIGN = PACKAGE.parents[1] / "docs" / "design.md"


@pytest.mark.parametrize("path", own_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_dependencies_point_one_way(path: Path) -> None:
    room = room_of(path)
    for module in imports_of(path):
        parts = module.split(".")
        if parts[0] != "muster" or len(parts) == 1 or parts[1] == room:
            continue
        allowed = RANKS[parts[1]] < RANKS[room] or (room, parts[1]) in NEIGHBOURS
        assert allowed, f"{room} imports {module}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "engines/builtin").rglob("*.py")), ids=lambda path: path.name)
def test_the_engine_s_rooms_point_one_way(path: Path) -> None:
    room = path.parent.name
    for module in imports_of(path):
        parts = module.split(".")
        if room in ENGINE_RANKS and parts[:3] == ["muster", "engines", "builtin"] and parts[3] != room:
            assert ENGINE_RANKS.get(parts[3], 9) < ENGINE_RANKS[room], f"{room} imports {module}"


def test_only_one_room_calls_a_simulator() -> None:
    """Elsewhere, what has `step` or `reset` is one of these: an optimiser, or an object of the room itself."""
    known = {"optimizer", "simulators", "_live", "live"}
    for path in own_files():
        if room_of(path) == "stepping":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                method, receiver = node.func.attr, ast.unparse(node.func.value).rpartition(".")[2]
                assert method not in ("step", "reset", "render") or receiver in known, f"{path}:{node.lineno}"
                assert receiver != "gymnasium" or method not in ("make", "make_vec"), f"{path}:{node.lineno}"


def test_the_design_shows_what_is_really_imported() -> None:
    assert table() in DESIGN.read_text(), "put what `python -m tests.rooms` prints into docs/design.md"
    assert drawing() == PICTURE.read_text(), "`python -m tests.rooms` draws it again"


def test_every_room_is_in_the_design() -> None:
    text = DESIGN.read_text()
    rooms = {room_of(path) for path in own_files()}
    assert rooms == {room for room in RANKS if (PACKAGE / room).is_dir()}
    assert not [room for room in rooms if f"`{room}/`" not in text]


def test_only_one_module_starts_ray() -> None:
    starters = [path.name for path in own_files() if "ray.init(" in path.read_text()]
    assert starters == ["local.py"]


def test_private_names_of_ray_are_in_one_file() -> None:
    private = re.compile(
        r"\bray(\.\w+)*\._[a-z]|\bray\.experimental|_raylet|_global_node|\b_node_ip_address|\b_temp_dir\b"
    )
    users = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if private.search(path.read_text())}
    assert users == {Path("ray_private.py")}


def test_names_of_environment_variables_are_in_one_file() -> None:
    spelled = {path.name for path in PACKAGE.rglob("*.py") if "MUSTER_" in path.read_text()}
    assert spelled == {"environment_variables.py"}


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
        "import sys, muster.engines.builtin.sampling.workers\n"
        "heavy = {'torch', 'ray', 'pydantic', 'rich', 'typer', 'tensorboard'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_public_names() -> None:
    import muster

    assert muster.__all__ == sorted(muster.__all__)
    assert all(hasattr(muster, name) for name in muster.__all__)
