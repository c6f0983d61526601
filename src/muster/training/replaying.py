"""A failure of the simulator, repeated in this process: same simulator, same seed, same actions."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from muster.engines.failing import FAILURES
from muster.errors import InputError, SimulatorError
from muster.files.regular import read_bytes
from muster.policies.distributions import distribution_for
from muster.simulators.building import Simulator
from muster.simulators.decoding import ActionDecoder
from muster.simulators.describing import describe_actions, describe_observations, with_mask
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.masks import MaskReader
from muster.simulators.observing import NumberCheck
from muster.simulators.plain_actions import action_of
from muster.simulators.seeding import ProcessRandomness, Stream


@dataclass(frozen=True)
class Recorded:
    """What the file of a failure holds."""

    simulator: Simulator
    squash: bool
    group: int | None
    index: int | None
    seed: int
    actions: list[Any]
    call: str
    step: int
    error: str


def read_recorded(path: Path) -> Recorded:
    """Read the file of a failure.

    Raises:
        InputError: if it is none, or holds too little to repeat it.
    """
    try:
        values = json.loads(read_bytes(path))
        values["simulator"] = Simulator(**values["simulator"])
        recorded = Recorded(**{name: values[name] for name in Recorded.__dataclass_fields__})
    except OSError as error:
        raise InputError(f"--replay {path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"--replay {path}: holds no failure that can be repeated\n"
            "    expected a file such as runs/NAME/failures/0001.json"
        ) from None
    if recorded.actions is None:
        raise InputError(
            f"--replay {path}: the episode was too long for all of its actions to be kept; "
            f"it failed with seed {recorded.seed} at step {recorded.step}"
        )
    return recorded


def replay(recorded: Recorded) -> Iterator[str]:
    """Repeat a failure; yield what is about to be done, and what came of it.

    What is wrong is found in the same way as in training. Process-wide random numbers begin at the episode's
    seed: a simulator that draws from them repeats itself, though not what it drew in training.

    Raises:
        SimulatorError: when it fails again, with the simulator's own traceback.
    """
    try:
        with ProcessRandomness(recorded.seed, Stream.PROCESS).installed():
            yield from _repeated(recorded)
    except FAILURES as error:
        again = f"{type(error).__name__}: {error}"
        same = (
            "the same failure again" if recorded.error.endswith(str(error)) else f"recorded was: {recorded.error}"
        )
        frames = error.__traceback__ and error.__traceback__.tb_next and error.__traceback__.tb_next.tb_next
        own = "".join(traceback.format_exception(type(error), error, frames))
        raise SimulatorError(f"{again} ({same})\n\n{own}") from None
    except KeyboardInterrupt:
        raise SimulatorError(f"interrupted; recorded was: {recorded.error}\n\n{traceback.format_exc()}") from None


def _repeated(recorded: Recorded) -> Iterator[str]:
    index = recorded.simulator.spare_index if recorded.index is None else recorded.index
    yield f"build {recorded.simulator.id}, simulator {index}"
    env = recorded.simulator.build(index=index)
    look_at = _Look(env, bounds="outside its space" in recorded.error)
    yield f"reset with seed {recorded.seed}"
    observation, info = env.reset(seed=recorded.seed)
    look_at(observation, info)
    for number, action in enumerate(_actions(recorded, env.action_space)):
        yield f"step {number}: action {action}"
        observation, reward, terminated, truncated, info = env.step(action)
        if not math.isfinite(reward := float(reward)):
            raise ValueError(f"reward is {reward}")
        look_at(observation, None if terminated or truncated else info)
        ending = ", terminated" if terminated else ", truncated" if truncated else ""
        yield f"    observation {observation}, reward {reward:g}{ending}"
    yield "close"
    env.close()


def _actions(recorded: Recorded, space: Any) -> list[Any]:
    """Return the simulator's actions, from its own or from the rows that training keeps."""
    if recorded.group is None:
        return [action_of(space, value) for value in recorded.actions]
    description = describe_actions(space, squash=recorded.squash)
    rows = np.array(recorded.actions, distribution_for(description).action_dtype)
    return ActionDecoder(description).decode(rows) if len(rows) else []


class _Look:
    """Finds in an observation what training finds."""

    def __init__(self, env: Any, *, bounds: bool) -> None:
        actions = describe_actions(env.action_space)
        observations = with_mask(describe_observations(env.observation_space), actions)
        self._encoder = ObservationEncoder(observations)
        self._masks = MaskReader(observations, actions)
        self._check = NumberCheck(self._encoder, 1, bounds=bounds)

    def __call__(self, observation: Any, info: Any) -> None:
        """Look at an observation, and at its mask unless the episode has ended (`info` is None then)."""
        row = np.zeros(self._encoder.size, np.float32)
        self._encoder.encode_into(row, observation)
        if info is not None and self._masks.sizes:
            self._masks.read(observation, info)
        if problem := self._check.problem(row):
            raise ValueError(problem)
