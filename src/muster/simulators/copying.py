"""Whether a simulator can be saved in the middle of an episode: does a pickled copy go on alike?"""

from __future__ import annotations

import time
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.utils import EzPickle

STEPS = 20
LONGEST_SECONDS = 1.0


def copy_problem(env: gymnasium.Env[Any, Any]) -> str | None:
    """Return why a saved copy of a simulator would not go on like the original, or None if it would.

    Plays a few steps, fewer if they are slow. Gymnasium's EzPickle keeps a constructor's arguments and no state.
    """
    if isinstance(env.unwrapped, EzPickle):
        return "it pickles its constructor's arguments only (EzPickle)"
    try:
        env.reset(seed=2)
        env.step(env.action_space.sample())
        copy = cloudpickle.loads(cloudpickle.dumps(env))
    except Exception as error:
        return f"it does not pickle ({type(error).__name__}: {error})"
    return None if agree(env, copy) else "a pickled copy goes on differently"


def agree(first: gymnasium.Env[Any, Any], second: gymnasium.Env[Any, Any]) -> bool:
    """Return whether two simulators answer the same actions alike; one that fails does not."""
    deadline = time.monotonic() + LONGEST_SECONDS
    first.action_space.seed(3)
    try:
        for _ in range(STEPS):
            action = first.action_space.sample()
            one, other = (_outcome(env, action) for env in (first, second))
            if not (np.array_equal(one[0], other[0]) and one[1:] == other[1:]):
                return False
            if one[2] or time.monotonic() > deadline:
                break
    except Exception:
        return False
    return True


def _outcome(env: gymnasium.Env[Any, Any], action: Any) -> tuple[Any, float, bool]:
    observation, reward, terminated, truncated, _ = env.step(action)
    return np.array(observation, copy=True), float(reward), bool(terminated or truncated)
