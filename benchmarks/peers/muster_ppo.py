"""Our own PPO and TRPO, through the same door as the peers."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from protocol import BATCH, ENVS, EPOCHS, GAMMA, LAMBDA, LR, MINIBATCH, Peer, hidden

from muster import train
from muster.engines.builtin import plan as planning
from muster.engines.builtin.engine import BuiltinEngine
from muster.training import TrainOptions
from muster.training.listener import Silence
from muster.training.progress import Progress

ROOT = Path(__file__).parents[2]
SIMULATORS = {
    "cartpole": "CartPole-v1",
    "pendulum": "Pendulum-v1",
    "ratio": str(ROOT / "examples" / "ratio" / "ratio_env.py") + ":RatioEnv",
    **{name: f"benchmarks.workloads:{name}" for name in ("burn", "heavy", "wide")},
}


class Watched(BuiltinEngine):
    """An engine that can be asked for its policy while it trains."""

    engine: BuiltinEngine

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        Watched.engine = self


def likeliest(policy: Any, observations: Any) -> Any:
    """Return the likeliest actions."""
    return [policy.act(observation) for observation in observations]


class Clock(Silence):
    """Notes the end of each iteration."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def iterated(self, row: dict[str, Any], progress: Progress) -> None:
        """Note it; when it is enough, the stop rule has come true as well."""
        full = len(progress.returns) >= 100
        self.peer.keep(Watched.engine.policy(), likeliest)
        self.peer.ended(progress.steps, progress.return_mean if full else None)


def main() -> None:
    """Train for some iterations."""
    peer = Peer()
    arguments = peer.arguments
    settings: dict[str, Any] = {
        "env.id": SIMULATORS[peer.workload],
        "seed": arguments.seed,
        "algorithm.name": arguments.algorithm.upper(),
        "algorithm.train_batch_size": BATCH,
        "algorithm.gamma": GAMMA,
        "algorithm.lambda_": LAMBDA,
        "algorithm.lr": LR,
        "algorithm.num_epochs": EPOCHS,
        "algorithm.minibatch_size": MINIBATCH,
        "normalize.observations": False,
        "normalize.rewards": False,
        "model.hidden": hidden(peer.workload),
        "resources.workers": arguments.workers if arguments.parallel else 0,
        "resources.overlap": arguments.overlap,
        "resources.env_groups": arguments.workers if arguments.parallel else 1,
        "resources.envs_per_group": ENVS if arguments.parallel else arguments.envs,
        "checkpoint.every": 10**6,
        "evaluation.every": 0,
        "stop.iterations": peer.iterations,
    }
    if arguments.algorithm == "ppo":
        settings["algorithm.lr_schedule"] = "constant"
        settings["algorithm.vf_loss_coeff"] = 1.0  # of half the squared error, as 0.5 of all of it is to others
    if peer.workload == "ratio":
        settings["env.config"] = {"target": 1 / 6.931}
    if arguments.goal is not None:
        settings["stop.return"] = arguments.goal
    if arguments.seconds < math.inf:
        settings["stop.time"] = arguments.seconds
    experiment = settings.pop("env.id")
    with tempfile.TemporaryDirectory() as folder, patch.object(planning, "BuiltinEngine", Watched):
        train(experiment, overrides=settings, options=TrainOptions(runs_dir=folder), listener=Clock(peer))
    peer.report()


if __name__ == "__main__":
    main()
