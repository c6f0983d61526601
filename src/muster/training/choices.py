"""The defaults that depend on something, as they are for one simulator and algorithm, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.engines.choosing import with_engine_defaults
from muster.engines.engine import rules_of
from muster.errors import InputError, SimulatorError
from muster.experiment import LoadedExperiment
from muster.experiment.schema import AlgorithmSection, Experiment
from muster.experiment.source import DEFAULT
from muster.simulators.describing import UnsupportedSpaceError, describe_actions, leaves
from muster.stepping.apart import ApartProcess, ProcessDiedError
from muster.stepping.survey import Survey, Wanted, survey_apart
from muster.training.fitting_defaults import (
    FEWEST_ITERATIONS,
    SMALLEST_BATCH,
    envs_per_group,
    with_fitting_defaults,
)
from muster.training.stopping import with_default_stop

LONGEST_LOOK = 60.0
"""Seconds that building the simulator may take, to look at it."""
_ENVS_PER_GROUP = "resources.envs_per_group"


@dataclass(frozen=True)
class Choice:
    """A default, and what it depends on."""

    value: Any
    reason: str


def look_at(loaded: LoadedExperiment) -> Survey:
    """Build the simulator in a process of its own, and return what it is like.

    Raises:
        InputError, SimulatorError: if it cannot be built.
    """
    process = ApartProcess(LONGEST_LOOK)
    experiment = loaded.experiment
    try:
        return survey_apart(experiment.simulator(), rules_of(experiment), Wanted(experiment.seed), process)
    except ProcessDiedError as error:
        raise SimulatorError(f"{experiment.env.id}: the simulator ended its process: {error}") from None
    finally:
        process.close()


def choices(loaded: LoadedExperiment, survey: Survey | None) -> dict[str, Choice]:
    """Return the choices by their keys; without a survey, those that need none of the simulator."""
    found: dict[str, Choice] = {}
    settled = _with_engine(loaded)
    for key, source in settled.sources.items():
        if source not in (DEFAULT, loaded.sources.get(key)):
            found[key] = Choice(_value(settled.experiment, key), source)
    if survey is not None:
        stop = with_default_stop(settled.experiment.stop, survey.reward_threshold)
        [(key, value)] = stop.model_dump(by_alias=True, exclude_none=True).items()
        settled = settled.replace(f"stop.{key}", value, DEFAULT)
        found[f"stop.{key}"] = Choice(value, _why_this_end(key))
        settled = with_fitting_defaults(settled, is_batched=survey.is_batched)
        found |= _about_actions(settled, survey)
    found[_ENVS_PER_GROUP] = _simulators(settled, survey)
    return found | _about_the_end(settled)


def _with_engine(loaded: LoadedExperiment) -> LoadedExperiment:
    try:
        return with_engine_defaults(loaded)
    except InputError:  # the engine is not installed
        return loaded


def _value(experiment: Experiment, key: str) -> Any:
    section, _, name = key.partition(".")
    return experiment.as_table()[section][name]


def _why_this_end(key: str) -> str:
    if key == "return":
        return "the return at which the simulator counts as solved, as it is registered with Gymnasium"
    return "no rule is given, and no return is registered at which the simulator counts as solved"


def _simulators(loaded: LoadedExperiment, survey: Survey | None) -> Choice:
    count = loaded.experiment.resources.envs_per_group
    if loaded.experiment.algorithm.engine == "rllib":
        return Choice(
            envs_per_group(loaded, is_batched=False), "a worker of RLlib's steps its simulators together"
        )
    if survey is None:
        return Choice(count, "8 if the simulator is batched, which is not known")
    why = "it is batched, and steps them together" if survey.is_batched else "it is not batched"
    return Choice(count, why)


def _about_actions(loaded: LoadedExperiment, survey: Survey) -> dict[str, Choice]:
    """Say whether the actions have a standard deviation."""
    if not isinstance(loaded.experiment.algorithm, AlgorithmSection):
        return {}
    try:
        kinds = {leaf["kind"] for _, leaf in leaves(describe_actions(survey.action_space))}
    except UnsupportedSpaceError:
        return {}
    why = "some actions are continuous" if "box" in kinds else "without effect: no action is continuous"
    return {"algorithm.log_std_init": Choice(-0.5, why)}


def _about_the_end(loaded: LoadedExperiment) -> dict[str, Choice]:
    """Say what depends on how much is to be trained."""
    algorithm, stop = loaded.experiment.algorithm, loaded.experiment.stop
    if not isinstance(algorithm, AlgorithmSection):
        return {}
    size = algorithm.train_batch_size
    why = f"smaller if stop.steps is below {FEWEST_ITERATIONS * size:,}: a sixteenth, at least {SMALLEST_BATCH}"
    found = {"algorithm.train_batch_size": Choice(size, why)}
    if (schedule := getattr(algorithm, "lr_schedule", None)) == "linear":
        ends = [f"stop.{key} = {value:,}" for key in ("steps", "iterations") if (value := getattr(stop, key))]
        why = f"falls to 0 at {ends[0]}" if ends else "constant unless stop.steps or stop.iterations is given"
        found["algorithm.lr_schedule"] = Choice(schedule, why)
    return found
