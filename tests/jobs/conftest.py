"""A project folder with an experiment, and commands of Slurm on PATH that say what a test wants."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

EXPERIMENT = """
[env]
id = "sim.py:Sim"

[resources]
workers = 0

[stop]
iterations = 2
"""
SIMULATOR = "import gymnasium\n\n\ndef Sim():\n    return gymnasium.make('CartPole-v1')\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an experiment and its simulator; no cluster of the user's own."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MUSTER_RUNS_DIR", raising=False)
    (folder / "exp.toml").write_text(EXPERIMENT)
    (folder / "sim.py").write_text(SIMULATOR)
    return folder


Program = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Puts a shell script on PATH under a name."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str, lines: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make
