"""What is learned from one simulator before it is trained in: its spaces, its speed, whether it can be saved."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muster.errors import SimulatorError
from muster.simulators.masks import mask_in, random_action
from muster.simulators.plain_spaces import plain_space
from muster.simulators.seeding import ProcessRandomness, Stream
from muster.simulators.simulator import Simulator
from muster.stepping.apart import ApartProcess, ProcessDiedError
from muster.stepping.calls import Call
from muster.stepping.failures import SimulatorFailure, simulator_error
from muster.stepping.here import called_here
from muster.stepping.live import FailedCallError, LiveSimulator
from muster.stepping.pickle_check import pickle_problem
from muster.stepping.rules import Rules
from muster.stepping.scheduled_config import ScheduledConfig

FILMED = "rgb_array"
"""The render mode that films are made in."""


@dataclass(frozen=True)
class Wanted:
    """What is to be learned besides the spaces; plain data."""

    seed: int
    seconds_of_steps: float = 0.0
    pickling: bool = False
    mask: bool = False
    stages: tuple[Mapping[str, Any], ...] = ()
    """Values of the configuration that are to come during the run."""


@dataclass(frozen=True)
class Survey:
    """The spaces of a simulator, and what else was wanted.

    `step_seconds` is None if it was not wanted, or the simulator failed when it was tried. `gives_mask` says
    whether its first reset came with an action mask in `info`, if that was wanted. `stage_problem` is why it fails
    with the values of a stage.
    """

    observation_space: Any
    action_space: Any
    build_seconds: float
    step_seconds: float | None = None
    pickle_problem: str | None = None
    reward_threshold: float | None = None
    is_batched: bool = False
    can_be_filmed: bool = False
    gives_mask: bool = False
    stage_problem: str | None = None


def survey_here(simulator: Simulator, rules: Rules, wanted: Wanted) -> Survey:
    """Look at a simulator in this process.

    Raises:
        SimulatorError: if it cannot be built.
    """
    try:
        with called_here(rules.step_timeout):
            found = survey(simulator, rules, wanted)
            close_surveyed()
            return found
    except FailedCallError as error:
        raise _of_no_use(simulator, error.failure) from None


def survey_apart(simulator: Simulator, rules: Rules, wanted: Wanted, process: ApartProcess) -> Survey:
    """Look at a simulator in a process of its own; one that ends it is looked at again, and tried less.

    Raises:
        SimulatorError: if it cannot be built.
    """
    try:
        try:
            found: Survey = process.call(survey, simulator, rules, wanted)
        except (FailedCallError, ProcessDiedError) as error:
            if isinstance(error, FailedCallError) and error.failure.call == Call.BUILD.word:
                raise
            less = replace(wanted, seconds_of_steps=0.0, pickling=False)
            found = process.call(survey, simulator, rules, less)
            if wanted.pickling:
                found = replace(found, pickle_problem=f"it failed when that was tried: {_first_line(error)}")
    except FailedCallError as error:
        raise _of_no_use(simulator, error.failure) from None
    # What goes wrong in closing it does not change what is known.
    with suppress(FailedCallError, ProcessDiedError):
        process.call(close_surveyed)
    return found


def survey(simulator: Simulator, rules: Rules, wanted: Wanted, *, journals: Path | None = None) -> Survey:
    """Build a simulator and look at it; one that fails when it is stepped will do so in training, too.

    It is left to `close_surveyed`.

    Raises:
        FailedCallError: if it cannot be built.
    """
    live = LiveSimulator(simulator, rules, journals=journals)
    _surveyed.append(live)
    with ProcessRandomness(wanted.seed, Stream.EVALUATION).installed():
        began = time.perf_counter()
        live.build()
        seconds = time.perf_counter() - began
        speed = step_seconds(live, wanted.seconds_of_steps) if wanted.seconds_of_steps else None
        problem = pickle_problem(live) if wanted.pickling else None
        gives_mask = wanted.mask and _gives_mask(live)
        stage_problem = _stage_problem(simulator, rules, wanted.stages)
    observations, actions = (plain_space(space) for space in (live.env.observation_space, live.env.action_space))
    threshold, is_batched = simulator.reward_threshold(), simulator.is_batched()
    can_be_filmed = FILMED in (live.env.metadata.get("render_modes") or ())
    return Survey(
        *(observations, actions, seconds, speed, problem, threshold, is_batched, can_be_filmed, gives_mask),
        stage_problem=stage_problem,
    )


_surveyed: list[LiveSimulator] = []


def close_surveyed(*, journals: Path | None = None) -> None:
    """Close what was looked at in this process."""
    while _surveyed:
        with suppress(FailedCallError):
            _surveyed.pop().close()


def _gives_mask(live: LiveSimulator) -> bool:
    live.begin(0, 0)
    try:
        _, info = live.reset()
    except FailedCallError:
        return False
    return mask_in(info) is not None


def _stage_problem(simulator: Simulator, rules: Rules, stages: Sequence[Mapping[str, Any]]) -> str | None:
    """Give a simulator the values of each stage, as training will, and take a step with them."""
    is_told = simulator.schedule_method is not None and not simulator.is_batched()
    for values in stages:
        live = LiveSimulator(simulator if is_told else replace(simulator, scheduled=values), rules)
        config = ScheduledConfig(simulator, 1)
        config.wanted = values
        try:
            live.build()
            live.begin(0, 0)
            if is_told:
                with live.calling(Call.RESET) as env:
                    config.apply(0, env)
            live.step(random_action(live.env.action_space, *live.reset()))
        except FailedCallError as error:
            shown = ", ".join(f"{key} = {value!r}" for key, value in values.items())
            return f"with {shown}, {error.failure.call} fails: {error.failure.error}"
        finally:
            with suppress(FailedCallError):
                live.close()
    return None


def step_seconds(live: LiveSimulator, at_most: float) -> float | None:
    """Return the time of a step with random actions; None if the simulator fails."""
    steps = 0
    space = live.env.action_space
    live.begin(0, 0)
    started = time.perf_counter()
    try:
        observation, info = live.reset()
        while not steps or time.perf_counter() - started < at_most:
            observation, _, terminated, truncated, info = live.step(random_action(space, observation, info))
            steps += 1
            if terminated or truncated:
                live.begin(0, 0)
                observation, info = live.reset()
    except FailedCallError:
        return None
    return (time.perf_counter() - started) / steps


def _of_no_use(simulator: Simulator, failure: SimulatorFailure) -> SimulatorError:
    what = "could not be built" if failure.call == Call.BUILD.word else f"failed in {failure.call}"
    return simulator_error(f"{simulator.id}: the simulator {what}: {failure.error}", failure)


def _first_line(error: FailedCallError | ProcessDiedError) -> str:
    what = error.failure.error if isinstance(error, FailedCallError) else str(error)
    return what.partition("\n")[0]
