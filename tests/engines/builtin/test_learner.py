"""The learner: a failed update changes nothing, and what is saved is loaded to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster.engines.builtin.learning.learner import ARRAYS_FILE, STATE_FILE, Learner
from muster.engines.builtin.learning.protocol import ignore_progress
from muster.engines.builtin.networks.actor_critic import ActorCritic
from muster.engines.builtin.networks.row_formats import row_format
from muster.engines.builtin.sampling.fragments import Fragment
from muster.engines.moments import Moments
from muster.errors import CheckpointError, NonFiniteUpdateError
from muster.experiment.schema import BUILTIN_ALGORITHMS, Experiment
from muster.policies.distributions import Categorical

STEPS, SIZE = 32, 3


def learner_of(algorithm: str = "PPO", size: int = SIZE) -> Learner:
    table = {
        "env": {"id": "x"},
        "algorithm": {"name": algorithm},
        "resources": {"env_groups": 1, "envs_per_group": 2},
    }
    networks = ActorCritic.create(size, Categorical([2]), [4], "tanh")
    rows = row_format(
        {"kind": "box", "shape": [size], "low": [-9.0] * size, "high": [9.0] * size}, takes_columns=True
    )
    return Learner(Experiment.model_validate(table), networks, rows)


def fragment(seed: int) -> Fragment:
    rng = np.random.default_rng(seed)
    observations, gains = rng.standard_normal((STEPS, SIZE)).astype(np.float32), rng.standard_normal(STEPS)
    return Fragment(
        observations,
        rng.integers(0, 2, (STEPS, 1)),
        np.full(STEPS, np.log(0.5), np.float32),
        gains.astype(np.float32),
        (gains + 1).astype(np.float32),
        np.zeros((STEPS, 0), bool),
        Moments.of(observations),
        Moments.of(gains[:, None]),
        STEPS,
        [],
        0,
        [seed, seed],
        0.0,
    )


def update(learner: Learner, seed: int) -> dict[str, float | None]:
    sampled = fragment(seed)
    return learner.update([sampled], [sampled.next_episodes], 0.0, ignore_progress)


def contents(learner: Learner, folder: Path) -> tuple[Any, ...]:
    learner.save(folder, learner.state)
    with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
        return (folder / STATE_FILE).read_text(), *((name, file[name].tobytes()) for name in file)


@pytest.mark.parametrize("algorithm", BUILTIN_ALGORITHMS)
def test_a_loaded_learner_continues_to_the_bit(algorithm: str, tmp_path: Path) -> None:
    learner, other = learner_of(algorithm), learner_of(algorithm)
    assert tuple(update(learner, 0)) == learner.metric_names
    learner.save(tmp_path, learner.state)
    other.load(tmp_path)
    assert other.state.next_episodes == [[1, 1]]
    assert update(learner, 2) == update(other, 2)
    assert contents(learner, tmp_path) == contents(other, tmp_path)


def test_the_saved_names_are_those_of_older_checkpoints(tmp_path: Path) -> None:
    learner = learner_of()
    learner.save(tmp_path, learner.state)
    with np.load(tmp_path / ARRAYS_FILE, allow_pickle=False) as file:
        assert list(file) == [
            "parameters",
            "optimizer_gradients",
            "optimizer_squares",
            "observations_mean",
            "observations_deviations",
            "returns_mean",
            "returns_deviations",
        ]
    numbers = json.loads((tmp_path / STATE_FILE).read_text())
    assert list(numbers) == ["optimizer_steps", "observations_count", "returns_count", "rng", "next_episodes"]


@pytest.mark.parametrize("algorithm", BUILTIN_ALGORITHMS)
def test_an_update_that_fails_changes_nothing(algorithm: str, tmp_path: Path) -> None:
    learner = learner_of(algorithm)
    update(learner, 0)
    update(learner, 1)
    before, saved = learner.state, contents(learner, tmp_path)
    poisoned = fragment(2)
    poisoned.advantages[0] = np.nan
    with pytest.raises(NonFiniteUpdateError), np.errstate(invalid="ignore"):
        learner.update([poisoned], [[9, 9]], 0.0, ignore_progress)
    assert learner.state is before
    assert contents(learner, tmp_path) == saved


def test_weights_alone_are_loaded_into_a_run_of_its_own(tmp_path: Path) -> None:
    learner, other = learner_of("PPO"), learner_of("TRPO")
    update(learner, 0)
    update(learner, 1)
    learner.save(tmp_path, learner.state)
    other.load(tmp_path, weights_only=True)
    assert np.array_equal(other.state.train.parameters, learner.state.train.parameters)
    assert other.state.observations.count == learner.state.observations.count
    assert (other.state.train.optimizer.steps, other.state.next_episodes) == (0, [[0, 0]])


def test_another_network_is_refused(tmp_path: Path) -> None:
    learner = learner_of(size=SIZE + 1)
    learner.save(tmp_path, learner.state)
    with pytest.raises(CheckpointError, match="take a checkpoint of the same simulator"):
        learner_of().load(tmp_path)
