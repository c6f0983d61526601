"""What every peer's program shares: its arguments, the common work, and what it prints at the end."""

from __future__ import annotations

import argparse
import copy
import functools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

BATCH = 4096
EPOCHS = 10
MINIBATCH = 128
ENVS = 8
WORKERS = 2
GAMMA, LAMBDA, CLIP, LR = 0.99, 0.95, 0.2, 3e-4
EPISODES = 20


def hidden(workload: str) -> list[int]:
    """Return the hidden layers of policy and value network."""
    return [256, 256] if workload == "wide" else [64, 64]


class Peer:
    """One program's arguments, and its clock: an entry when each iteration has ended."""

    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("workload")
        parser.add_argument("--iterations", type=int, default=6)
        parser.add_argument("--parallel", action="store_true", help="simulators in two processes of their own")
        parser.add_argument("--overlap", action="store_true", help="sample while learning, where that is a choice")
        parser.add_argument(
            "--workers", type=int, default=WORKERS, help="how many processes, where that is a choice"
        )
        parser.add_argument("--envs", type=int, default=ENVS, help="simulators in one process")
        parser.add_argument("--algorithm", default="ppo")
        parser.add_argument("--seed", type=int, default=0, help="of those who do not draw their own")
        parser.add_argument("--goal", type=float, help="stop when the mean return of 100 episodes gets here")
        parser.add_argument("--evaluate", action="store_true", help="evaluate each iteration's policy, afterwards")
        parser.add_argument("--seconds", type=float, default=math.inf, help="stop when so long has passed")
        self.arguments = parser.parse_args()
        self.workload: str = self.arguments.workload
        self.iterations: int = self.arguments.iterations
        self._started = float(os.environ.get("BENCH_STARTED", time.time()))
        self._entries: list[tuple[float, int, float | None]] = []
        self._policies: list[Callable[[Any], Any]] = []

    def keep(self, policy: Any, act: Callable[[Any, Any], Any]) -> None:
        """Keep a copy of the policy as it is at the end of an iteration; `act(policy, observations)` plays it.

        It is to take the likeliest action for each row. Evaluating waits until training has ended, and so takes
        none of its time.
        """
        if self.arguments.evaluate:
            self._policies.append(functools.partial(act, copy.deepcopy(policy)))

    def ended(self, steps: int, mean_return: float | None = None) -> bool:
        """Note that an iteration has ended after so many steps in all; return whether to stop."""
        self._entries.append((time.time(), steps, mean_return))
        goal = self.arguments.goal
        reached = goal is not None and mean_return is not None and mean_return >= goal
        is_late = time.time() - self._started > self.arguments.seconds
        return reached or is_late or len(self._entries) >= self.iterations

    def report(self) -> None:
        """Print what was measured, as the last line: for each iteration when, steps, mean return, evaluation."""
        evaluations = self._evaluations()
        entries = [
            [moment - self._started, steps, mean, evaluations[k] if k < len(evaluations) else None]
            for k, (moment, steps, mean) in enumerate(self._entries)
        ]
        print(json.dumps({"entries": entries}), flush=True)

    def _evaluations(self) -> list[float]:
        """Evaluate the policies that were kept, up to the first that reaches the goal."""
        found: list[float] = []
        for act in self._policies:
            found.append(mean_return(self.workload, act))
            if found[-1] >= self.arguments.goal:
                break
        return found


def likeliest_choice(network: Any, observations: Any) -> Any:
    """Return the choices that a torch network gives most to."""
    import torch

    with torch.no_grad():
        return network(torch.as_tensor(observations)).argmax(dim=1).numpy()


def mean_return(workload: str, act: Callable[[Any], Any]) -> float:
    """Return the mean return of some episodes, each with a seed of its own, that are played side by side."""
    import numpy as np

    envs = [make_flat(workload) for _ in range(EPISODES)]
    seen = np.stack([env.reset(seed=10_000 + k)[0] for k, env in enumerate(envs)]).astype(np.float32)
    running, returns = list(range(EPISODES)), [0.0] * EPISODES
    while running:
        for k, action in zip(list(running), np.asarray(act(seen[running])), strict=True):
            seen[k], reward, terminated, truncated, _ = envs[k].step(action)
            returns[k] += float(reward)
            if terminated or truncated:
                running.remove(k)
    return sum(returns) / EPISODES


def make_flat(workload: str) -> Any:
    """Return a workload's simulator with its observation as one vector of numbers, as peers' networks take it."""
    import gymnasium
    import numpy as np

    from benchmarks import workloads

    class Numbers(gymnasium.ObservationWrapper):  # type: ignore[misc, type-arg]
        """Observations as single-precision numbers."""

        observation_space = gymnasium.spaces.Box(0, 1, (sum(workloads.RATIO_SIZES),), np.float32)

        def observation(self, observation: Any) -> Any:
            return observation.astype(np.float32)

    env = workloads.make(workload)
    return Numbers(gymnasium.wrappers.FlattenObservation(env)) if workload == "ratio" else env
