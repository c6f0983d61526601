"""What is run without the parser of command lines has the same effect as with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli.shortcut import shortcut
from tests.commands import environment, muster
from tests.runs.tiny import train_tiny

PLAIN = [
    ["runs", "--json"],
    ["show", "first"],
    ["show", "first", "--json"],
    ["show", "--runs-dir", "runs", "first"],
    ["show", "nosuch"],
]
PARSED = [
    [],
    ["runs", "--help"],
    ["runs", "--state", "failed"],
    ["runs", "first"],
    ["runs", "--runs-dir"],
    ["runs", "--runs-dir", ""],
    ["show"],
    ["show", ""],
    ["show", "first", "second"],
    ["train", "CartPole-v1"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quick")
    train_tiny(path / "runs", "first")
    return path


@pytest.mark.parametrize("command", PLAIN, ids=" ".join)
def test_a_plain_command_prints_the_same_either_way(folder: Path, command: list[str]) -> None:
    assert shortcut(command) is not None
    quick = muster(*command, cwd=folder)
    code = f"import sys; sys.argv = {['muster', *command]!r}; from muster.cli.main import run; run()"
    usual = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert (quick.returncode, quick.stdout, quick.stderr) == (usual.returncode, usual.stdout, usual.stderr)


@pytest.mark.parametrize("command", PARSED, ids=" ".join)
def test_whatever_is_not_plain_is_parsed(command: list[str]) -> None:
    assert shortcut(command) is None


def test_a_plain_command_imports_no_parser() -> None:
    code = (
        "import sys; sys.argv = ['muster', 'runs']\n"
        "from muster.cli.start import run\n"
        "run()\n"
        "heavy = {'typer', 'pydantic', 'rich', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
