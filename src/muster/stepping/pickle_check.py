"""Whether a simulator can be saved in the middle of an episode: does a pickled copy continue alike?"""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

import cloudpickle
from gymnasium.utils import EzPickle
from gymnasium.utils.env_checker import data_equivalence

from muster.simulators.masks import random_action
from muster.stepping.calls import Call
from muster.stepping.live import FailedCallError, LiveSimulator

STEPS = 20
LONGEST_SECONDS = 1.0


def pickle_problem(live: LiveSimulator) -> str | None:
    """Return why a saved copy of a simulator would not continue like the original, or None if it would.

    Plays a few steps, fewer if they are slow. Gymnasium's EzPickle keeps a constructor's arguments and no state.
    """
    if isinstance(live.env.unwrapped, EzPickle):
        return "it pickles its constructor's arguments only (EzPickle)"
    try:
        live.begin(0, 2)
        observation, info = live.reset()
        observation, _, *ends, info = live.step(random_action(live.env.action_space, observation, info))
        if any(ends):
            live.begin(0, 2)
            observation, info = live.reset()
        with live.calling(Call.STEP) as env:
            copy = cloudpickle.loads(cloudpickle.dumps(env))
        return None if agree(live, live.twin(copy), observation, info) else "a pickled copy continues differently"
    except FailedCallError as error:
        return f"it does not pickle ({error.failure.error})"


def agree(first: LiveSimulator, second: LiveSimulator, observation: Any, info: Any) -> bool:
    """Return whether two simulators answer the same actions alike.

    `observation` and `info` are the last that the first of them gave.

    Raises:
        FailedCallError: if one of them fails.
    """
    deadline = time.monotonic() + LONGEST_SECONDS
    space = first.env.action_space
    space.seed(3)
    for _ in range(STEPS):
        action = random_action(space, observation, info)
        observation, *rest, info = first.step(action)
        observation = deepcopy(observation)
        other, *other_rest, _ = second.step(action)
        if not data_equivalence(observation, other, exact=True) or rest != other_rest:
            return False
        if rest[1] or rest[2] or time.monotonic() > deadline:
            break
    return True
