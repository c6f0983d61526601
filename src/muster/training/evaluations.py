"""Evaluations during a run: when one is due, their record, and the score that tells the best checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from muster.engines.engine import rules_of
from muster.experiment.schema import AUTO, Experiment
from muster.policies import Policy
from muster.runs.files import append_json_line, cut_json_lines, explained
from muster.runs.folder import RunFolder
from muster.simulators.simulator import Simulator
from muster.stepping.evaluation import Evaluation, EvaluationTask
from muster.training.progress import Progress

SHARE = 0.05
"""How many steps of evaluation are made, by default, for each step of training."""
FEWEST_ITERATIONS = 10
"""Iterations between two evaluations, by default."""
LARGEST_LAST_SHARE = 0.25
"""A default evaluation at the end is left out if it would take more than this share of the training steps."""

Evaluator = Callable[[Policy], Evaluation]
"""Lets a policy act for the experiment's evaluation episodes."""


def evaluation_task(
    experiment: Experiment,
    simulator: Simulator | None = None,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    deterministic: bool = True,
) -> EvaluationTask:
    """Return which episodes evaluate an experiment's policies: those that its schedule leads to."""
    return EvaluationTask(
        replace(simulator or experiment.simulator(), scheduled=experiment.env.last_scheduled),
        rules_of(experiment),
        experiment.evaluation.episodes if episodes is None else episodes,
        experiment.seed if seed is None else seed,
        deterministic,
        experiment.metrics,
    )


class Evaluations:
    """Evaluates as the experiment says: every so many iterations, or as often as is cheap.

    What is due depends on counts of steps and episodes alone, so it is the same at any speed.
    """

    def __init__(
        self, experiment: Experiment, evaluator: Evaluator, folder: RunFolder, progress: Progress
    ) -> None:
        self._settings = experiment.evaluation
        resources = experiment.resources
        self._is_only_simulator = resources.env_groups * resources.envs_per_group == 1
        self._evaluator = evaluator
        self._file = folder.evaluations
        self._progress = progress
        self.score: float | None = None
        """What the newest policy is compared by; None if that is not known."""

    @property
    def decide_best(self) -> bool:
        """Whether evaluations tell which checkpoint is the best, rather than the training return."""
        return self._settings.every != 0 and not (self._settings.every == AUTO and self._is_only_simulator)

    def cut(self) -> None:
        """Remove what lies past the checkpoint."""
        with explained(self._file):
            cut_json_lines(self._file, self._is_before_checkpoint)

    def is_due(self) -> bool:
        """Return whether to evaluate after this iteration."""
        every, progress = self._settings.every, self._progress
        if not self.decide_best:
            return False
        if isinstance(every, int):
            return progress.iteration % every == 0
        cost = self._expected_cost()
        if cost is None or progress.iteration - progress.evaluated_iteration < FEWEST_ITERATIONS:
            return False
        return progress.steps >= progress.evaluated_steps + max(cost, progress.evaluation_cost) / SHARE

    def is_due_at_end(self) -> bool:
        """Return whether to evaluate what the run ends with."""
        progress = self._progress
        if self._settings.every != AUTO or not self.decide_best:
            return False
        cost = self._expected_cost()
        has_news = progress.iteration > progress.evaluated_iteration
        return has_news and cost is not None and cost <= LARGEST_LAST_SHARE * progress.steps

    def evaluate(self, policy: Policy) -> Evaluation:
        """Evaluate a policy, and record it.

        Raises:
            SamplingAbandonedError, FailedCallError, ProcessDiedError: nothing is recorded.
        """
        progress = self._progress
        progress.evaluated_iteration, progress.evaluated_steps = progress.iteration, progress.steps
        result = self._evaluator(policy)
        progress.evaluation_cost = math.ceil(result.episodes * result.length_mean)
        self.score = result.return_mean
        line = {"iteration": progress.iteration, "steps": progress.steps, **result.record()}
        with explained(self._file):
            append_json_line(self._file, line)
        return result

    def _expected_cost(self) -> float | None:
        lengths = self._progress.lengths
        return self._settings.episodes * sum(lengths) / len(lengths) if lengths else None

    def _is_before_checkpoint(self, line: dict[str, Any]) -> bool:
        iteration = line.get("iteration")
        return isinstance(iteration, int) and iteration <= self._progress.iteration
