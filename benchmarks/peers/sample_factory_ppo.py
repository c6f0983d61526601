"""Sample Factory's asynchronous PPO: two processes of eight simulators each."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import gymnasium
import numpy as np
import torch
from protocol import BATCH, CLIP, ENVS, EPOCHS, GAMMA, LAMBDA, LR, MINIBATCH, WORKERS, Peer, hidden, make_flat
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.actor_critic import create_actor_critic
from sample_factory.model.model_utils import get_rnn_size
from sample_factory.train import make_runner
from signal_slot.signal_slot import EventLoopObject


def make_env(name: str, cfg: Any = None, env_config: Any = None, render_mode: Any = None) -> Any:
    """Return a simulator, as Sample Factory asks for it."""
    return make_flat(name)


class Shared(EventLoopObject):  # type: ignore[misc]
    """Gets the learner's weights, which lie in memory that its process shares with the others."""

    weights: dict[str, torch.Tensor]

    def take(self, data: Any) -> None:
        """Take what the learner tells all others when it begins."""
        self.weights = data[1]


class Clock(AlgoObserver):
    """Notes when the learner has been through another batch."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.batches = 0
        self.stop = False

    def on_connect_components(self, runner: Any) -> None:
        """Ask for the learner's weights."""
        self.shared = Shared(runner.event_loop, "shared")
        runner.learners[0].model_initialized.connect(self.shared.take)
        self.cfg = runner.cfg
        env = make_flat(self.peer.workload)
        spaces = gymnasium.spaces.Dict({"obs": env.observation_space}), env.action_space
        self.model = create_actor_critic(self.cfg, *spaces)

    def likeliest(self, weights: Any, observations: Any) -> Any:
        """Return the likeliest of several choices."""
        self.model.load_state_dict(weights)
        with torch.no_grad():
            rows = self.model.normalize_obs({"obs": torch.as_tensor(observations)})
            outputs = self.model(rows, torch.zeros(len(observations), get_rnn_size(self.cfg)))
        return outputs["action_logits"].argmax(dim=1).numpy()

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        """Look at the learner's count of steps."""
        steps = runner.env_steps.get(0, 0)
        while steps >= (self.batches + 1) * BATCH and not self.stop:
            self.batches += 1
            recent = list(runner.policy_avg_stats.get("reward", [[]])[0])
            mean = float(np.mean(recent)) if len(recent) >= 100 else None
            self.peer.keep(self.shared.weights, self.likeliest)
            self.stop = self.peer.ended(self.batches * BATCH, mean)
        if self.stop:
            runner.cfg.train_for_env_steps = 0


def main() -> None:
    """Train for some iterations."""
    peer = Peer()
    register_env(peer.workload, make_env)
    flags = {
        "algo": "APPO", "env": peer.workload, "experiment": "bench", "train_dir": tempfile.mkdtemp(),
        "device": "cpu", "num_workers": WORKERS, "num_envs_per_worker": ENVS, "worker_num_splits": 2,
        "rollout": 32, "batch_size": MINIBATCH, "num_batches_per_epoch": BATCH // MINIBATCH,
        "num_epochs": EPOCHS, "use_rnn": False, "recurrence": 1, "with_vtrace": False, "gamma": GAMMA,
        "gae_lambda": LAMBDA, "ppo_clip_ratio": CLIP, "learning_rate": LR, "nonlinearity": "tanh",
        "actor_critic_share_weights": False, "normalize_input": False, "train_for_env_steps": 10**9,
        "save_every_sec": 10**6, "serial_mode": not peer.arguments.parallel, "stats_avg": 100,
        "reward_scale": 1.0, "env_gpu_observations": False, "async_rl": peer.arguments.parallel,
        "max_policy_lag": 100_000,
    }  # fmt: skip
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    arguments += ["--encoder_mlp_layers", *map(str, hidden(peer.workload))]
    sys.argv = [sys.argv[0], *arguments]
    parser, _ = parse_sf_args(arguments)
    _, runner = make_runner(parse_full_cfg(parser, arguments))
    runner.register_observer(Clock(peer))
    runner.init()
    runner.run()
    peer.report()


if __name__ == "__main__":
    main()
