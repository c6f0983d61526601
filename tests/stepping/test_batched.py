"""Batches of simulators: what is kept of their steps, how they fail, and that they equal single simulators."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from muster.engines.builtin.networks.model_settings import ModelSettings
from muster.engines.builtin.sampling.fragments import Fragment, Weights
from muster.engines.builtin.sampling.groups import EnvGroup, GroupSettings
from muster.engines.builtin.sampling.learning_rows import Discounting
from muster.errors import ExperimentError, SimulatorError
from muster.simulators.describing import describe_actions, describe_observations, with_mask
from muster.simulators.simulator import Simulator
from muster.stepping.building import build
from muster.stepping.failures import SimulatorFailure, Supervision
from muster.stepping.info_metrics import Episode
from muster.stepping.making import make_simulators
from muster.stepping.many import Events, SteppingSettings
from tests import batches

MODES = ("NextStep", "SameStep", "Disabled")


def settings_for(name: str, count: int = 2, fragment: int = 20, **config: Any) -> GroupSettings:
    """Return the settings of a group; `name` is one of tests.batches, or has a module or package of its own."""
    simulator = Simulator(name if ":" in name or "-v" in name else f"tests.batches:{name}", config)
    env = build(simulator)
    actions = describe_actions(env.action_space)
    observations = with_mask(describe_observations(env.observation_space), actions)
    env.close()
    return GroupSettings(
        SteppingSettings(simulator, observations, actions, num_envs=count, seed=0),
        fragment_length=fragment,
        discounting=Discounting(0.9, 0.0),
        model=ModelSettings((8,), "tanh"),
    )


def group_for(settings: GroupSettings, failures: list[SimulatorFailure]) -> tuple[EnvGroup, Weights]:
    group = EnvGroup(settings, 0, [0] * settings.stepping.num_envs, Supervision(failures.append))
    group.start()
    return group, Weights(settings.networks().initial(np.random.default_rng(0)), None, 1.0)


@dataclass
class Steps:
    """What a batch did, step by step."""

    rows: list[Any] = field(default_factory=list)
    rewards: list[Any] = field(default_factory=list)
    ended: list[Any] = field(default_factory=list)
    terminated: list[Any] = field(default_factory=list)
    events: list[Events] = field(default_factory=list)
    failures: list[SimulatorFailure] = field(default_factory=list)
    builds: list[int] = field(default_factory=list)

    def rebuilt_at(self) -> list[int]:
        return np.flatnonzero(np.diff(self.builds)).tolist()

    def kept(self, i: int) -> list[tuple[Any, ...]]:
        """Return the steps of one simulator: observation, reward, whether it ended, whether by termination."""
        return [
            (self.rows[t][i].tolist(), self.rewards[t][i], self.ended[t][i], self.terminated[t][i])
            for t in range(len(self.rows))
            if i not in self.events[t].skipped
        ]

    def finals(self, i: int) -> list[Any]:
        return [row.tolist() for events in self.events for k, row in events.finals if k == i]


def stepped(settings: GroupSettings, steps: int) -> Steps:
    """Build a batch and step it with actions of zero."""
    found, stepping = Steps(), settings.stepping
    count = stepping.num_envs
    encoder = settings.row_format().encoder
    simulators = make_simulators(stepping, encoder, 0, [0] * count, None, Supervision(found.failures.append))
    simulators.start()
    for _ in range(steps):
        rewards, terminated, ended = np.zeros(count), np.zeros(count, bool), np.zeros(count, bool)
        found.rows.append(simulators.rows.copy())
        found.builds.append(batches.Count.rebuilt)
        events = simulators.step(np.zeros((count, 1), np.int64), rewards, terminated, ended)
        found.rewards.append(rewards)
        found.terminated.append(terminated)
        found.ended.append(ended)
        found.events.append(events or Events())
    found.rows.append(simulators.rows.copy())
    found.builds.append(batches.Count.rebuilt)
    found.events.append(Events(skipped=list(range(count))))
    return found


@pytest.fixture(autouse=True)
def fresh() -> None:
    batches.Count.rebuilt = -1  # the one that tells the spaces


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize(("mode", "name"), [*((mode, "counts") for mode in MODES), ("NextStep", "sloppy_counts")])
def test_the_steps_of_each_simulator_are_kept_and_nothing_else(mode: str, name: str, truncates: bool) -> None:
    steps = stepped(settings_for(name, mode=mode, truncates=truncates), 20)
    for number, length in ((0, 3), (1, 4)):
        kept = steps.kept(number)
        expected = [
            ([number, episode, step], step + 1, step + 1 == length, step + 1 == length and not truncates)
            for episode, step in (divmod(k, length) for k in range(len(kept)))
        ]
        assert kept == expected
        num_ends = sum(ended for _, _, ended, _ in kept)
        assert num_ends >= 3
        finals = [[number, episode, length] for episode in range(num_ends)]
        assert steps.finals(number) == (finals if truncates else [])
    assert {episode for events in steps.events for episode in events.episodes} == {
        Episode(6.0, 3),
        Episode(10.0, 4),
    }
    num_skipped = sum(len(events.skipped) for events in steps.events[:-1])
    assert num_skipped == (9 if mode == "NextStep" else 0)
    assert not steps.failures


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_time_limit_bootstraps_from_the_last_observation_and_termination_from_none(
    mode: str, truncates: bool
) -> None:
    settings = settings_for("counts", mode=mode, truncates=truncates)
    group, weights = group_for(settings, [])
    networks = settings.networks()
    parts = networks.split(weights.parameters)
    for _ in range(2):
        fragment = group.sample(weights)
        rows = fragment.observations
        number, steps = rows[:, 0], rows[:, 2]
        following = rows + np.array([0, 0, 1], np.float32)
        is_last = following[:, 2] == 3 + number
        values = np.where(is_last & (not truncates), 0.0, networks.values(parts, following))
        np.testing.assert_allclose(fragment.returns, steps + 1 + 0.9 * values, rtol=1e-5)
        assert fragment.steps == len(rows)
        assert len(rows) < 36 if mode == "NextStep" else len(rows) == 40
        assert sorted({episode.length for episode in fragment.episodes}) == [3, 4]
        assert fragment.observation_moments.mean[2] == pytest.approx(steps.mean())


SINGLES: list[tuple[str, dict[str, Any]]] = [
    ("toys:Guess", {}),
    ("toys:Guess", {"choices": 40, "truncates": True}),
    ("toys:Aim", {}),
    ("toys:Parts", {}),
    ("toys:Picture", {}),
    ("puzzles:InDict", {}),
    ("puzzles:InTuple", {}),
    ("puzzles:InNested", {}),
    ("puzzles:InGrid", {}),
    ("puzzles:ByBits", {}),
    ("puzzles:ByParts", {}),
    ("puzzles:ByPosition", {}),
    ("puzzles:Masked", {}),
    ("puzzles:Masked", {"where": "observation"}),
    ("puzzles:MaskedPair", {}),
    ("puzzles:SeldomMasked", {}),
]


@pytest.mark.parametrize(("name", "config"), SINGLES)
def test_a_batch_that_is_reset_by_us_samples_what_single_simulators_do(name: str, config: dict[str, Any]) -> None:
    single = settings_for(f"tests.{name}", count=3, **config)
    batch = settings_for("sync", count=3, of=name.partition(":")[2], mode="Disabled", **config)
    assert batch.stepping.observations == single.stepping.observations
    failures: list[SimulatorFailure] = []
    groups = [group_for(settings, failures) for settings in (single, batch)]
    for _ in range(3):
        one, other = (group.sample(weights) for group, weights in groups)
        assert_equal(one, other)
    assert not failures


def assert_equal(one: Fragment, other: Fragment) -> None:
    for name in ("observations", "actions", "log_probs", "advantages", "returns", "masks"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.episodes == other.episodes
    assert one.next_episodes == other.next_episodes
    assert (one.steps, one.num_failures) == (other.steps, other.num_failures)
    assert np.array_equal(one.observation_moments.mean, other.observation_moments.mean)
    assert one.return_moments.mean == other.return_moments.mean


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize(("name", "config"), [c for c in SINGLES if "Mask" in c[0] or "Part" in c[0]])
def test_masks_and_parts_in_batches_that_reset_themselves(name: str, config: dict[str, Any], mode: str) -> None:
    settings = settings_for("sync", count=3, fragment=40, of=name.partition(":")[2], mode=mode, **config)
    failures: list[SimulatorFailure] = []
    group, weights = group_for(settings, failures)
    fragment = group.sample(weights)
    assert not failures  # a puzzle raises if its mask is not heeded
    assert len(fragment.episodes) >= 9
    assert {episode.length for episode in fragment.episodes} <= ({10} if "Seldom" not in name else {*range(3, 11)})
    if "Mask" in name:
        assert 0 < fragment.masks.mean() < 1


@pytest.mark.parametrize("mode", MODES)
def test_a_mask_that_allows_nothing_is_a_failure_of_its_simulator(mode: str) -> None:
    failures: list[SimulatorFailure] = []
    group, weights = group_for(settings_for("sync", fragment=5, of="BadlyMasked", mode=mode), failures)
    fragment = group.sample(weights)
    assert [(failure.env, failure.step) for failure in failures] == [(0, 2), (1, 2)]
    assert all("action_mask allows nothing" in failure.error for failure in failures)
    assert len(fragment.actions) == 2 * 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("NaN", "observation is not finite"),
        ("outside", "observation lies outside its space: entry 0 is 2000"),
        ("infinite reward", "reward is inf"),
        ("NaN reward", "reward is nan"),
    ],
)
def test_what_one_simulator_returns_costs_its_episode_and_cuts_the_others(
    mode: str, how: str, message: str
) -> None:
    settings = settings_for("counts", count=3, mode=mode, length=5, wrong=how)
    steps = stepped(settings, 4)
    [failure] = steps.failures
    assert message in failure.error
    assert (failure.env, failure.index, failure.episode, failure.step, failure.call) == (1, 1, 0, 1, "step")
    assert failure.seed is not None and failure.actions == [0, 0]
    assert steps.events[1].dropped == [1]
    assert steps.ended[1].all() and steps.terminated[1].tolist() == [False, True, False]
    assert [steps.finals(i) for i in range(3)] == [[[0, 0, 2]], [], [[2, 0, 2]]]
    assert [row[1:].tolist() for row in steps.rows[2]] == [[0, 0]] * 3
    assert np.isfinite(steps.rewards).all()
    batches.Count.rebuilt = 0
    failures: list[SimulatorFailure] = []
    group, weights = group_for(settings, failures)
    fragment = group.sample(weights)
    assert len(failures) == fragment.num_failures == 1
    assert np.isfinite(fragment.advantages).all() and np.isfinite(fragment.observation_moments.mean).all()
    assert len(fragment.observations) == fragment.steps - 2


@pytest.mark.parametrize("mode", MODES)
def test_a_later_episode_has_a_seed_only_if_we_began_it(mode: str) -> None:
    steps = stepped(settings_for("counts", mode=mode, wrong="NaN", episode=1), 20)
    [failure] = steps.failures
    assert (failure.env, failure.episode, failure.step) == (1, 1, 1)
    assert steps.events[[bool(e.dropped) for e in steps.events].index(True)].dropped == [1]
    if mode == "Disabled":
        assert failure.seed is not None and failure.actions == [0, 0]
        assert "seed" in str(failure)
    else:
        assert (failure.seed, failure.actions) == (None, None)
        assert "seed" not in str(failure)


@pytest.mark.parametrize(
    ("mode", "how", "message"),
    [*((mode, "NaN at reset", "not finite") for mode in MODES), ("Disabled", "raise at reset", "pump broke")],
)
def test_a_wrong_beginning_costs_no_step_that_was_done(mode: str, how: str, message: str) -> None:
    steps = stepped(settings_for("counts", mode=mode, wrong=how), 8)
    [failure] = steps.failures
    assert message in failure.error
    assert (failure.call, failure.env, failure.episode, failure.step) == ("reset", 1, 1, 0)
    assert not any(events.dropped for events in steps.events)
    assert Episode(10.0, 4) in [episode for events in steps.events for episode in events.episodes]
    [at] = steps.rebuilt_at()
    assert steps.ended[at].all() and steps.rows[at + 1].tolist() == [[0, 0, 0], [1, 0, 0]]
    assert len(steps.kept(0)) + len(steps.kept(1)) == 16 - sum(len(e.skipped) for e in steps.events[:-1])


@pytest.mark.parametrize("mode", MODES)
def test_the_last_observation_of_an_episode_is_judged_too(mode: str) -> None:
    steps = stepped(settings_for("counts", mode=mode, length=1, wrong="NaN"), 4)
    [failure] = steps.failures
    assert "observation is not finite" in failure.error
    assert (failure.env, failure.call, failure.step) == (1, "step", 1)
    assert steps.events[1].dropped == [1]
    assert Episode(3.0, 2) not in steps.events[1].episodes


def test_a_batch_that_raises_loses_all_episodes_and_is_rebuilt() -> None:
    settings = settings_for("broken", fragment=8, after=5)
    failures: list[SimulatorFailure] = []
    group, weights = group_for(settings, failures)
    fragment = group.sample(weights)
    [failure] = failures
    assert failure.error == "RuntimeError: the pool is empty" and "batches.py" in failure.traceback
    assert (failure.group, failure.env, failure.call, failure.actions) == (0, None, "step", None)
    assert str(failure).endswith("(in step of a batch: group 0, all of its simulators)")
    assert fragment.steps == 16 and len(fragment.observations) == 6
    assert fragment.next_episodes == [1, 1]


@pytest.mark.parametrize(
    ("config", "message"), [({"after": 1}, "pool is empty"), ({"after": 1, "how": "few rewards"}, "have shape")]
)
def test_three_failures_in_a_row_end_sampling(config: dict[str, Any], message: str) -> None:
    group, weights = group_for(settings_for("broken", **config), [])
    with pytest.raises(SimulatorError, match=rf"(?s)3 times in a row: .*{message}"):
        group.sample(weights)


def test_one_simulator_that_fails_three_times_in_a_row_ends_sampling() -> None:
    settings = settings_for("counts", count=3, length=5, fails=9, wrong="NaN")
    failures: list[SimulatorFailure] = []
    group, weights = group_for(settings, failures)
    with pytest.raises(SimulatorError, match=r"3 times in a row: .*not finite .*simulator 1"):
        group.sample(weights)
    assert [failure.episode for failure in failures] == [0, 1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_rebuilt_after_some_episodes(mode: str) -> None:
    settings = settings_for("counts", mode=mode)
    settings = replace(settings, stepping=replace(settings.stepping, restart_every=1))
    steps = stepped(settings, 30)
    assert not steps.failures and not any(events.dropped for events in steps.events)
    assert len(steps.rebuilt_at()) > 3
    for t in steps.rebuilt_at():
        assert steps.ended[t].all() and steps.rows[t + 1].tolist() == [[0, 0, 0], [1, 0, 0]]
    assert all(row[1] <= 1 for rows in steps.rows for row in rows)


def test_simulators_that_end_together_are_rebuilt_as_single_ones_are() -> None:
    groups = []
    for settings in (settings_for("tests.toys:Guess"), settings_for("sync", of="Guess", mode="Disabled")):
        settings = replace(settings, stepping=replace(settings.stepping, restart_every=2))
        groups.append(group_for(settings, []))
    for _ in range(3):
        assert_equal(*(group.sample(weights) for group, weights in groups))


@pytest.mark.parametrize("fragment", [10, 13])  # at the end of episodes, and in their middle
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_that_pickles_continues_exactly(mode: str, fragment: int) -> None:
    settings = settings_for("sync", fragment=fragment, of="Guess", mode=mode, truncates=True)
    group, weights = group_for(settings, [])
    group.sample(weights)
    state = group.state()
    expected = [group.sample(weights), group.sample(weights)]
    restored = EnvGroup(settings, 0, [0, 0], Supervision(lambda _: None))
    restored.restore(state)
    for sampled in expected:
        assert_equal(restored.sample(weights), sampled)


def test_a_batch_of_processes_equals_single_simulators() -> None:
    failures: list[SimulatorFailure] = []
    single, single_weights = group_for(settings_for("tests.toys:Guess", fragment=25), failures)
    batch, batch_weights = group_for(settings_for("asynchronous", fragment=25), failures)
    assert_equal(single.sample(single_weights), batch.sample(batch_weights))
    with pytest.raises(Exception, match="Pickling"):
        batch.state()
    batch.close()
    assert not failures


def test_registered_simulators_that_gymnasium_batches_equal_single_ones() -> None:
    groups = [group_for(_registered("Pendulum-v1", vectorized), []) for vectorized in (None, True)]
    one, other = (group.sample(weights) for group, weights in groups)
    assert_equal(one, other)


def _registered(identifier: str, vectorized: bool | None) -> GroupSettings:
    base = settings_for(identifier, fragment=30)
    simulator = Simulator(identifier, max_episode_steps=7, vectorized=vectorized)
    return replace(base, stepping=replace(base.stepping, simulator=simulator))


def test_a_batch_with_a_vector_class_of_its_own_is_used() -> None:
    settings = _registered("CartPole-v1", True)
    group, weights = group_for(settings, [])
    fragment = group.sample(weights)
    lengths = [episode.length for episode in fragment.episodes]
    assert lengths and max(lengths) == 7
    from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

    assert isinstance(group._simulators._env, CartPoleVectorEnv)  # type: ignore[attr-defined]
    group.state()


def test_an_envpool_steps_as_gymnasium_s_own_and_cannot_be_saved() -> None:
    pytest.importorskip("envpool")
    settings = settings_for("envpool:CartPole-v1", count=5, fragment=60)
    failures: list[SimulatorFailure] = []
    group, weights = group_for(settings, failures)
    again, _ = group_for(settings, failures)
    fragment = group.sample(weights)
    assert_equal(again.sample(weights), fragment)
    assert all(episode.total == episode.length for episode in fragment.episodes) and fragment.episodes
    assert fragment.steps == len(fragment.observations) < 300
    assert len(np.unique(fragment.observations[:5], axis=0)) == 5
    with pytest.raises(TypeError, match="pickle"):
        group.state()
    assert not failures


def test_an_envpool_gets_the_cpus_and_the_seeds() -> None:
    pytest.importorskip("envpool")
    simulator = Simulator("envpool:Pendulum-v1", {"max_episode_steps": 4}, cpus=2)
    env = build(simulator)
    first, _ = env.reset(seed=7)
    second, _ = env.reset(seed=7)
    third, _ = env.reset(seed=8)
    assert np.array_equal(first, second) and not np.array_equal(first, third)
    assert [env.step(np.zeros(1, np.float32))[3] for _ in range(4)] == [False, False, False, True]
    pool = env.unwrapped.batch._pool  # type: ignore[attr-defined]
    assert pool.config["num_threads"] == 2 and pool.config["env_seed"] == [8]
    wrapper = {"class": "gymnasium.wrappers.vector:TransformReward", "func": abs}
    env = build(replace(simulator, wrappers=[wrapper]))
    env.reset(seed=1)
    assert float(env.step(np.zeros(1, np.float32))[1]) > 0


@pytest.mark.parametrize(
    ("simulator", "message"),
    [
        (Simulator("tests.batches:two"), r"gives a batch of 2, expected a gymnasium.vector.VectorEnv of 1"),
        (Simulator("tests.batches:alone"), "(?s)gives a Guess, expected .*env.vectorized = false"),
        (Simulator("tests.batches:fixed"), r"gives a SyncVectorEnv, a batch of 3; expected a single simulator"),
        (Simulator("tests.batches:sync", {"num_envs": 2, "of": "Guess"}), "set neither env.config.num_envs"),
        (Simulator("tests.toys:Guess", vectorized=True), "does not take num_envs"),
        (
            Simulator("tests.batches:two", max_episode_steps=3),
            "env.max_episode_steps: 3: the batch tests.batches:two does not take it",
        ),
        (
            Simulator("tests.batches:sync", {"of": "Guess"}, ["gymnasium.wrappers:FlattenObservation"]),
            "is for a single simulator, and this one is batched",
        ),
        (
            Simulator("CartPole-v1", wrappers=["gymnasium.wrappers.vector:FlattenObservation"]),
            "is for a batch, and this simulator is not batched",
        ),
    ],
)
def test_what_is_no_batch_or_none_that_was_expected_is_explained(simulator: Simulator, message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        build(simulator)


@pytest.mark.parametrize(
    ("identifier", "config", "message"),
    [
        ("envpool:CartPole-v1", {"batch_size": 3}, "env.config.batch_size: 3: .*envs_per_group"),
        ("envpool:CartPole-v1", {"vectorized": False}, "env.vectorized: false: an EnvPool always steps many"),
        ("envpool:Cartpole-v7", {}, "EnvPool has no 'Cartpole-v7'.*did you mean Cart"),
    ],
)
def test_what_an_envpool_cannot_be_is_explained(identifier: str, config: dict[str, Any], message: str) -> None:
    pytest.importorskip("envpool")
    with pytest.raises(ExperimentError, match=rf"(?s){message}"):
        vectorized = config.pop("vectorized", None)
        build(Simulator(identifier, config, vectorized=vectorized))


def test_a_batch_of_a_wrong_size_ends_the_run_as_a_wrong_experiment() -> None:
    group = EnvGroup(settings_for("few"), 0, [0, 0], Supervision(lambda _: None))
    with pytest.raises(ExperimentError, match=r"gives a batch of 1, expected a gymnasium.vector.VectorEnv of 2"):
        group.start()


@pytest.mark.parametrize("mode", MODES)
def test_one_of_a_batch_is_a_simulator_like_any_other(mode: str) -> None:
    env = build(Simulator("tests.batches:sync", {"of": "Masked", "mode": mode}))
    single = build(Simulator("tests.puzzles:Masked"))
    assert (env.observation_space, env.action_space) == (single.observation_space, single.action_space)
    for seed in (3, 4):
        seen, expected = env.reset(seed=seed), single.reset(seed=seed)
        for _ in range(10):
            assert seen[0] == expected[0] and np.array_equal(seen[-1]["action_mask"], expected[-1]["action_mask"])
            action = int(np.flatnonzero(expected[-1]["action_mask"])[0])
            seen, expected = env.step(action), single.step(action)  # type: ignore[assignment]
        assert seen[0] == expected[0] and [*map(bool, seen[2:4])] == [True, False]


def test_the_autoreset_mode_of_a_batch_is_its_own() -> None:
    """Gymnasium keeps it where the next batch of the same simulator changes it."""
    envs = [build(Simulator("tests.batches:counts", {"mode": mode, "length": 1})) for mode in MODES]
    for env in envs:
        env.reset(seed=0)
        assert env.step(0)[0].tolist() == [0, 0, 1]


def test_an_envpool_that_is_missing_or_too_old_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ExperimentError, match=r"(?s)EnvPool cannot be imported.*pip install 'envpool>=1.0.1'"):
        build(Simulator("envpool:CartPole-v1"))
    old = SimpleNamespace(__version__="0.8.4", registration=SimpleNamespace(registry=object()))
    monkeypatch.setitem(sys.modules, "envpool", old)
    with pytest.raises(ExperimentError, match=r"EnvPool 0.8.4 takes no seed for each of its simulators"):
        build(Simulator("envpool:CartPole-v1"))
