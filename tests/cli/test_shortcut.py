"""What is run without the parser of command lines has the same effect as with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli.explained import run_explained
from muster.cli.shortcut import shortcut
from tests.commands import MUSTER, environment, muster
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


@pytest.mark.parametrize("command", [["runs"], ["show", "first"]], ids=" ".join)
def test_a_reader_that_ends_first_is_no_reason_for_a_traceback(folder: Path, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [str(MUSTER), *command], cwd=folder, env=environment(), stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_ctrl_c_ends_a_plain_command_as_any_other() -> None:
    def command() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ending:
        run_explained(command)
    assert ending.value.code == 130
