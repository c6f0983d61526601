"""A failure of the simulator, repeated in this process: same simulator, same seed, same actions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.errors import InputError, SimulatorError
from muster.files.regular import read_bytes
from muster.simulators.plain_actions import action_of
from muster.simulators.seeding import ProcessRandomness, Stream
from muster.simulators.simulator import Simulator
from muster.stepping.failures import CallInterrupt, simulator_error
from muster.stepping.here import called_here
from muster.stepping.live import FailedCallError, Identity, LiveSimulator
from muster.stepping.rules import Rules


@dataclass(frozen=True)
class Recorded:
    """What the file of a failure holds."""

    simulator: Simulator
    rules: Rules
    index: int | None
    episode: int
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
        values["rules"] = Rules(**values["rules"])
        recorded = Recorded(**{name: values[name] for name in Recorded.__dataclass_fields__})
    except OSError as error:
        raise InputError(f"--replay {path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"--replay {path}: holds no failure that can be repeated\n"
            "    expected a file such as runs/NAME/failures/0001.json"
        ) from None
    if recorded.actions is None:
        why = "a batch of simulators failed, or began the episode by itself, without a seed of its own"
        if values["seed"] is not None:
            why = (
                "the episode was too long for all of its actions to be kept; "
                f"it failed with seed {recorded.seed} at step {recorded.step}"
            )
        raise InputError(f"--replay {path}: cannot be repeated: {why}")
    return recorded


def replay(recorded: Recorded) -> Iterator[str]:
    """Repeat a failure; yield what is about to be done, and what came of it.

    A call that takes too long is interrupted as in training, unless a debugger is at work. Process-wide random
    numbers begin at the episode's seed: a simulator that draws from them repeats itself, though not what it drew
    in training.

    Raises:
        SimulatorError: when it fails again, with the simulator's own traceback.
    """
    is_debugged = sys.gettrace() is not None
    live = LiveSimulator(recorded.simulator, recorded.rules, identity=Identity(index=recorded.index))
    try:
        with (
            called_here(None if is_debugged else recorded.rules.step_timeout),
            ProcessRandomness(recorded.seed, Stream.PROCESS).installed(),
        ):
            try:
                yield from _repeated(recorded, live)
            finally:
                with suppress(FailedCallError):
                    live.close()
    except FailedCallError as error:
        again = error.failure
        same = "the same failure again" if again.error == recorded.error else f"recorded was: {recorded.error}"
        raise simulator_error(f"{again.error} ({same})", again) from None
    except CallInterrupt:
        raise SimulatorError(f"interrupted; recorded was: {recorded.error}") from None


def _repeated(recorded: Recorded, live: LiveSimulator) -> Iterator[str]:
    index = recorded.simulator.spare_index if recorded.index is None else recorded.index
    live.begin(recorded.episode, recorded.seed)
    yield f"build {recorded.simulator.id}, simulator {index}"
    live.build()
    yield f"reset with seed {recorded.seed}"
    live.reset()
    for number, value in enumerate(recorded.actions):
        action = _fitting(live.env.action_space, value, number)
        yield f"step {number}: action {action}"
        observation, reward, terminated, truncated, _ = live.step(action)
        ending = ", terminated" if terminated else ", truncated" if truncated else ""
        yield f"    observation {observation}, reward {reward:g}{ending}"
    yield "close"
    live.close()


def _fitting(space: Any, value: Any, number: int) -> Any:
    """Return a recorded action as the simulator takes it.

    Raises:
        InputError: if it takes other actions now.
    """
    with suppress(TypeError, ValueError, KeyError, IndexError):
        action = action_of(space, value)
        if space.contains(action):
            return action
    raise InputError(
        f"--replay: action {number}, {value}, does not fit the simulator's action space {space}\n"
        "    has the simulator changed since the failure was recorded?"
    )
