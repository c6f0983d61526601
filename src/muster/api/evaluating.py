"""`muster.evaluate`: how good is what a run learned, and is it better than a rule?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.errors import InputError
from muster.experiment.quantities import LARGEST_SEED
from muster.files.carried import FOLDER, name_of
from muster.runs.finding import find_checkpoint, require_own_run
from muster.runs.folder import runs_dir as folder_of_runs
from muster.runs.reading import read_experiment
from muster.stepping.apart import ApartProcess
from muster.stepping.evaluation import Evaluation, evaluate_baseline, evaluate_saved
from muster.stepping.live import FailedCallError
from muster.training.evaluations import evaluation_task
from muster.training.failures import FailureRecord

if TYPE_CHECKING:
    from muster.api.run import Run
    from muster.training.call import TrainResult


@dataclass(frozen=True, repr=False)
class RunEvaluation:
    """How the policy of a checkpoint did; `baseline` is how a rule did in the same episodes, if one was given."""

    checkpoint: str
    policy: Evaluation
    baseline: Evaluation | None = None

    @property
    def return_mean(self) -> float:
        """Mean return of the policy."""
        return self.policy.return_mean

    @property
    def metrics(self) -> dict[str, float | None]:
        """Means of the policy's metrics of your own."""
        return self.policy.metrics

    @property
    def wins(self) -> int | None:
        """In how many episodes the policy had the higher return; None without a baseline."""
        if self.baseline is None:
            return None
        pairs = zip(self.policy.returns, self.baseline.returns, strict=True)
        return sum(ours > theirs for ours, theirs in pairs)

    def __repr__(self) -> str:
        text = f"return {_spread(self.policy)} over {self.policy.episodes} episodes"
        text += "".join(f", {name} {value:.4g}" for name, value in self.metrics.items() if value is not None)
        if self.baseline is not None:
            text += f"; baseline {_spread(self.baseline)}, beaten in {self.wins}"
        return f"RunEvaluation({text})"


def evaluate(
    run: str | Path | Run | TrainResult,
    episodes: int = 100,
    *,
    baseline: str | Callable[..., Any] | None = None,
    checkpoint: str | int = "best",
    deterministic: bool = True,
    seed: int | None = None,
    trust: bool = False,
    runs_dir: str | Path | None = None,
) -> RunEvaluation:
    """Let a run's policy act in some episodes, and a baseline in the same.

    `baseline` is "random", a function of the observation (or of observation and info) that returns an action, or
    its name. `checkpoint` is `best`, `latest` or an iteration.

    Raises:
        MusterError: if an argument is wrong, there is no such run, or its simulator fails.
    """
    from muster.api.run import name_of_run

    if episodes < 1:
        raise InputError(f"episodes = {episodes}: expected 1 or more")
    if seed is not None and not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"seed = {seed}: expected 0 to {LARGEST_SEED}")
    if not (baseline is None or isinstance(baseline, str) or callable(baseline)):
        raise InputError(f"baseline = {baseline!r}: expected a function, a class or a name")
    directory = folder_of_runs(runs_dir)
    folder, path = find_checkpoint(name_of_run(run), str(checkpoint), directory, lambda _: None)
    require_own_run(folder, [path], f"evaluate {folder.name}", trust=trust)
    experiment = read_experiment(folder, path, lambda _: None)
    task = evaluation_task(experiment, episodes=episodes, seed=seed, deterministic=deterministic)
    rule = baseline
    if callable(rule):
        rule, _ = name_of(rule, folder.path.parent / FOLDER, "the name of a baseline, a function or a class")
    process = ApartProcess(experiment.env.step_timeout)
    try:
        policy = process.call(evaluate_saved, str(path.absolute()), task)
        compared = None if rule is None else process.call(evaluate_baseline, rule, task)
    except FailedCallError as error:
        raise FailureRecord(experiment, task.simulator, folder).error(error.failure) from None
    finally:
        process.close()
    return RunEvaluation(path.name, policy, compared)


def _spread(evaluation: Evaluation) -> str:
    return f"{evaluation.return_mean:.4g} ± {evaluation.return_std:.2g}"
