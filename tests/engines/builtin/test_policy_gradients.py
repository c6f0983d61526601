"""Log-probability, entropy, divergence and Fisher products, against torch's distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import distributions as theirs

from muster.engines.builtin.learning.policy_gradients import gradients_of
from muster.policies.distributions import Categorical, Gaussian

DISTRIBUTIONS = [Categorical([4]), Categorical([3, 5, 2]), Gaussian(3)]
BATCH = 6


def outputs_and_actions(distribution: Categorical | Gaussian, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    outputs = rng.standard_normal((BATCH, distribution.num_outputs))
    return outputs, distribution.sample(outputs, distribution.noise(rng, (BATCH,)))


def torch_parts(distribution: Categorical | Gaussian, outputs: torch.Tensor) -> list[Any]:
    if isinstance(distribution, Gaussian):
        size = distribution.action_size
        return [theirs.Normal(outputs[:, i], outputs[:, size + i].exp()) for i in range(size)]
    return [theirs.Categorical(logits=outputs[:, segment]) for segment in distribution.segments]


def torch_log_prob(
    distribution: Categorical | Gaussian, outputs: torch.Tensor, actions: torch.Tensor
) -> torch.Tensor:
    parts = torch_parts(distribution, outputs)
    return torch.stack([part.log_prob(actions[:, i]) for i, part in enumerate(parts)]).sum(0)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_log_prob_and_its_gradient(distribution: Categorical | Gaussian) -> None:
    outputs, actions = outputs_and_actions(distribution)
    tensor = torch.tensor(outputs, requires_grad=True)
    expected = torch_log_prob(distribution, tensor, torch.tensor(actions))
    expected.sum().backward()
    np.testing.assert_allclose(distribution.log_prob(outputs, actions), expected.detach().numpy(), rtol=1e-6)
    log_probs, gradient = gradients_of(distribution).log_prob(outputs, actions)
    np.testing.assert_allclose(log_probs, distribution.log_prob(outputs, actions), rtol=1e-6)
    assert tensor.grad is not None
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_entropy_and_its_gradient(distribution: Categorical | Gaussian) -> None:
    outputs, _ = outputs_and_actions(distribution)
    tensor = torch.tensor(outputs, requires_grad=True)
    expected = torch.stack([part.entropy() for part in torch_parts(distribution, tensor)]).sum(0)
    expected.sum().backward()
    mathematics = gradients_of(distribution)
    entropy, gradient = mathematics.entropy(outputs), mathematics.entropy_gradient(outputs)
    np.testing.assert_allclose(entropy, expected.detach().numpy(), rtol=1e-6)
    assert tensor.grad is not None
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_divergence_agrees_with_the_closed_form(distribution: Categorical | Gaussian) -> None:
    old, _ = outputs_and_actions(distribution, seed=1)
    new, _ = outputs_and_actions(distribution, seed=2)
    pairs = zip(
        torch_parts(distribution, torch.tensor(old)), torch_parts(distribution, torch.tensor(new)), strict=True
    )
    expected = torch.stack([theirs.kl_divergence(a, b) for a, b in pairs]).sum(0)
    own = gradients_of(distribution).divergence(old, new)
    np.testing.assert_allclose(own, expected.numpy(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(gradients_of(distribution).divergence(old, old), 0, atol=1e-12)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_fisher_product_is_the_divergence_s_curvature(distribution: Categorical | Gaussian) -> None:
    outputs, _ = outputs_and_actions(distribution)
    change = np.random.default_rng(5).standard_normal(outputs.shape)
    mathematics = gradients_of(distribution)
    product = mathematics.fisher(outputs)(change)
    step = 1e-4
    curvature = 2 * mathematics.divergence(outputs, outputs + step * change) / step**2
    np.testing.assert_allclose((change * product).sum(axis=1), curvature, rtol=1e-2)


def test_samples_follow_the_probabilities() -> None:
    distribution = Categorical([3])
    outputs = np.log(np.tile([0.2, 0.3, 0.5], (60_000, 1)))
    rng = np.random.default_rng(0)
    drawn = distribution.sample(outputs, distribution.noise(rng, (len(outputs),)))
    np.testing.assert_allclose(np.bincount(drawn[:, 0]) / len(drawn), [0.2, 0.3, 0.5], atol=0.01)
