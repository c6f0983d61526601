"""Which trials continue: Tune's ASHA and PBT, set up for a sweep, and told of what happened before a resume."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, PopulationBasedTraining

from muster.experiment.schema import Experiment
from muster.runs.metrics import read_metrics
from muster.sweeps.record import SweepRecord
from muster.sweeps.space import Space

TIME = "iteration"
_FAR = 1_000_000


def scheduler_for(experiment: Experiment, record: SweepRecord) -> Any:
    """Return Tune's scheduler for an experiment's sweep."""
    section = experiment.sweep
    assert section is not None
    if section.scheduler == "asha":
        scheduler = ASHAScheduler(
            time_attr=TIME,
            metric=section.metric,
            mode=section.mode,
            max_t=max(experiment.stop.iterations or _FAR, section.grace_period),
            grace_period=section.grace_period,
            reduction_factor=section.reduction_factor,
            stop_last_trials=False,
        )
        _replay(scheduler, record)
        return scheduler
    if section.scheduler == "pbt":
        space, rng = Space.of(experiment), np.random.default_rng(experiment.seed)
        mutations = {
            key: parameter.values if parameter.bounds is None else partial(space.draw, key, rng)
            for key, parameter in space.parameters.items()
        }
        return PopulationBasedTraining(
            time_attr=TIME,
            metric=section.metric,
            mode=section.mode,
            perturbation_interval=section.perturbation_interval,
            hyperparam_mutations={"values": mutations},
            custom_explore_fn=partial(_keep_in_bounds, space),
            log_config=False,
            require_attrs=False,
        )
    return FIFOScheduler()


def _keep_in_bounds(space: Space, config: dict[str, Any]) -> dict[str, Any]:
    """Clip what PBT has multiplied, which it does without a look at the bounds."""
    values = {key: space.clip(key, value) for key, value in config["values"].items()}
    return {**config, "values": values}


def _replay(scheduler: Any, record: SweepRecord) -> None:
    """Let the scheduler see the rows that trials have already; Tune itself forgets them at a restart."""
    for trial in record.trials:
        metrics = record.folder.trial(trial.name).metrics
        if not metrics.is_file():
            continue
        known = SimpleNamespace(trial_id=trial.name)
        scheduler.on_trial_add(None, known)
        for row in read_metrics(metrics):
            if row.get(record.metric):
                result = {TIME: int(row[TIME]), record.metric: float(row[record.metric])}
                scheduler.on_trial_result(None, known, result)
