"""State-dependent exploration: its variance, its gradient, and what TRPO makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from muster.engines.builtin.learning import ppo, trpo
from muster.engines.builtin.learning.batch import Batch
from muster.engines.builtin.learning.policy_gradients import gradients_of
from muster.engines.builtin.networks.actor_critic import ActorCritic
from muster.engines.builtin.networks.exploration import StateDependentExploration
from muster.experiment.schema import PPOSection
from muster.policies import state_dependent
from muster.policies.distributions import Gaussian

STEPS = 64
NOTHING_MASKED = np.zeros((STEPS, 0), bool)


def networks_and_batch() -> tuple[ActorCritic, Any, Batch]:
    """Return everything in double precision, so that differences can be small."""
    networks = replace(ActorCritic.create(4, Gaussian(2), [8], "tanh"), state_dependent=True)
    rng = np.random.default_rng(0)
    parameters = networks.initial(rng).astype(np.float64)
    networks.split(parameters).log_std[:] = rng.normal(-1, 0.3, networks.log_std_shape)
    observations = rng.standard_normal((STEPS, 4))
    outputs = networks.policy_outputs(networks.split(parameters), observations)
    actions = networks.distribution.sample(outputs, networks.distribution.noise(rng, (STEPS,)))
    log_probs = networks.distribution.log_prob(outputs, actions) + rng.normal(0, 0.05, STEPS)
    gains = rng.standard_normal(STEPS)
    return networks, parameters, Batch(observations, actions, log_probs, gains, gains + 1, NOTHING_MASKED)


def test_noise_has_the_variance_that_the_outputs_say() -> None:
    networks, parameters, batch = networks_and_batch()
    parts = networks.split(parameters)
    exploration = StateDependentExploration(networks, sample_freq=1)
    rows = np.repeat(batch.observations[:1], 20_000, axis=0)
    noise = exploration.noise(np.random.default_rng(1), 1, len(rows))[0]
    outputs, actions = exploration.act(parts, rows, NOTHING_MASKED, noise)
    mean, log_std = networks.distribution.split(outputs)  # type: ignore[union-attr]
    np.testing.assert_allclose(actions.mean(axis=0), mean[0], atol=0.02)
    np.testing.assert_allclose(actions.std(axis=0), np.exp(log_std[0]), rtol=0.03)


def test_noise_lasts_as_long_as_it_is_told() -> None:
    networks, _, _ = networks_and_batch()
    noise = StateDependentExploration(networks, sample_freq=4).noise(np.random.default_rng(1), 10, 3)
    changes = [not np.array_equal(noise[t], noise[t - 1]) for t in range(1, 10)]
    assert [t + 1 for t, changed in enumerate(changes) if changed] == [4, 8]
    lasting = StateDependentExploration(networks, sample_freq=None).noise(np.random.default_rng(1), 10, 3)
    assert all(np.array_equal(part, lasting[0]) for part in lasting)


def test_ppo_s_gradient_is_that_of_finite_differences() -> None:
    networks, parameters, batch = networks_and_batch()
    settings = PPOSection(clip_param=10.0, entropy_coeff=0.1, vf_loss_coeff=0)
    advantages = batch.normalised_advantages()
    mathematics = gradients_of(networks.distribution)
    given = networks.policy.features(networks.split(parameters).policy, batch.observations)

    def loss(flat: Any) -> float:
        """PPO's loss, with the features that the noise grows out of held as they are."""
        parts = networks.split(flat)
        means = networks.policy.forward(parts.policy, batch.observations)
        outputs = np.concatenate([means, state_dependent.log_std_at(given, parts.log_std)], axis=1)
        ratio = np.exp(networks.distribution.log_prob(outputs, batch.actions) - batch.log_probs)
        return float(-(ratio * advantages).mean() - 0.1 * mathematics.entropy(outputs).mean())

    columns = (batch.observations, batch.masks, batch.actions, batch.log_probs, advantages)
    rows = (*columns, batch.returns, batch.values)
    gradient = np.empty_like(parameters)
    parts, out = networks.split(parameters), networks.split(gradient)
    ppo.loss_gradient(networks, parts, mathematics, settings, rows, out)
    rng = np.random.default_rng(2)
    for start, end in ((0, networks.policy.num_parameters), (networks.policy.num_parameters, None)):
        direction = np.zeros_like(parameters)
        direction[start : end or networks.num_policy_parameters] = 1
        direction *= rng.standard_normal(len(parameters))
        slope = (loss(parameters + 1e-5 * direction) - loss(parameters - 1e-5 * direction)) / 2e-5
        assert gradient @ direction == pytest.approx(slope, rel=1e-5)


def test_trpo_s_fisher_product_is_the_divergence_s_curvature() -> None:
    networks, parameters, batch = networks_and_batch()
    product = trpo.fisher_vector_product(trpo.linearise(networks, parameters, batch), damping=0.0)
    one = np.zeros(networks.num_policy_parameters)
    one[networks.policy.num_parameters :] = np.random.default_rng(3).standard_normal(16)
    moved = parameters.copy()
    moved[: len(one)] += 1e-4 * one
    old, new = (networks.policy_outputs(networks.split(flat), batch.observations) for flat in (parameters, moved))
    divergence = gradients_of(networks.distribution).divergence(old, new).mean()
    assert one @ product(one) == pytest.approx(2 * divergence / 1e-8, rel=1e-2)
