"""Exported files decide as the policy does, for every kind of space."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muster.engines.builtin.task import make_task
from muster.errors import InputError
from muster.experiment import load_experiment
from muster.experiment.loading import Override
from muster.policies.interface import Interface
from muster.policies.onnx_export import ExportablePolicy, Format, arrays_of_parts, observation_arrays, opened
from muster.policies.scale import Scale
from muster.simulators.describing import MASK
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.simulator import Simulator
from muster.stepping.building import build
from muster.training.policy_export import export

OBSERVATIONS = 1000
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("CartPole-v1", {}),
    ("Pendulum-v1", {"algorithm.use_sde": True}),
    ("tests.toys:Parts", {}),
    ("tests.puzzles:InDict", {}),
    ("tests.puzzles:InTuple", {"model.activation": "relu"}),
    ("tests.puzzles:InNested", {}),
    ("tests.puzzles:InGrid", {}),
    ("tests.puzzles:InImage", {}),
    ("tests.puzzles:InImage", {"model.images": False}),
    ("tests.puzzles:InImageAndDict", {}),
    ("tests.puzzles:Masked", {}),
    ("tests.puzzles:Masked", {"env.config.where": "observation"}),
    ("tests.puzzles:MaskedPair", {}),
    ("tests.puzzles:ByBits", {}),
    ("tests.puzzles:ByParts", {}),
    ("tests.puzzles:ByPosition", {"algorithm.action_bounds": "squash"}),
]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Rows one by one are slower with more threads, and far slower on a busy machine."""
    torch.set_num_threads(1)


def random_policy(name: str, settings: dict[str, Any]) -> tuple[ExportablePolicy, Simulator]:
    """Return a policy with weights and a scale that nobody trained."""
    settings = dict(settings)
    config = {"where": settings.pop("env.config.where")} if "env.config.where" in settings else {}
    loaded = load_experiment(name, [Override(key, value, "test") for key, value in settings.items()])
    simulator = Simulator(name, config)
    task = make_task(build(simulator), loaded)
    rng = np.random.default_rng(0)
    encoder = ObservationEncoder(task.observations)
    mean, std = rng.standard_normal((2, encoder.size)).astype(np.float32) * encoder.scalable
    scale = Scale(mean, np.exp(std))
    networks = task.model.networks(task.observations, task.actions)
    parameters = networks.initial(rng) * 3
    policy = networks.policy_with(parameters, Interface(task.observations, task.actions, scale))
    assert isinstance(policy, ExportablePolicy)
    return policy, simulator


@pytest.mark.parametrize(("name", "settings"), KINDS, ids=lambda value: str(value).rpartition(":")[2])
def test_onnx_decides_as_the_policy_does(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    policy, simulator = random_policy(name, settings)
    result = export(policy, simulator, tmp_path / "policy.onnx", "onnx")
    assert result.observations >= OBSERVATIONS / 2
    space = build(simulator).observation_space
    space.seed(7)
    rng = np.random.default_rng(7)
    observations = [space.sample() for _ in range(OBSERVATIONS)]
    masks: list[Any] | None = None
    if MASK in result.inputs:
        size = int(result.inputs[MASK].split(",")[1].strip(" ]"))
        masks = list(rng.integers(0, 2, (OBSERVATIONS, size)) | (np.arange(size) % 3 == 0))
    if masks and "mask" in policy.interface.observations:
        observations = [{**o, MASK: mask} for o, mask in zip(observations, masks, strict=True)]
    own = [
        policy.act(observation, mask=None if masks is None else masks[i])
        for i, observation in enumerate(observations)
    ]
    run = opened(tmp_path / "policy.onnx", "onnx", tuple(result.outputs))
    found = run(observation_arrays(policy.interface.observations, observations, masks))
    for part, expected in arrays_of_parts("action", policy.interface.actions, own).items():
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found[part], expected, rtol=1e-4, atol=1e-4)
        else:
            assert np.array_equal(found[part], expected), part


@pytest.mark.parametrize("name", ["tests.puzzles:InNested", "tests.puzzles:InImage", "tests.puzzles:ByParts"])
def test_torchscript_decides_as_the_policy_does(name: str, tmp_path: Path) -> None:
    policy, simulator = random_policy(name, {})
    result = export(policy, simulator, tmp_path / "policy.pt", "torchscript")
    assert (tmp_path / "policy.pt").is_file()
    assert result.largest_difference < 1e-4


def test_a_file_that_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, simulator = random_policy("CartPole-v1", {})
    truth = policy.act
    monkeypatch.setattr(policy, "act", lambda *args, **options: 1 - truth(*args, **options))
    with pytest.raises(Exception, match="differs from the policy: observation 0 gives"):
        export(policy, simulator, tmp_path / "policy.onnx", "onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("file_format", "module"), [("onnx", "onnxruntime"), ("torchscript", "torch")])
def test_a_missing_extra_is_told(
    file_format: Format, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, simulator = random_policy("CartPole-v1", {})
    monkeypatch.setitem(sys.modules, module, None)
    extra = {"onnx": "onnx", "torchscript": "torch"}[file_format]
    with pytest.raises(InputError, match=rf"pip install '\.\[{extra}\]'"):
        export(policy, simulator, tmp_path / "policy", file_format)
