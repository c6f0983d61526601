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
from muster.simulators.building import Simulator
from muster.simulators.decoding import ActionDecoder
from muster.simulators.describing import describe_actions, describe_observations
from muster.simulators.encoding import ObservationEncoder
from muster.simulators.observing import ObservationCheck
from muster.simulators.seeding import ProcessRandomness, Stream


@dataclass(frozen=True)
class Recorded:
    """What the file of a failure holds."""

    simulator: Simulator
    index: int
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
        values = json.loads(path.read_text(encoding="utf-8"))
        values["simulator"] = Simulator(**values["simulator"])
        recorded = Recorded(**{name: values[name] for name in Recorded.__dataclass_fields__})
    except OSError as error:
        raise InputError(f"--replay {path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
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
    yield f"build {recorded.simulator.id}, simulator {recorded.index}"
    env = recorded.simulator.build(index=recorded.index)
    look_at = _Look(env, bounds="outside its space" in recorded.error)
    decoder = ActionDecoder(describe_actions(env.action_space))
    yield f"reset with seed {recorded.seed}"
    observation, _ = env.reset(seed=recorded.seed)
    look_at(observation)
    rows = np.array(recorded.actions)
    for number in range(len(rows)):
        action = decoder.decode(rows[number : number + 1])[0]
        yield f"step {number}: action {action}"
        observation, reward, terminated, truncated, _ = env.step(action)
        if not math.isfinite(reward := float(reward)):
            raise ValueError(f"reward is {reward}")
        look_at(observation)
        ending = ", terminated" if terminated else ", truncated" if truncated else ""
        yield f"    observation {observation}, reward {reward:g}{ending}"
    yield "close"
    env.close()


class _Look:
    """Finds in an observation what training finds."""

    def __init__(self, env: Any, *, bounds: bool) -> None:
        description = describe_observations(env.observation_space)
        self._encoder = ObservationEncoder(description)
        self._check = ObservationCheck(description, 1, self._encoder.size, bounds=bounds)

    def __call__(self, observation: Any) -> None:
        row = np.zeros(self._encoder.size, np.float32)
        self._encoder.encode_into(row, observation)
        if problem := self._check.problem(row):
            raise ValueError(problem)
