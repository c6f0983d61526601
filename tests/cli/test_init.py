"""`muster init`: a file that says what is an example, what was chosen, and why."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from muster.experiment import Override, load_experiment
from tests.commands import muster

PUMP = """
import gymnasium
import numpy as np
from gymnasium import spaces

class Pump(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, True, False, {}

class Unfinished(Pump):
    def __init__(self, size):
        self.size = size
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pump.py").write_text(PUMP)
    return tmp_path


def lines(path: Path) -> dict[str, str]:
    """Return the line of each key."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        key, equals, _ = line.removeprefix("# ").partition(" = ")
        if equals:
            found.setdefault(key, line)
    return found


def test_examples_are_marked_and_choices_have_their_reasons(folder: Path) -> None:
    done = muster("init", "pump.py:Pump", "-o", "pump.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = lines(folder / "pump.toml")
    assert "# Example: " in found["target_kl"]
    assert "# Example: " in found["step_timeout"]
    assert "Example" not in found["gamma"]
    assert "# Here: some actions are continuous." in found["log_std_init"]
    assert "envs_per_group = 1  # Here: it is not batched." in found["envs_per_group"]
    assert "# Here: falls to 0 at stop.steps = 1,000,000." in found["lr_schedule"]
    assert "# Here: smaller if stop.steps is below 32,768: a sixteenth, at least 256." in found["train_batch_size"]
    assert "algorithm.log_std_init = -0.5: some actions are continuous" in done.stdout


def test_another_simulator_other_choices(folder: Path) -> None:
    assert muster("init", "CartPole-v1", "-o", "cart.toml", cwd=folder).returncode == 0
    found = lines(folder / "cart.toml")
    assert "return = 475.0  # Here: the return at which the simulator counts as solved" in found["return"]
    assert "# Here: constant unless stop.steps or stop.iterations is given." in found["lr_schedule"]
    assert "# Here: without effect: no action is continuous." in found["log_std_init"]
    batched = muster("init", "envpool:CartPole-v1", "-o", "batched.toml", cwd=folder)
    assert batched.returncode == 0, batched.stderr
    batch = lines(folder / "batched.toml")["envs_per_group"]
    assert "envs_per_group = 8  # Here: it is batched, and steps them together." in batch


def test_rllib_s_own_hyperparameters_are_shown(folder: Path) -> None:
    pytest.importorskip("ray.rllib")
    assert muster("init", "CartPole-v1", "--algorithm", "dqn", "-o", "dqn.toml", cwd=folder).returncode == 0
    text = (folder / "dqn.toml").read_text()
    found = lines(folder / "dqn.toml")
    assert found["double_q"] == "# double_q = true  # RLlib's default."
    assert found["hidden"].startswith("# hidden = [256, 256]  # Here: default with RLlib.")
    assert found["envs_per_group"].startswith("# envs_per_group = 8  # Here: a worker of RLlib's")
    algorithm = text.partition("[algorithm]")[2].partition("[model]")[0]
    table = tomllib.loads("\n".join(line.removeprefix("# ") for line in algorithm.splitlines()[1:]))
    given = [Override(f"algorithm.{key}", value, "test") for key, value in table.items()]
    assert load_experiment("CartPole-v1", given).experiment.algorithm.name == "DQN"
    assert muster("check", "dqn.toml", cwd=folder).returncode == 0


def test_a_simulator_that_does_not_exist_is_refused(folder: Path) -> None:
    for name, message in (
        ("pump.py:Pupm", "did you mean 'Pump'?"),
        ("nowhere.py:Pump", "no such file"),
        ("CartPoel-v1", "did you mean CartPole-v1"),
    ):
        done = muster("init", name, "-o", "other.toml", cwd=folder)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
        assert not (folder / "other.toml").exists()


def test_a_simulator_that_cannot_be_built_yet_gets_its_file(folder: Path) -> None:
    done = muster("init", "pump.py:Unfinished", "-o", "pump.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "what depends on the simulator is left open: " in done.stderr
    assert (
        "# Here: 8 if the simulator is batched, which is not known."
        in lines(folder / "pump.toml")["envs_per_group"]
    )


def test_paths_in_a_file_are_relative_to_the_file_and_those_of_flags_to_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sub").mkdir()
    assert muster("init", "pump.py:Pump", "-o", "sub/pump.toml", cwd=folder).returncode == 0
    assert 'id = "../pump.py:Pump"' in (folder / "sub/pump.toml").read_text()
    assert muster("init", "pump:Pump", "-o", "sub/module.toml", cwd=folder).returncode == 0
    for name in ("pump.toml", "module.toml"):
        done = muster(
            "train", folder / "sub" / name, "--workers", "0", "--stop-iterations", "1", cwd=folder / "sub"
        )
        assert done.returncode == 0, done.stderr
    (folder / "sub" / "pump.py").write_text(PUMP)
    monkeypatch.chdir(folder)
    flag = [Override("env.id", "pump.py:Pump", "--set env.id")]
    assert load_experiment("sub/pump.toml").experiment.env.id == f"{folder / 'pump.py'}:Pump"
    assert load_experiment("sub/pump.toml", flag).experiment.env.id == f"{folder / 'pump.py'}:Pump"
    (folder / "sub" / "own.toml").write_text('env = { id = "pump.py:Pump", paths = ["."] }')
    own = load_experiment("sub/own.toml").experiment.env
    assert (own.id, own.paths[0]) == (f"{folder / 'sub/pump.py'}:Pump", str(folder / "sub"))
    paths = [Override("env.paths", ["lib"], "--set env.paths")]
    assert load_experiment("sub/own.toml", paths).experiment.env.paths[0] == str(folder / "lib")
