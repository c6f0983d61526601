"""PufferLib's trainer, with Adam and the common work instead of its tuned defaults."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pufferlib.emulation
import pufferlib.vector
import torch
from protocol import (
    BATCH,
    CLIP,
    ENVS,
    EPOCHS,
    GAMMA,
    LAMBDA,
    LR,
    MINIBATCH,
    WORKERS,
    Peer,
    hidden,
    likeliest_choice,
    make_flat,
)
from pufferlib import pufferl
from torch import nn

HORIZON = 16


class Policy(nn.Module):
    """A policy and a value network, by PufferLib's interface."""

    def __init__(self, envs: Any, layers: list[int]) -> None:
        super().__init__()
        ins = envs.single_observation_space.shape[0]
        self.discrete = hasattr(envs.single_action_space, "n")
        outs = int(envs.single_action_space.n) if self.discrete else envs.single_action_space.shape[0]
        self.actor, self.critic = self._network(ins, layers, outs), self._network(ins, layers, 1)
        self.log_std = nn.Parameter(torch.zeros(1, outs))

    @staticmethod
    def _network(ins: int, layers: list[int], outs: int) -> nn.Sequential:
        sizes = [ins, *layers]
        parts: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            parts += [nn.Linear(before, after), nn.Tanh()]
        return nn.Sequential(*parts, nn.Linear(sizes[-1], outs))

    def forward_eval(self, rows: torch.Tensor, state: Any = None) -> Any:
        """Return what sampling needs."""
        rows = rows.reshape(-1, rows.shape[-1]).float()
        outputs = self.actor(rows)
        if not self.discrete:
            outputs = torch.distributions.Normal(outputs, self.log_std.exp().expand_as(outputs))
        return outputs, self.critic(rows)

    def forward(self, rows: torch.Tensor, state: Any = None) -> Any:
        """Return what learning needs."""
        return self.forward_eval(rows, state)


def settings(seed: int) -> dict[str, Any]:
    """Return PufferLib's own defaults with the common work."""
    return {
        "seed": seed, "torch_deterministic": True, "cpu_offload": False, "device": "cpu", "optimizer": "adam",
        "anneal_lr": False, "precision": "float32", "total_timesteps": 10**9, "learning_rate": LR, "gamma": GAMMA,
        "gae_lambda": LAMBDA, "update_epochs": EPOCHS, "clip_coef": CLIP, "vf_coef": 0.5, "vf_clip_coef": 10.0,
        "max_grad_norm": 0.5, "ent_coef": 0.0, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-5,
        "data_dir": "experiments", "checkpoint_interval": 10**9, "batch_size": BATCH, "minibatch_size": MINIBATCH,
        "max_minibatch_size": BATCH, "bptt_horizon": HORIZON, "compile": False, "compile_mode": "default",
        "compile_fullgraph": True, "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.0,
        "prio_beta0": 1.0, "use_rnn": False, "name": "bench", "project": "bench", "env": "bench",
    }  # fmt: skip


def main() -> None:
    """Train for some iterations, without the dashboard."""
    peer = Peer()
    torch.set_num_threads(1)

    def build(buf: Any = None, seed: int = 0) -> Any:
        env = pufferlib.EpisodeStats(make_flat(peer.workload))
        return pufferlib.emulation.GymnasiumPufferEnv(env=env, buf=buf, seed=seed)

    parallel = {"backend": "Multiprocessing", "num_workers": WORKERS}
    envs = pufferlib.vector.make(
        build, num_envs=ENVS, **(parallel if peer.arguments.parallel else {"backend": "Serial"})
    )
    pufferl.PuffeRL.print_dashboard = lambda *_, **__: None
    trainer = pufferl.PuffeRL(settings(peer.arguments.seed), envs, Policy(envs, hidden(peer.workload)))
    recent: list[float] = []
    while True:
        trainer.evaluate()
        recent += [float(value) for value in np.ravel(trainer.stats.get("episode_return", []))]
        trainer.stats.clear()
        trainer.train()
        peer.keep(trainer.policy.actor, likeliest_choice)
        if peer.ended(trainer.global_step, float(np.mean(recent[-100:])) if len(recent) >= 100 else None):
            break
    peer.report()
    trainer.utilization.stop()
    envs.close()


if __name__ == "__main__":
    main()
