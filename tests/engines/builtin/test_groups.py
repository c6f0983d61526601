"""What a group samples: copies, bootstraps, failures, and its independence of everything else."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from muster.engines.builtin.networks.model_settings import ModelSettings
from muster.engines.builtin.sampling.fragments import Weights
from muster.engines.builtin.sampling.groups import EnvGroup, GroupSettings
from muster.engines.builtin.sampling.learning_rows import Discounting, learning_rows, rescaled
from muster.errors import SimulatorError
from muster.simulators.describing import describe_actions, describe_observations
from muster.simulators.seeding import Stream, reset_seed
from muster.simulators.simulator import Simulator
from muster.stepping.building import build
from muster.stepping.failures import SamplingAbandonedError, SimulatorFailure, Supervision
from muster.stepping.many import SteppingSettings
from tests import toys


def settings_for(name: str, length: int = 20, module: str = "tests.toys", **config: Any) -> GroupSettings:
    simulator = Simulator(f"{module}:{name}", config)
    env = build(simulator)
    return GroupSettings(
        SteppingSettings(
            simulator=simulator,
            observations=describe_observations(env.observation_space),
            actions=describe_actions(env.action_space),
            num_envs=2,
            seed=0,
        ),
        fragment_length=length,
        discounting=Discounting(0.9, 0.5),
        model=ModelSettings((8,), "tanh"),
    )


def ignore(failure: SimulatorFailure) -> None:
    pass


def group_and_weights(
    settings: GroupSettings, index: int = 0, failures: list[SimulatorFailure] | None = None
) -> tuple[EnvGroup, Weights]:
    supervision = Supervision(ignore if failures is None else failures.append)
    group = EnvGroup(settings, index, [0] * settings.stepping.num_envs, supervision)
    group.start()
    return group, Weights(settings.networks().initial(np.random.default_rng(0)), None, 1.0)


def test_fragments_repeat_for_the_same_group_and_differ_for_another() -> None:
    settings = settings_for("Guess")
    fragments = []
    for index in (0, 0, 1):
        group, weights = group_and_weights(settings, index)
        fragments.append(group.sample(weights))
    assert np.array_equal(fragments[0].observations, fragments[1].observations)
    assert np.array_equal(fragments[0].actions, fragments[1].actions)
    assert not np.array_equal(fragments[0].observations, fragments[2].observations)


def test_rows_that_were_sampled_without_scales_are_scaled_later() -> None:
    settings = settings_for("Aim")
    group, known = group_and_weights(settings)
    fragment = group.sample(replace(known, scales_are_known=False))
    assert fragment.recording is not None
    networks, row_format = settings.networks(), settings.row_format()
    made = learning_rows(fragment.recording, known, networks, row_format, settings.discounting)
    for name, column in made._asdict().items():
        assert np.array_equal(column, getattr(fragment, name))
    scale = fragment.observation_moments.scale(row_format.scalable)
    measured = replace(known, observation_scale=scale, reward_std=float(fragment.return_moments.std[0]))
    # As it comes from a worker.
    fragment.recording.inputs.flags.writeable = fragment.recording.raw.flags.writeable = False
    recording = rescaled(fragment.recording, scale, row_format)
    made = learning_rows(recording, measured, networks, row_format, settings.discounting)
    np.testing.assert_allclose(made.observations.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(made.observations.std(axis=0), 1, atol=1e-3)
    assert group.sample(known).recording is None


def test_a_group_goes_on_exactly_from_its_state() -> None:
    settings = settings_for("Guess", length=13)
    group, weights = group_and_weights(settings)
    group.sample(weights)
    state = group.state()
    expected = [group.sample(weights), group.sample(weights)]
    restored = EnvGroup(settings, 0, [0, 0], Supervision(ignore))
    restored.restore(state)
    for fragment in expected:
        again = restored.sample(weights)
        assert np.array_equal(again.observations, fragment.observations)
        assert np.array_equal(again.returns, fragment.returns)
        assert again.episodes == fragment.episodes


def test_process_wide_random_numbers_belong_to_the_group() -> None:
    settings = settings_for("GlobalRandomness")
    group, weights = group_and_weights(settings)
    undisturbed = [group.sample(weights).returns, group.sample(weights).returns]
    group, _ = group_and_weights(settings)
    random.seed(99)
    before = random.getstate()
    disturbed = [group.sample(weights).returns]
    assert random.getstate() == before
    np.random.seed(5)
    disturbed.append(group.sample(weights).returns)
    assert np.array_equal(undisturbed, disturbed)


@pytest.mark.parametrize("truncates", [False, True])
def test_only_termination_ends_what_can_be_gained(truncates: bool) -> None:
    settings = settings_for("Guess", length=1, truncates=truncates)
    settings.stepping.simulator.config["length"] = 1
    group, weights = group_and_weights(settings)
    networks = settings.networks()
    parts = networks.split(weights.parameters)
    parts.value[-1][1][:] = 7.0
    fragment = group.sample(weights)
    values = networks.values(parts, fragment.observations)
    rewards = np.array([episode.total for episode in fragment.episodes])
    bootstrap = fragment.returns - rewards
    assert (values > 4).all()
    if not truncates:
        np.testing.assert_allclose(bootstrap, 0, atol=1e-6)
        return
    finals = [_final_observation(settings, i, int(action)) for i, action in enumerate(fragment.actions[:, 0])]
    rows = np.eye(3, dtype=np.float32)[finals]
    np.testing.assert_allclose(bootstrap, 0.9 * networks.values(parts, rows), rtol=1e-5)


def _final_observation(settings: GroupSettings, i: int, action: int) -> int:
    """Play the group's first step again, by hand."""
    env = build(settings.stepping.simulator)
    env.reset(seed=reset_seed(settings.stepping.seed, Stream.RESET, 0, i, 0))
    return int(env.step(action)[0])


@pytest.mark.parametrize("choices", [3, 40])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "RuntimeError: the pump broke"),
        ("reward", "reward is nan"),
        ("outside", "lies outside its space"),
    ],
)
def test_a_failure_drops_its_episode_and_the_rest_goes_on(how: str, message: str, choices: int) -> None:
    toys.Failing.built = -1  # the instance that tells the spaces
    settings = settings_for("Failing", how=how, at=15, every=2, choices=choices)
    failures: list[SimulatorFailure] = []
    group, weights = group_and_weights(settings, failures=failures)
    fragment = group.sample(weights)
    assert [message in failure.error for failure in failures] == [True]
    assert fragment.num_failures == 1
    failure = failures[0]
    assert (failure.group, failure.env, failure.episode, failure.step) == (0, 1, 1, 4)
    assert "toys.py" in failure.traceback or how != "raise"
    assert fragment.steps == 40
    assert len(fragment.observations) == 35
    assert np.isfinite(fragment.advantages).all()


def test_choices_among_many_are_sampled_as_columns_and_act_as_one_hot_rows_would() -> None:
    settings = settings_for("Guess", choices=40, truncates=True)
    group, weights = group_and_weights(settings)
    fragment = group.sample(weights)
    assert fragment.observations.shape == (40, 1) and fragment.observations.dtype == np.intp
    networks = settings.networks()
    parts, rows = networks.split(weights.parameters), np.eye(40, dtype=np.float32)[fragment.observations[:, 0]]
    outputs = networks.policy_outputs(parts, rows)
    log_probs = networks.distribution.log_prob(outputs, fragment.actions)
    np.testing.assert_allclose(fragment.log_probs, log_probs, rtol=1e-5)
    values = fragment.returns - fragment.advantages
    np.testing.assert_allclose(values, networks.values(parts, rows), rtol=1e-4, atol=1e-6)


def test_an_observation_that_is_not_finite_never_gets_out() -> None:
    settings = settings_for("Drifting", length=8)
    failures: list[SimulatorFailure] = []
    group, weights = group_and_weights(settings, failures=failures)
    fragment = group.sample(weights)
    assert {failure.error for failure in failures} == {"ValueError: observation is not finite"}
    assert len(failures) == 2
    assert len(fragment.observations) == 2 * 3
    assert np.isfinite(fragment.observations).all()
    assert np.isfinite(fragment.observation_moments.mean).all()


@pytest.mark.parametrize(("name", "config"), [("Failing", {"how": "raise", "at": 1}), ("BrokenConstructor", {})])
def test_failing_again_and_again_ends_with_the_simulator_s_own_traceback(name: str, config: Any) -> None:
    base = settings_for("Guess")
    stepping = replace(base.stepping, simulator=Simulator(f"tests.toys:{name}", config))
    settings, failures = replace(base, stepping=stepping), list[SimulatorFailure]()
    group = EnvGroup(settings, 0, [0, 0], Supervision(failures.append))
    weights = Weights(settings.networks().initial(np.random.default_rng(0)), None, 1.0)
    with pytest.raises(SimulatorError, match="3 times in a row") as caught:
        group.start()
        group.sample(weights)
    assert "toys.py" in str(caught.value)
    assert len(failures) >= 3


@pytest.mark.parametrize(("entries", "message"), [(4, "allows nothing"), (5, "has 5 entries; expected 4")])
def test_a_mask_that_cannot_be_is_a_failure_of_the_simulator(entries: int, message: str) -> None:
    settings = settings_for("BadlyMasked", module="tests.puzzles", length=5, entries=entries)
    failures: list[SimulatorFailure] = []
    group, weights = group_and_weights(settings, failures=failures)
    fragment = group.sample(weights)
    assert [message in failure.error for failure in failures] == [True, True]
    assert failures[0].step == 2
    assert len(fragment.actions) == 2 * 2


def test_masks_reach_the_learner_and_are_heeded() -> None:
    group, weights = group_and_weights(settings_for("Masked", module="tests.puzzles", length=30))
    fragment = group.sample(weights)
    assert not fragment.num_failures
    assert fragment.masks.shape == (60, 6)
    assert fragment.masks[np.arange(60), fragment.actions[:, 0]].all()
    assert 1 < fragment.masks.sum(axis=1).mean() < 4
    group, weights = group_and_weights(settings_for("Guess"))
    assert group.sample(weights).masks.shape == (40, 0)


def test_sampling_can_be_abandoned() -> None:
    settings = settings_for("Guess")
    group = EnvGroup(settings, 0, [0, 0], Supervision(ignore, interrupted=lambda: True))
    group.start()
    with pytest.raises(SamplingAbandonedError):
        group.sample(Weights(settings.networks().initial(np.random.default_rng(0)), None, 1.0))


def test_observations_are_copies() -> None:
    settings = settings_for("Aim", length=5)
    group, weights = group_and_weights(settings)
    fragment = group.sample(weights)
    assert len(np.unique(fragment.observations, axis=0)) == 10
