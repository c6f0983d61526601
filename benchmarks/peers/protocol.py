"""What every peer's program shares: its arguments, the common work, and what it prints at the end."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

BATCH = 4096
EPOCHS = 10
MINIBATCH = 128
ENVS = 8
WORKERS = 2
GAMMA, LAMBDA, CLIP, LR = 0.99, 0.95, 0.2, 3e-4


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
        parser.add_argument("--envs", type=int, default=ENVS, help="simulators in one process")
        parser.add_argument("--algorithm", default="ppo")
        parser.add_argument("--seed", type=int, default=0, help="of those who do not draw their own")
        parser.add_argument("--goal", type=float, help="stop when the mean return of 100 episodes gets here")
        parser.add_argument("--seconds", type=float, default=math.inf, help="stop when so long has passed")
        self.arguments = parser.parse_args()
        self.workload: str = self.arguments.workload
        self.iterations: int = self.arguments.iterations
        self._started = float(os.environ.get("BENCH_STARTED", time.time()))
        self._entries: list[tuple[float, int, float | None]] = []

    def ended(self, steps: int, mean_return: float | None = None) -> bool:
        """Note that an iteration has ended after so many steps in all; return whether to stop."""
        self._entries.append((time.time(), steps, mean_return))
        goal = self.arguments.goal
        reached = goal is not None and mean_return is not None and mean_return >= goal
        is_late = time.time() - self._started > self.arguments.seconds
        return reached or is_late or len(self._entries) >= self.iterations

    def report(self, **more: Any) -> None:
        """Print what was measured, as the last line."""
        entries = [[moment - self._started, steps, value] for moment, steps, value in self._entries]
        print(json.dumps({"entries": entries, **more}), flush=True)


def make_flat(workload: str) -> Any:
    """Return a workload's simulator with its observation as one vector, as the peers' networks take it."""
    import gymnasium

    from benchmarks import workloads

    env = workloads.make(workload)
    return env if len(env.observation_space.shape or ()) == 1 and workload != "ratio" else _flat(gymnasium, env)


def _flat(gymnasium: Any, env: Any) -> Any:
    return gymnasium.wrappers.FlattenObservation(env)
