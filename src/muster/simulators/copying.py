"""Whether a simulator can be saved in the middle of an episode: does a pickled copy go on alike?"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from copy import deepcopy
from typing import Any

import cloudpickle
import gymnasium
from gymnasium.utils import EzPickle
from gymnasium.utils.env_checker import data_equivalence

from muster.simulators.building import Simulator
from muster.simulators.masks import random_action

STEPS = 20
LONGEST_SECONDS = 1.0
LONGEST_TRIAL_SECONDS = 60.0


def copy_problem(env: gymnasium.Env[Any, Any]) -> str | None:
    """Return why a saved copy of a simulator would not go on like the original, or None if it would.

    Plays a few steps, fewer if they are slow. Gymnasium's EzPickle keeps a constructor's arguments and no state.
    """
    if isinstance(env.unwrapped, EzPickle):
        return "it pickles its constructor's arguments only (EzPickle)"
    try:
        observation, info = env.reset(seed=2)
        observation, _, ended, _, info = env.step(random_action(env.action_space, observation, info))
        if ended:
            observation, info = env.reset(seed=2)
        copy = cloudpickle.loads(cloudpickle.dumps(env))
    except Exception as error:
        return f"it does not pickle ({type(error).__name__}: {error})"
    return None if agree(env, copy, observation, info) else "a pickled copy goes on differently"


def copy_problem_apart(simulator: Simulator) -> str | None:
    """Return the same, tried in a process of its own, which the simulator may end or hang in."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=cloudpickle.dumps(simulator),
            capture_output=True,
            check=False,
            timeout=LONGEST_TRIAL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"trying that took longer than {LONGEST_TRIAL_SECONDS:g} s"
    if done.returncode or not done.stdout:
        return "it ended its process when that was tried"
    problem: str | None = pickle.loads(done.stdout)
    return problem


def agree(first: gymnasium.Env[Any, Any], second: gymnasium.Env[Any, Any], observation: Any, info: Any) -> bool:
    """Return whether two simulators answer the same actions alike; one that fails does not.

    `observation` and `info` are the last that the first of them gave.
    """
    deadline = time.monotonic() + LONGEST_SECONDS
    first.action_space.seed(3)
    try:
        for _ in range(STEPS):
            action = random_action(first.action_space, observation, info)
            observation, reward, terminated, truncated, info = first.step(action)
            observation = deepcopy(observation)
            other, *rest = second.step(action)
            if not data_equivalence(observation, other, exact=True):
                return False
            if [reward, terminated, truncated] != rest[:3]:
                return False
            if terminated or truncated or time.monotonic() > deadline:
                break
    except Exception:
        return False
    return True


def _main() -> None:
    """Try the simulator that standard input names; the answer has standard output to itself."""
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    simulator: Simulator = cloudpickle.load(sys.stdin.buffer)
    try:
        problem = copy_problem(simulator.build())
    except Exception as error:
        problem = f"it could not be built ({type(error).__name__}: {error})"
    os.write(answer, pickle.dumps(problem))


if __name__ == "__main__":
    _main()
