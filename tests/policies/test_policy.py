"""A saved policy acts the same after loading, with NumPy alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from muster.errors import CheckpointError, InputError
from muster.policies import load_policy
from muster.policies.mlp import MLP
from muster.policies.mlp_policy import MLPPolicy
from muster.policies.scale import Scale
from muster.simulators.describing import describe_actions, describe_observations


def make_policy(action_space: spaces.Space[object]) -> MLPPolicy:
    rng = np.random.default_rng(0)
    actions = describe_actions(action_space)
    outputs = {"discrete": 3, "multi_discrete": 5, "box": 2}[actions["kind"]]
    network = MLP((4, 8, outputs), "tanh")
    layers = network.layers(rng.standard_normal(network.num_parameters).astype(np.float32))
    scale = Scale(np.ones(4, np.float32), np.full(4, 2, np.float32))
    log_std = np.full(2, -1, np.float32) if actions["kind"] == "box" else None
    return MLPPolicy(describe_observations(spaces.Box(-9, 9, (4,))), actions, network, layers, scale, log_std)


@pytest.mark.parametrize(
    "space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 3]), spaces.Box(-2, 2, (2,), np.float32)]
)
def test_a_loaded_policy_acts_as_the_saved_one(space: spaces.Space[object], tmp_path: Path) -> None:
    policy = make_policy(space)
    policy.save(tmp_path)
    loaded = load_policy(tmp_path)
    rng = np.random.default_rng(1)
    for observation in rng.standard_normal((20, 4)):
        action = loaded.act(observation)
        assert space.contains(action)
        assert np.array_equal(action, policy.act(observation))
        drawn = loaded.act(observation, deterministic=False, rng=np.random.default_rng(2))
        assert np.array_equal(drawn, policy.act(observation, deterministic=False, rng=np.random.default_rng(2)))


def test_loading_and_acting_import_numpy_alone(tmp_path: Path) -> None:
    make_policy(spaces.Discrete(3)).save(tmp_path)
    code = (
        "import sys, muster\n"
        f"print(muster.load_policy({str(tmp_path)!r}).act([0.0, 1.0, 2.0, 3.0]))\n"
        "heavy = {'ray', 'gymnasium', 'torch', 'pydantic', 'rich', 'typer', 'cloudpickle'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"0", "1", "2"}


def test_what_is_not_a_policy_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no policy there"):
        load_policy(tmp_path)
    make_policy(spaces.Discrete(3)).save(tmp_path)
    (tmp_path / "policy.npz").write_bytes(b"half a file")
    with pytest.raises(CheckpointError, match="the policy is damaged"):
        load_policy(tmp_path)
