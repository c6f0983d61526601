"""How well a policy does: episodes on a simulator beside those that are trained in, here or in a process apart."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from muster.policies import Policy, load_policy
from muster.simulators.masks import mask_in
from muster.simulators.seeding import ProcessRandomness, Stream, generator
from muster.simulators.simulator import Simulator
from muster.stepping.apart import ApartProcess
from muster.stepping.baselines import Baseline, find_rule
from muster.stepping.episodes import play
from muster.stepping.failures import Supervision
from muster.stepping.hang_watch import Hung, end_process
from muster.stepping.here import called_here
from muster.stepping.info_metrics import Episode, mean_of
from muster.stepping.journal import journal_folder
from muster.stepping.live import FailedCallError, LiveSimulator
from muster.stepping.process_state import NUMPY_ERRORS
from muster.stepping.rules import Rules
from muster.stepping.threads import threads


@dataclass(frozen=True)
class EvaluationTask:
    """Which episodes to play; plain data."""

    simulator: Simulator
    rules: Rules
    episodes: int
    seed: int
    deterministic: bool = True
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """How some episodes went."""

    episodes: int
    return_mean: float
    return_std: float
    length_mean: float
    metrics: dict[str, float | None] = field(default_factory=dict)
    returns: tuple[float, ...] = ()
    """That of each episode; in no record."""

    def record(self) -> dict[str, Any]:
        """Return it for a file or a script; metrics only if there are any."""
        fields = asdict(self)
        del fields["returns"]
        if not self.metrics:
            del fields["metrics"]
        return fields

    @classmethod
    def of(cls, episodes: list[Episode], metrics: Iterable[str] = ()) -> Evaluation:
        """Summarise episodes, whose metrics have these names."""
        totals = [episode.total for episode in episodes]
        return cls(
            len(episodes),
            float(np.mean(totals)),
            float(np.std(totals)),
            float(np.mean([episode.length for episode in episodes])),
            {name: mean_of(episode.metrics[k] for episode in episodes) for k, name in enumerate(metrics)},
            tuple(totals),
        )


def evaluate_here(
    policy: Policy,
    task: EvaluationTask,
    supervision: Supervision,
    *,
    hung: Hung = end_process,
    journals: Path | None = None,
) -> Evaluation:
    """Let a policy act in this process; leaves the process's random numbers as they were.

    `hung` is called, in another thread, when a call does not end even though it was interrupted.

    Raises:
        FailedCallError: if the simulator fails.
        SamplingAbandonedError: when there is no time left.
    """
    with called_here(task.rules.step_timeout, hung=hung):
        return _evaluate(policy, task, supervision.require_time, journals and journal_folder(journals))


def evaluate_apart(policy: Policy, task: EvaluationTask, process: ApartProcess, folder: Path) -> Evaluation:
    """Let a policy act in a process of its own, which the simulator may end; `folder` hands it over.

    Raises:
        FailedCallError: if the simulator fails, or ends its process.
        SamplingAbandonedError: when there is no time left.
        OSError: if the folder cannot be written.
    """
    folder.mkdir(exist_ok=True)
    try:
        policy.save(folder)
        result: Evaluation = process.call(evaluate_saved, str(folder.absolute()), task)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def evaluate_saved(folder: str, task: EvaluationTask, *, journals: Path | None = None) -> Evaluation:
    """Let the policy act that a folder holds.

    Raises:
        FailedCallError: if the simulator fails.
    """
    return _evaluate(load_policy(folder, trust=True), task, journals=journals)


def evaluate_baseline(name: str, task: EvaluationTask, *, journals: Path | None = None) -> Evaluation:
    """Let a rule act in the episodes in which policies are evaluated.

    Raises:
        InputError: if there is no such rule.
        FailedCallError: if the simulator fails.
    """
    rule = find_rule(name, task.simulator)
    return _play(lambda live: Baseline(rule, live.env.action_space), task, journals=journals)


def _evaluate(
    policy: Policy,
    task: EvaluationTask,
    on_step: Callable[[], None] = lambda: None,
    journals: Path | None = None,
) -> Evaluation:
    return _play(lambda _: _Actor(policy, task), task, on_step, journals)


class _Actor:
    """A policy with what an evaluation gives it."""

    def __init__(self, policy: Policy, task: EvaluationTask) -> None:
        self.begin_episode = policy.begin_episode
        self._policy, self._deterministic = policy, task.deterministic
        self._rng = generator(task.seed, Stream.EVALUATION)

    def act(self, observation: Any, info: Any) -> Any:
        return self._policy.act(observation, mask=mask_in(info), deterministic=self._deterministic, rng=self._rng)


def _play(
    actor_for: Callable[[LiveSimulator], _Actor | Baseline],
    task: EvaluationTask,
    on_step: Callable[[], None] = lambda: None,
    journals: Path | None = None,
) -> Evaluation:
    live = LiveSimulator(task.simulator, task.rules, journals=journals)
    with (
        ProcessRandomness(task.seed, Stream.EVALUATION).installed(),
        threads(1),
        np.errstate(**NUMPY_ERRORS),
    ):
        try:
            live.build()
            actor = actor_for(live)
            live.env.action_space.seed(task.seed)
            episodes, seed, begin = task.episodes, task.seed, actor.begin_episode
            return Evaluation.of(
                list(play(live, actor.act, episodes, seed, on_step, begin, task.metrics)), task.metrics
            )
        finally:
            with suppress(FailedCallError):
                live.close()
