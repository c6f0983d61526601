"""When workers begin the next batch while the learner learns, and with what weights."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from muster.engines.builtin.sampling import ray_collector
from muster.engines.builtin.sampling.fragments import Fragment, Weights
from muster.engines.builtin.sampling.groups import GroupSettings
from muster.engines.builtin.sampling.ray_collector import RayCollector
from muster.engines.builtin.sampling.workers import GroupStart
from muster.stepping.failures import Supervision
from tests.engines.builtin.test_groups import settings_for

LEARN_SECONDS = 1.0


def weights(settings: GroupSettings, seed: int) -> Weights:
    parameters = settings.networks().initial(np.random.default_rng(seed))
    return Weights(parameters * 20, None, 1.0)


def is_sampled_with(fragment: Fragment, settings: GroupSettings, seed: int) -> bool:
    networks = settings.networks()
    outputs = networks.policy_outputs(
        networks.split(weights(settings, seed).parameters), np.asarray(fragment.observations)
    )
    log_probs = networks.distribution.log_prob(outputs, fragment.actions)
    return bool(np.allclose(fragment.log_probs, log_probs, rtol=1e-4, atol=1e-4))


@pytest.fixture
def collected(ray_with_four_cpus: None) -> Iterator[tuple[GroupSettings, RayCollector]]:
    """A collector after two batches, between which learning has taken much longer than sampling."""
    settings = settings_for("Guess")
    starts = [GroupStart(g, [0, 0]) for g in range(2)]
    collector = RayCollector(settings, starts, 2, overlap=True, supervision=Supervision(lambda _: None))
    collect(collector, settings, 0)
    time.sleep(LEARN_SECONDS)
    collect(collector, settings, 0)
    yield settings, collector
    collector.close()


def collect(collector: RayCollector, settings: GroupSettings, seed: int) -> list[Fragment]:
    return collector.collect(weights(settings, seed)).fragments


def test_the_next_batch_is_begun_late_with_what_is_learned_by_then(
    collected: tuple[GroupSettings, RayCollector],
) -> None:
    settings, collector = collected
    collector.learning(0.1, lambda: weights(settings, 1))
    collector.learning(1.0, lambda: weights(settings, 2))
    collector.learning(1.0, lambda: weights(settings, 3))
    fragments = collect(collector, settings, 4)
    assert len(fragments) == 2
    assert all(is_sampled_with(fragment, settings, 2) for fragment in fragments)
    assert not any(is_sampled_with(fragment, settings, 4) for fragment in fragments)


def test_a_batch_that_was_not_begun_is_sampled_with_the_newest_weights(
    collected: tuple[GroupSettings, RayCollector],
) -> None:
    settings, collector = collected
    assert all(is_sampled_with(fragment, settings, 4) for fragment in collect(collector, settings, 4))


def test_sampling_begins_at_once_unless_learning_takes_longer() -> None:
    assert ray_collector._share_to_begin_at(sample_seconds=1.0, learn_seconds=1.0) == 0
    assert ray_collector._share_to_begin_at(sample_seconds=5.0, learn_seconds=0.0) == 0
    late = ray_collector._share_to_begin_at(sample_seconds=0.1, learn_seconds=1.0)
    assert 0.5 < late < 1
    assert late > ray_collector._share_to_begin_at(sample_seconds=0.2, learn_seconds=1.0)
