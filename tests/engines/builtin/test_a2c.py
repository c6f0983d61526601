"""A2C: its gradient, against finite differences, and that it learns."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster import train
from muster.engines.builtin.learning import a2c
from muster.engines.builtin.learning.a2c import A2C
from muster.engines.builtin.learning.batch import BLOCK, Batch
from muster.engines.builtin.learning.policy_gradients import gradients_of
from muster.engines.builtin.learning.protocol import TrainState
from muster.engines.builtin.networks.actor_critic import ActorCritic
from muster.experiment.schema import A2CSection
from muster.policies.distributions import AnyDistribution, Categorical, Gaussian, Mixed, masked
from muster.training import TrainOptions

STEPS = 64
SETTINGS = A2CSection(name="A2C", entropy_coeff=0.1, vf_loss_coeff=0.7)


def networks_and_batch(distribution: AnyDistribution) -> tuple[ActorCritic, Any, Batch]:
    """Return everything in double precision; of choices alone, every third is masked out in half of the rows."""
    networks = ActorCritic.create(4, distribution, [8], "tanh")
    rng = np.random.default_rng(0)
    parameters = networks.initial(rng).astype(np.float64) + rng.normal(0, 0.1, networks.num_parameters)
    observations = rng.standard_normal((STEPS, 4))
    masks = np.ones((STEPS, distribution.num_outputs if isinstance(distribution, Categorical) else 0), bool)
    masks[::2, ::3] = False
    outputs = masked(networks.policy_outputs(networks.split(parameters), observations), masks)
    actions = distribution.sample(outputs, distribution.noise(rng, (STEPS,)))
    log_probs = distribution.log_prob(outputs, actions)
    gains = rng.standard_normal(STEPS)
    return networks, parameters, Batch(observations, actions, log_probs, gains, gains + 1, masks)


DISTRIBUTIONS = [Categorical([5]), Categorical([2, 3]), Gaussian(2), Mixed(Categorical([3]), Gaussian(1))]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=["choice", "choices", "numbers", "both"])
def test_the_gradient_is_that_of_finite_differences(distribution: AnyDistribution) -> None:
    networks, parameters, batch = networks_and_batch(distribution)
    mathematics, advantages = gradients_of(distribution), batch.normalised_advantages()

    def losses(flat: Any) -> tuple[float, float, float]:
        parts = networks.split(flat)
        outputs = masked(networks.policy_outputs(parts, batch.observations), batch.masks)
        errors = networks.values(parts, batch.observations) - batch.returns
        log_probs = distribution.log_prob(outputs, batch.actions)
        return (
            -float((advantages * log_probs).mean()),
            float(mathematics.entropy(outputs).mean()),
            0.5 * float((errors**2).mean()),
        )

    def loss(flat: Any) -> float:
        policy, entropy, value = losses(flat)
        return policy - 0.1 * entropy + 0.7 * value

    gradient, means = a2c.loss_gradient(networks, parameters, batch, SETTINGS)
    assert means == pytest.approx(losses(parameters), rel=1e-6)
    ends = [0, networks.policy.num_parameters, networks.num_policy_parameters, networks.num_parameters]
    for start, end in pairwise(ends):
        direction = np.zeros_like(parameters)
        direction[start:end] = np.random.default_rng(2).standard_normal(end - start)
        slope = (loss(parameters + 1e-5 * direction) - loss(parameters - 1e-5 * direction)) / 2e-5
        assert gradient @ direction == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_the_gradients_of_blocks_add_up_to_that_of_the_batch() -> None:
    networks, parameters, batch = networks_and_batch(Categorical([5]))
    many = Batch(**{name: np.concatenate([column] * 40) for name, column in vars(batch).items()})
    assert 2 * BLOCK < len(many) < 3 * BLOCK
    once, means = a2c.loss_gradient(networks, parameters, batch, SETTINGS)
    often, same_means = a2c.loss_gradient(networks, parameters, many, SETTINGS)
    np.testing.assert_allclose(often, once, rtol=1e-5, atol=1e-8)
    assert same_means == pytest.approx(means)


def test_an_update_is_one_step_and_reports_its_columns() -> None:
    networks, parameters, batch = networks_and_batch(Gaussian(2))
    algorithm = A2C(A2CSection(name="A2C", lr=0.01, lr_schedule="linear"))
    state = TrainState(parameters.astype(np.float32), algorithm.optimizer(networks), np.random.default_rng(0))
    seen = []
    metrics = algorithm.update(networks, state, batch, 0.25, lambda fraction, _: seen.append(fraction))
    assert (state.optimizer.steps, seen) == (1, [1.0])
    assert tuple(metrics) == algorithm.metrics
    assert metrics["learner/lr"] == 0.0075
    np.testing.assert_array_less(np.abs(state.parameters - parameters), 0.0076)


def test_it_learns_to_balance(tmp_path: Path) -> None:
    overrides = {
        "algorithm.name": "A2C",
        "resources.workers": 0,
        "stop.steps": 120_000,
        "stop.return": 200,
        "checkpoint.every": 1000,
    }
    result = train("CartPole-v1", overrides=overrides, options=TrainOptions(runs_dir=tmp_path))
    assert result.return_mean is not None
    assert result.return_mean >= 200
