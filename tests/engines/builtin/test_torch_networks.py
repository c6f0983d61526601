"""Networks written with torch: gradients, a network of one's own from file to policy, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muster import load_policy, train
from muster.engines.builtin.networks.torch_networks import TorchNetworks
from muster.errors import ExperimentError, InputError
from muster.policies.distributions import Mixed, distribution_for
from muster.policies.torch_model import TorchModel
from muster.simulators.describing import describe_actions
from muster.training import TrainOptions
from tests.puzzles import ByParts

ROOT = Path(__file__).parents[3]
SHARED_NET = f"{ROOT / 'examples' / 'torch_model' / 'shared_net.py'}:SharedNet"
SHORT: dict[str, Any] = {
    "name": "run",
    "resources.workers": 0,
    "resources.env_groups": 2,
    "algorithm.train_batch_size": 256,
    "stop.iterations": 2,
    "model.class": SHARED_NET,
}


class NoValues(torch.nn.Module):
    """Forgets the values."""

    def __init__(self, observation_shape: tuple[int, ...], num_outputs: int, config: dict[str, Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(observation_shape[0], num_outputs)

    def forward(self, observations: torch.Tensor) -> Any:
        return self.layer(observations)


def test_gradients_are_those_of_finite_differences() -> None:
    distribution = distribution_for(describe_actions(ByParts().action_space))
    assert isinstance(distribution, Mixed)
    num_outputs = distribution.num_outputs - distribution.num_continuous
    model = TorchModel(SHARED_NET, (3,), num_outputs, distribution.num_continuous, {"hidden": [8]})
    networks = TorchNetworks(model, distribution, None)
    rng = np.random.default_rng(0)
    parameters = networks.initial(rng)
    rows = rng.standard_normal((5, 3)).astype(np.float32)
    at_outputs, at_values = rng.standard_normal((5, distribution.num_outputs)), rng.standard_normal(5)

    def total(flat: Any) -> float:
        parts = networks.split(flat)
        outputs, values = networks.policy_outputs(parts, rows), networks.values(parts, rows)
        return float((outputs * at_outputs).sum() + (values * at_values).sum())

    gradient = np.empty_like(parameters)
    pull_back = networks.differentiate(networks.split(parameters), rows)[2]
    pull_back(at_outputs, at_values, networks.split(gradient))
    direction = rng.standard_normal(len(parameters)).astype(np.float32)
    step = np.float32(1e-3)
    slope = (total(parameters + step * direction) - total(parameters - step * direction)) / (2 * step)
    assert gradient @ direction == pytest.approx(slope, rel=2e-2)


def test_a_network_of_one_s_own_is_trained_saved_and_loaded(tmp_path: Path) -> None:
    overrides = {**SHORT, "model.config": {"hidden": [16]}}
    assert train("CartPole-v1", overrides=overrides, options=TrainOptions(runs_dir=tmp_path)).state == "finished"
    folder = tmp_path / "run" / "checkpoints" / "latest"
    assert '"kind": "torch"' in (folder / "policy.json").read_text()
    policy = load_policy(folder)
    with np.load(folder / "policy.npz", allow_pickle=False) as arrays:
        assert arrays["weights/model.body.layers.0.weight"].shape == (16, 4)
    assert policy.act(np.zeros(4)) in (0, 1)
    resumed = train("CartPole-v1", overrides={**overrides, "stop.iterations": 3}, options=_resume(tmp_path))
    assert resumed.iterations == 3


def _resume(folder: Path) -> TrainOptions:
    return TrainOptions(runs_dir=folder, resume=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm.name": "TRPO"}, "TRPO does not train a network of your own"),
        ({"algorithm.use_sde": True}, "does not go with a network of your own"),
        ({"model.class": f"{__name__}:NoValues"}, "forward returned a Tensor; expected a pair of tensors"),
        ({"model.class": "shared_net_that_is_not:Net"}, "no module"),
    ],
)
def test_what_does_not_fit_is_told(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=message):
        train("CartPole-v1", overrides={**SHORT, **settings}, options=TrainOptions(runs_dir=tmp_path))


@pytest.mark.parametrize("key", ["algorithm.use_sde", "algorithm.sde_sample_freq", "model.config"])
def test_settings_without_their_subject_are_told(key: str, tmp_path: Path) -> None:
    value = {"algorithm.use_sde": True, "algorithm.sde_sample_freq": 4, "model.config": {"hidden": [8]}}[key]
    overrides = {key: value, "resources.workers": 0}
    with pytest.raises(ExperimentError, match=key):
        train("CartPole-v1", overrides=overrides, options=TrainOptions(runs_dir=tmp_path))


def test_without_torch_the_command_that_installs_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "muster.policies.torch_model", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install '\.\[torch\]'"):
        train("CartPole-v1", overrides=SHORT, options=TrainOptions(runs_dir=tmp_path))
