"""Advantages, moments, Adam, conjugate gradient, line search and the updates, against known answers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from muster.engines.builtin.learning import ppo, trpo
from muster.engines.builtin.learning.adam import Adam
from muster.engines.builtin.learning.batch import BLOCK, Batch
from muster.engines.builtin.learning.policy_gradients import gradients_of
from muster.engines.builtin.learning.ppo import PPO
from muster.engines.builtin.learning.protocol import Algorithm, TrainState, ignore_progress
from muster.engines.builtin.learning.trpo import TRPO
from muster.engines.builtin.learning.trust_region import conjugate_gradient, line_search
from muster.engines.builtin.networks.actor_critic import ActorCritic
from muster.engines.builtin.sampling.advantages import advantages
from muster.engines.moments import Moments
from muster.errors import NonFiniteUpdateError
from muster.experiment.schema import PPOSection, TRPOSection
from muster.policies.distributions import Categorical, Gaussian

STEPS = 64
NOTHING_MASKED = np.zeros((STEPS, 0), bool)


def test_advantages_of_a_hand_made_fragment() -> None:
    rewards = np.array([[1.0], [2.0], [3.0]])
    values = np.array([[0.5], [0.25], [1.0]])
    next_values = np.array([[0.25], [0.0], [4.0]])
    ended = np.array([[False], [True], [False]])
    result = advantages(rewards, values, next_values, ended, gamma=0.5, lambda_=0.5)
    second = 2.0 - 0.25
    assert result[:, 0].tolist() == [1 + 0.5 * 0.25 - 0.5 + 0.25 * second, second, 3 + 0.5 * 4 - 1]


def test_with_lambda_one_an_advantage_is_the_discounted_return_less_the_value() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.standard_normal((2, 20, 3))
    last = rng.standard_normal(3)
    next_values = np.concatenate([values[1:], last[None]])
    result = advantages(rewards, values, next_values, np.zeros((20, 3), bool), gamma=0.9, lambda_=1.0)
    discounted = sum(0.9**t * rewards[t] for t in range(20)) + 0.9**20 * last
    np.testing.assert_allclose(result[0], discounted - values[0], rtol=1e-9)


def test_merged_moments_are_those_of_all_rows() -> None:
    rows = np.random.default_rng(0).standard_normal((100, 3)) * [1, 10, 1e-3] + [0, 1e4, 5]
    merged = Moments.empty(3)
    for part in (rows[:7], rows[7:7], rows[7:50], rows[50:]):
        merged = merged.merged(Moments.of(part))
    assert merged.count == 100
    np.testing.assert_allclose(merged.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(merged.std, np.sqrt(rows.var(axis=0) + 1e-8), rtol=1e-9)


def test_adam_agrees_with_torch() -> None:
    rng = np.random.default_rng(0)
    parameters = rng.standard_normal(10).astype(np.float32)
    tensor = torch.tensor(parameters.copy(), requires_grad=True)
    theirs = torch.optim.Adam([tensor], lr=0.01, eps=1e-5)
    ours = Adam.create(10)
    for _ in range(5):
        gradient = rng.standard_normal(10).astype(np.float32)
        tensor.grad = torch.tensor(gradient)
        theirs.step()
        ours.step(parameters, gradient, 0.01)
    np.testing.assert_allclose(parameters, tensor.detach().numpy(), rtol=1e-5)


def test_adam_keeps_no_subnormal_numbers_where_gradients_have_vanished() -> None:
    parameters = np.ones(4, np.float32)
    optimizer = Adam.create(4)
    for step in range(2000):
        gradient = np.array([1.0, 0.0, 0.0 if step else 1e-3, 1e-12], np.float32)
        optimizer.step(parameters, gradient, 1e-4)
        for kept in (optimizer.gradients, optimizer.squares):
            assert not ((kept != 0) & (np.abs(kept) < np.finfo(np.float32).tiny)).any()
    assert optimizer.gradients[2] == 0 and optimizer.gradients[3] != 0


def test_conjugate_gradient_solves_a_linear_system() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((8, 8))
    matrix, target = root @ root.T + np.eye(8), rng.standard_normal(8)
    solution = conjugate_gradient(lambda v: matrix @ v, target, iterations=20, tolerance=1e-20)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, target), rtol=1e-6)


def test_line_search_takes_the_first_fraction_that_fits_the_trust_region() -> None:
    tried = []

    def evaluate(point: Any) -> tuple[float, float]:
        tried.append(float(point[0]))
        return float(point[0]), float(point[0] ** 2)

    point, fraction, *_ = line_search(evaluate, np.zeros(1), np.array([1.0]), max_divergence=0.1, steps=5)
    assert tried == [1.0, 0.5, 0.25]
    assert (point[0], fraction) == (0.25, 0.25)


def test_line_search_stays_if_nothing_improves() -> None:
    point, fraction, *_ = line_search(lambda _: (-1.0, 0.0), np.zeros(1), np.ones(1), max_divergence=1.0, steps=3)
    assert (point[0], fraction) == (0.0, 0.0)


def networks_and_batch(distribution: Categorical | Gaussian, seed: int = 0) -> tuple[ActorCritic, Any, Batch]:
    networks = ActorCritic.create(4, distribution, [8], "tanh")
    rng = np.random.default_rng(seed)
    parameters = networks.initial(rng)
    observations = rng.standard_normal((STEPS, 4)).astype(np.float32)
    outputs = networks.policy_outputs(networks.split(parameters), observations)
    actions = distribution.sample(outputs, distribution.noise(rng, (STEPS,)))
    gains = rng.standard_normal(STEPS).astype(np.float32)
    log_probs = distribution.log_prob(outputs, actions)
    return networks, parameters, Batch(observations, actions, log_probs, gains, gains + 1, NOTHING_MASKED)


def torch_policy_loss(networks: ActorCritic, flat: torch.Tensor, batch: Batch, clip: float) -> torch.Tensor:
    """PPO's loss, written a second time with autograd."""
    hidden, start = torch.tensor(batch.observations, dtype=torch.float64), 0
    sizes = networks.policy.sizes
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        hidden = hidden @ flat[start : start + a * b].reshape(a, b) + flat[start + a * b : start + (a + 1) * b]
        start += (a + 1) * b
        if i < len(sizes) - 2:
            hidden = torch.tanh(hidden)
    actions = torch.tensor(batch.actions)
    if isinstance(networks.distribution, Gaussian):
        std = flat[start : start + networks.distribution.num_continuous].exp()
        log_probs = torch.distributions.Normal(hidden, std).log_prob(actions).sum(1)
    else:
        log_probs = torch.distributions.Categorical(logits=hidden).log_prob(actions[:, 0])
    ratio = (log_probs - torch.tensor(batch.log_probs)).exp()
    gains = torch.tensor(batch.normalised_advantages(), dtype=torch.float64)
    return -torch.minimum(ratio * gains, ratio.clamp(1 - clip, 1 + clip) * gains).mean()


@pytest.mark.parametrize("distribution", [Categorical([5]), Gaussian(2)])
def test_ppo_s_policy_gradient_agrees_with_autograd(distribution: Categorical | Gaussian) -> None:
    networks, _, batch = networks_and_batch(distribution)
    moved = networks.initial(np.random.default_rng(9)) * 3
    settings = PPOSection(clip_param=0.1, vf_loss_coeff=0)
    rows = (
        batch.observations,
        batch.masks,
        batch.actions,
        batch.log_probs,
        batch.normalised_advantages(),
        batch.returns,
        batch.values,
    )
    gradient = np.empty_like(moved)
    parts, out = networks.split(moved), networks.split(gradient)
    ppo.loss_gradient(networks, parts, gradients_of(distribution), settings, rows, out)
    flat = torch.tensor(moved.astype(np.float64), requires_grad=True)
    torch_policy_loss(networks, flat, batch, clip=0.1).backward()
    assert flat.grad is not None
    np.testing.assert_allclose(gradient, flat.grad.numpy(), rtol=1e-3, atol=1e-6)


def updated(
    algorithm: Algorithm, networks: ActorCritic, parameters: Any, batch: Batch
) -> tuple[Any, dict[str, float | None]]:
    """Return the parameters after one update from the first state, and its metrics."""
    state = TrainState(parameters.copy(), algorithm.optimizer(networks), np.random.default_rng(0))
    metrics = algorithm.update(networks, state, batch, 0.0, ignore_progress)
    assert tuple(metrics) == algorithm.metrics
    return state.parameters, metrics


@pytest.mark.parametrize("distribution", [Categorical([5]), Categorical([2, 3]), Gaussian(2)])
def test_an_update_makes_good_actions_likelier(distribution: Categorical | Gaussian) -> None:
    networks, parameters, batch = networks_and_batch(distribution)
    ppo_after, _ = updated(PPO(PPOSection(lr=3e-3)), networks, parameters, batch)
    trpo_after, metrics = updated(TRPO(TRPOSection(name="TRPO")), networks, parameters, batch)
    for after in (ppo_after, trpo_after):
        outputs = networks.policy_outputs(networks.split(after), batch.observations)
        log_probs = distribution.log_prob(outputs, batch.actions)
        assert (np.exp(log_probs - batch.log_probs) * batch.normalised_advantages()).mean() > 0.01
    assert metrics["policy/kl"] is not None
    assert 0 < metrics["policy/kl"] <= 0.01


def test_a_line_search_that_fails_leaves_trpo_s_policy_as_it_was() -> None:
    networks, parameters, batch = networks_and_batch(Gaussian(2))
    settings = TRPOSection(name="TRPO", target_kl=100.0, line_search_steps=1)
    after, metrics = updated(TRPO(settings), networks, parameters, batch)
    end = networks.num_policy_parameters
    assert (metrics["policy/step_fraction"], metrics["policy/kl"]) == (0.0, 0.0)
    assert after[:end].tobytes() == parameters[:end].tobytes()
    assert np.any(after[end:] != parameters[end:]), "the values are fitted all the same"


def test_an_action_counts_more_the_likelier_it_has_become_up_to_twice() -> None:
    _, _, batch = networks_and_batch(Categorical([5]))
    changes = np.log(np.resize([1.0, 0.5, 1.5, 7.0], STEPS)).astype(np.float32)
    corrected = batch.corrected_advantages(batch.log_probs + changes)
    expected = batch.normalised_advantages() * np.resize([1.0, 0.5, 1.5, 2.0], STEPS)
    np.testing.assert_allclose(corrected, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "algorithm", [PPO(PPOSection(num_epochs=3, lr=3e-3)), TRPO(TRPOSection(name="TRPO"))], ids=["PPO", "TRPO"]
)
def test_what_another_policy_sampled_is_learned_by_its_weight(algorithm: Algorithm) -> None:
    """Half of the actions are 20 times likelier by now: beyond any clip around the policy that sampled them."""
    doubled = np.resize([False, True], STEPS)
    gains = []
    for seed in range(10):
        networks, parameters, batch = networks_and_batch(Categorical([5]), seed)
        sampled = batch.log_probs - np.log(np.where(doubled, 20.0, 1.0)).astype(np.float32)
        after, _ = updated(algorithm, networks, parameters, replace(batch, log_probs=sampled))
        outputs = networks.policy_outputs(networks.split(after), batch.observations)
        change = networks.distribution.log_prob(outputs, batch.actions) - batch.log_probs
        gains.append(change * np.sign(batch.advantages))
    of_each = np.mean(gains, axis=0)
    assert of_each[doubled].mean() > of_each[~doubled].mean() > 0


def test_fisher_product_is_symmetric_and_matches_the_divergence() -> None:
    networks, parameters, batch = networks_and_batch(Gaussian(2))
    parameters = parameters.astype(np.float64)
    batch = replace(batch, observations=batch.observations.astype(np.float64))
    product = trpo.fisher_vector_product(trpo.linearise(networks, parameters, batch), damping=0.0)
    rng = np.random.default_rng(3)
    one, other = rng.standard_normal((2, networks.num_policy_parameters))
    assert one @ product(other) == pytest.approx(other @ product(one), rel=1e-9)
    step = 1e-4
    moved = parameters.copy()
    moved[: len(one)] += step * one
    old = networks.policy_outputs(networks.split(parameters), batch.observations)
    new = networks.policy_outputs(networks.split(moved), batch.observations)
    divergence = gradients_of(networks.distribution).divergence(old, new).mean()
    assert one @ product(one) == pytest.approx(2 * divergence / step**2, rel=1e-2)


@pytest.mark.parametrize("distribution", [Categorical([3, 2]), Gaussian(2)])
def test_a_batch_of_several_blocks_is_as_good_as_one(distribution: Categorical | Gaussian) -> None:
    networks, parameters, batch = networks_and_batch(distribution)
    many = Batch(**{name: np.concatenate([column] * 40) for name, column in vars(batch).items()})
    assert 2 * BLOCK < len(many) < 3 * BLOCK
    ppo_metrics: list[Any] = []
    trpo_metrics: list[Any] = []
    trpo_steps = []
    for rows in (batch, many):
        algorithm = PPO(PPOSection(num_epochs=1, minibatch_size=STEPS, lr=1e-9))
        _, metrics = updated(algorithm, networks, parameters, rows)
        ppo_metrics.append([metrics[name] for name in metrics if name != "learner/grad_norm"])
        after, metrics = updated(TRPO(TRPOSection(name="TRPO")), networks, parameters, rows)
        trpo_metrics.append([metrics[name] for name in metrics if name != "value/loss"])
        trpo_steps.append(after[: networks.num_policy_parameters] - parameters[: networks.num_policy_parameters])
    np.testing.assert_allclose(ppo_metrics[1], ppo_metrics[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(trpo_metrics[1], trpo_metrics[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(trpo_steps[1], trpo_steps[0], rtol=0.05, atol=0.02 * np.abs(trpo_steps[0]).max())


@pytest.mark.parametrize("algorithm", [PPO(PPOSection()), TRPO(TRPOSection(name="TRPO"))], ids=["PPO", "TRPO"])
def test_an_update_that_is_not_finite_is_refused(algorithm: Algorithm) -> None:
    networks, parameters, batch = networks_and_batch(Categorical([3]))
    batch.advantages[3] = np.inf
    with pytest.raises(NonFiniteUpdateError), np.errstate(invalid="ignore"):
        updated(algorithm, networks, parameters, batch)


def test_value_clip_stops_values_that_moved_too_far() -> None:
    settings = PPOSection(vf_clip_param=0.01)
    old_values = np.random.default_rng(0).standard_normal(STEPS)
    moved = old_values + 1.0
    assert np.abs(ppo.value_loss_gradient(moved, old_values + 0.5, old_values, settings)).min() > 0
    assert np.abs(ppo.value_loss_gradient(moved, old_values + 5.0, old_values, settings)).max() == 0
