"""What Tune runs next: trials that are not done, then new ones, until there are no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray.tune.experiment
from ray.tune import PlacementGroupFactory
from ray.tune.search.search_algorithm import SearchAlgorithm

from muster.errors import ExperimentError
from muster.runs.status import LIVE_STATES, read_status
from muster.sweeps.proposals import Proposer
from muster.sweeps.record import SweepRecord, Trial
from muster.sweeps.resources import bundles
from muster.sweeps.trial_run import trial_experiment

RESTARTS = 2
"""How often a trial resumes from its last checkpoint after its process died."""


class TrialQueue(SearchAlgorithm):  # type: ignore[misc]
    """Hands out the trials of a record, and adds new ones to it."""

    def __init__(
        self, record: SweepRecord, proposer: Proposer, concurrent: int | None, *, trust: bool = False
    ) -> None:
        self._trust = trust
        self._record = record
        self._proposer = proposer
        self._concurrent = concurrent
        self._waiting = [trial for trial in record.trials if not trial.is_done]
        self._live: set[str] = set()
        self._unsaved: set[str] = set()
        self.are_all_out = False
        self._spec: dict[str, Any] = {}
        for trial in record.trials:
            if trial.is_done:
                proposer.tell(trial)

    def add_configurations(self, experiments: Any) -> None:
        self._spec = experiments[0].spec

    def next_trial(self) -> Any:
        if self.is_interrupted or self.are_all_out:
            return None
        if self._concurrent is not None and len(self._live) >= self._concurrent:
            return None
        while (trial := self._next()) is not None:
            try:
                experiment = trial_experiment(self._record.folder, trial.name, trial.values).experiment
            except ExperimentError as error:
                trial.state, trial.exit_code = "failed", error.exit_code
                trial.reason = "; ".join(f"{problem.place}: {problem.message}" for problem in error.problems)
                self._record.save()
                continue
            self._live.add(trial.name)
            self._unsaved.add(trial.name)
            return self._for_tune(trial, PlacementGroupFactory(bundles(experiment)))
        self.are_all_out = True
        return None

    def _next(self) -> Trial | None:
        if self._waiting:
            return self._waiting.pop(0)
        values = self._proposer.propose(len(self._record.trials))
        return self._record.add(values) if values is not None else None

    def _for_tune(self, trial: Trial, resources: PlacementGroupFactory) -> Any:
        config = {
            "sweep": str(self._record.folder.path),
            "working_folder": str(Path.cwd()),
            "values": trial.values,
            "trust": self._trust,
        }
        return ray.tune.experiment.Trial(
            self._spec["run"],
            config=config,
            trial_id=trial.name,
            experiment_tag=trial.name,
            storage=self._spec["storage"],
            checkpoint_config=self._spec["checkpoint_config"],
            placement_group_factory=resources,
            max_failures=RESTARTS,
            trial_dirname_creator=_name,
        )

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        self._live.discard(trial_id)
        trial = self._record.find(trial_id)
        if result:
            trial.add(result, self._record.metric)
        self._proposer.tell(trial)

    @property
    def is_interrupted(self) -> bool:
        """Whether Tune was told to stop."""
        return bool(self._finished)

    def is_finished(self) -> bool:
        """Whether no more trials come, and all have saved: when this is so, Tune ends what is left of them."""
        if not (self.are_all_out or self.is_interrupted):
            return False
        self._unsaved = {name for name in self._unsaved if self._has_to_save(name)}
        return not self._unsaved

    def _has_to_save(self, name: str) -> bool:
        if name in self._live and not self.is_interrupted:
            return True
        status = read_status(self._record.folder.trial(name).status)
        return status is not None and status.shown_state in LIVE_STATES


def _name(trial: Any) -> str:
    return str(trial.trial_id)
