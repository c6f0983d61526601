"""Runs that start at the same moment get folders of their own."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from muster.errors import InputError
from muster.experiment import load_experiment
from muster.runs.finding import claim_folder
from muster.sweeps.folder import choose_folder
from tests.commands import environment

TRAIN = """
import sys, time
from pathlib import Path
from muster.cli.main import run
print("ready", flush=True)
sys.stdin.readline()
sys.argv = ["muster", "train", "CartPole-v1", "--workers", "0", "--stop-iterations", "1", "--quiet", *sys.argv[1:]]
run()
"""


@pytest.mark.parametrize("flags", [[], ["--seeds", "2"]], ids=["runs", "seeds"])
def test_eight_unnamed_runs_at_once_all_succeed(tmp_path: Path, flags: list[str]) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN, *flags],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, errors
    suffix = "-seeds" if flags else ""
    expected = {f"cartpole-v1-ppo{suffix}", *(f"cartpole-v1-ppo{suffix}-{number}" for number in range(2, 9))}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == expected


def test_a_name_is_claimed_by_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: claim_folder("a", tmp_path / "runs").name, range(40)))
    assert sorted(names) == sorted({"a", *(f"a-{number}" for number in range(2, 41))})


def test_sweeps_at_once_get_folders_of_their_own(tmp_path: Path) -> None:
    experiment = load_experiment("CartPole-v1").experiment
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: choose_folder(experiment, tmp_path, resume=False).path, range(40)))
    assert len(set(folders)) == 40


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--runs-dir"):
        claim_folder("a", tmp_path / "file")
