"""Simulators that live where users have them: in the script itself, in a folder, beside unlucky file names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.runs.metrics import read_metrics
from tests.commands import MUSTER, environment, muster, wait_until

SIMULATOR = """
import gymnasium, numpy as np, os, threading
from gymnasium import spaces

class OwnBox(spaces.Box):
    pass

class Own(gymnasium.Env):
    def __init__(self, folder=None, locked=False):
        self.observation_space = OwnBox(-1, 1, (2,))
        self.action_space = spaces.Discrete(2)
        if locked:
            self.observation_space.lock = threading.Lock()
        if folder:
            os.chdir(folder)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.np_random.random() < 0.002:
            raise RuntimeError("the pump broke")
        return np.zeros(2, np.float32), 1.0, self.steps == 10, False, {}
"""
SCRIPT = """
import muster
from muster.training import TrainOptions

gymnasium.register("Own-v0", entry_point=Own)
if __name__ == "__main__":
    for name in ("Own-v0", "__main__:Own"):
        overrides = {"stop.iterations": 2, "algorithm.train_batch_size": 128}
        print(muster.train(name, overrides=overrides, options=TrainOptions(runs_dir="runs")).state)
"""
SMALL = ("--set=algorithm.train_batch_size=256", "--set=stop.iterations=20", "--quiet")


def test_a_simulator_of_the_script_that_is_run_trains_with_defaults(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SIMULATOR + SCRIPT)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["finished", "finished"], done.stderr


def test_a_simulator_that_workers_do_not_know_is_bad_input(tmp_path: Path) -> None:
    script = SCRIPT.replace("stop.iterations", "resources.workers").replace('"__main__:Own"', "")
    (tmp_path / "script.py").write_text(SIMULATOR + script)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert "ExperimentError" in done.stderr.splitlines()[-1] or "ExperimentError: " in done.stderr
    assert "failed 3 times" not in done.stderr
    assert not list((tmp_path / "runs").glob("*/failures/*"))


def test_spaces_of_one_s_own_are_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "own_model.py").write_text(SIMULATOR)
    flags = ["--set=env.paths=['sub']", "--set=env.config.locked=true"]
    assert muster("check", "own_model:Own", *flags, cwd=tmp_path).returncode == 0
    assert muster("train", "own_model:Own", *flags, *SMALL, cwd=tmp_path).returncode == 0


def test_files_of_the_working_folder_are_not_taken_for_libraries(tmp_path: Path) -> None:
    (tmp_path / "select.py").write_text("raise SystemExit('planted')\n")
    done = muster("check", "CartPole-v1", cwd=tmp_path)
    assert (done.returncode, "planted" in done.stderr) == (0, False)


def test_a_simulator_that_changes_the_working_folder_changes_nothing_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "own_model.py").write_text(SIMULATOR)
    (tmp_path / "elsewhere").mkdir()
    flags = ["--workers=0", "--name=run", f"--set=env.config.folder={tmp_path / 'elsewhere'}"]
    done = muster("train", "own_model.py:Own", *flags, *SMALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "run"
    assert len(read_metrics(run / "metrics.csv")) == 20
    assert list((run / "failures").iterdir()) and list((run / "tensorboard").iterdir())
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.long
def test_a_run_that_is_stopped_for_a_while_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "own_model.py").write_text(SIMULATOR)
    command = [str(MUSTER), "train", "own_model.py:Own", "--workers=0", "--name=run", "--set=env.step_timeout=1"]
    command += ["--set=stop.time=12", "--set=env.max_failures=100000"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL)
    wait_until((tmp_path / "runs" / "run" / "metrics.csv").exists, "the first iteration")
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(8)
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(timeout=60) == 0
