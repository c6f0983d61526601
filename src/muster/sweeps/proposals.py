"""Who proposes the values of the next trial: a list drawn beforehand, or Optuna from the trials so far."""

from __future__ import annotations

from typing import Any, Protocol

from muster.experiment.schema import Experiment
from muster.sweeps.record import Trial
from muster.sweeps.space import Space, Values


class Proposer(Protocol):
    """Proposes values and is told what came of them."""

    def propose(self, number: int) -> Values | None:
        """Return the values of a new trial by its number from 0, or None if there are no more."""

    def tell(self, trial: Trial) -> None:
        """Learn from a trial that is done."""


def proposer_for(experiment: Experiment) -> Proposer:
    """Return what proposes values for an experiment's sweep."""
    section = experiment.sweep
    assert section is not None
    space = Space.of(experiment)
    if section.search == "optuna":
        return OptunaProposer(space, section.num_draws, section.mode, experiment.seed)
    return RandomProposer(space, section.num_draws, experiment.seed)


class RandomProposer:
    """Grids and random draws: the same seed gives the same trials."""

    def __init__(self, space: Space, num_draws: int, seed: int) -> None:
        self._values = list(space.random_values(num_draws, seed))

    def propose(self, number: int) -> Values | None:
        return self._values[number] if number < len(self._values) else None

    def tell(self, trial: Trial) -> None:
        """Learn nothing."""


class OptunaProposer:
    """Optuna's tree-structured Parzen estimator; lists are proposed by index, since they may hold anything."""

    def __init__(self, space: Space, num_trials: int, mode: str, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._num_trials = num_trials
        self._seed = seed
        self._mode = mode
        self._study: Any = None
        self._past: list[tuple[Values, float]] = []
        self._asked: dict[int, Any] = {}
        self._distributions = {key: self._distribution(key) for key in space.parameters}

    def propose(self, number: int) -> Values | None:
        if number >= self._num_trials:
            return None
        if self._study is None:
            self._study = self._begin(number)
        asked = self._study.ask(self._distributions)
        self._asked[number] = asked
        return {key: self._value(key, proposed) for key, proposed in asked.params.items()}

    def tell(self, trial: Trial) -> None:
        import optuna

        number = int(trial.name.rpartition("-")[2]) - 1
        failed = trial.metric is None or trial.state == "failed"
        if (asked := self._asked.pop(number, None)) is not None:
            state = optuna.trial.TrialState.FAIL if failed else None
            self._study.tell(asked, None if failed else trial.metric, state=state)
        elif trial.metric is not None and not failed:
            self._add(trial.values, trial.metric)

    def _begin(self, number: int) -> Any:
        """Make the study; its seed counts the trials there are, or a resumed sweep would propose them again."""
        import optuna

        sampler = optuna.samplers.TPESampler(seed=self._seed + number, constant_liar=True)
        study = optuna.create_study(direction="maximize" if self._mode == "max" else "minimize", sampler=sampler)
        self._study = study
        for values, metric in self._past:
            self._add(values, metric)
        return study

    def _add(self, values: Values, metric: float) -> None:
        import optuna

        if self._study is None:
            self._past.append((values, metric))
            return
        params = {key: self._proposed(key, value) for key, value in values.items()}
        if None in params.values():
            return
        finished = optuna.trial.create_trial(params=params, distributions=self._distributions, value=metric)
        self._study.add_trial(finished)

    def _distribution(self, key: str) -> Any:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        parameter = self._space.parameters[key]
        if parameter.bounds is None:
            return CategoricalDistribution(range(len(parameter.values)))
        low, high = parameter.bounds
        log = parameter.loguniform is not None
        if key in self._space.whole:
            return IntDistribution(int(low), int(high), log=log)
        return FloatDistribution(float(low), float(high), log=log)

    def _value(self, key: str, proposed: Any) -> Any:
        parameter = self._space.parameters[key]
        return parameter.values[proposed] if parameter.bounds is None else proposed

    def _proposed(self, key: str, value: Any) -> Any:
        parameter = self._space.parameters[key]
        if parameter.bounds is not None:
            return value
        return parameter.values.index(value) if value in parameter.values else None
