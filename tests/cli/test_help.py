"""Help at 80 columns, and what the shell completes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commands import MUSTER, environment, muster

QUICK = ["--workers", "0", "--stop-iterations", "1"]


def test_no_summary_is_cut_and_commands_stand_in_groups(tmp_path: Path) -> None:
    text = muster("--help", cwd=tmp_path, COLUMNS="80").stdout
    assert "..." not in text.partition("Options:")[2]
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "and write the best one's file." in text
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[:3] == ["Options:", "Train:", "Look at runs:"]


@pytest.mark.parametrize("command", ["train", "resume", "sweep", "submit", "evaluate", "init"])
def test_a_command_s_help_fits(command: str, tmp_path: Path) -> None:
    text = muster(command, "--help", cwd=tmp_path, COLUMNS="80").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("--help") == 1


def test_train_s_options_stand_in_groups(tmp_path: Path) -> None:
    text = muster("train", "--help", cwd=tmp_path, COLUMNS="80").stdout
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Arguments:", "Experiment:", "When to stop:", "Resources:", "Run:", "Output:"]
    assert "--stop-steps" in text.partition("When to stop:")[2].partition("Resources:")[0]


def completed(words: str, cwd: Path) -> list[str]:
    """Return what bash is offered for the last of some words."""
    count = str(len(words.split(" ")) - 1)
    done = subprocess.run(
        [str(MUSTER)],
        cwd=cwd,
        env=environment(_MUSTER_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_the_shell_completes_commands_runs_files_and_keys(tmp_path: Path) -> None:
    assert muster("train", "CartPole-v1", *QUICK, "--name", "first", cwd=tmp_path).returncode == 0
    assert muster("train", "CartPole-v1", *QUICK, "--seeds", "1", "--name", "house", cwd=tmp_path).returncode == 0
    assert muster("init", "-o", "cart.toml", cwd=tmp_path).returncode == 0
    assert completed("muster re", tmp_path) == ["resume", "report"]
    assert completed("muster resume fi", tmp_path) == ["first"]
    assert completed("muster show ho", tmp_path) == ["house", "house/seed-0"]
    assert completed("muster train ca", tmp_path) == ["cart.toml"]
    assert completed("muster train --resume fi", tmp_path) == ["first"]
    assert completed("muster train cart.toml --algorithm D", tmp_path) == ["DQN", "DreamerV3"]
    assert completed("muster train cart.toml --set stop.re", tmp_path) == ["stop.return="]
    assert "algorithm.clip_param=" in completed("muster train cart.toml --set algorithm.", tmp_path)
    assert completed("muster train cart.toml --stop-it", tmp_path) == ["--stop-iterations"]
