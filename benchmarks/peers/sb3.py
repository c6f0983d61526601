"""Stable-Baselines3's PPO, and sb3-contrib's TRPO."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from protocol import BATCH, CLIP, EPOCHS, GAMMA, LAMBDA, LR, MINIBATCH, Peer, hidden
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from benchmarks import workloads


class Clock(BaseCallback):
    """Notes the end of each iteration: sampling begins anew when learning has ended."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.peer = peer
        self.stop = False

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            buffer = self.model.ep_info_buffer
            mean = float(np.mean([info["r"] for info in buffer])) if buffer and len(buffer) >= 100 else None
            self.peer.keep(self.model.policy.state_dict(), self._likeliest)
            self.stop = self.peer.ended(self.num_timesteps, mean)

    def _likeliest(self, weights: Any, observations: Any) -> Any:
        self.model.policy.load_state_dict(weights)
        return self.model.policy.predict(observations, deterministic=True)[0]

    def _on_step(self) -> bool:
        return not self.stop


def main() -> None:
    """Train for some iterations."""
    peer = Peer()
    torch.set_num_threads(1)

    def build() -> Any:
        from stable_baselines3.common.monitor import Monitor

        return Monitor(workloads.make(peer.workload))

    vector = SubprocVecEnv if peer.arguments.parallel else DummyVecEnv
    envs = vector([build] * peer.arguments.envs)
    policy: dict[str, Any] = {"net_arch": hidden(peer.workload), "activation_fn": torch.nn.Tanh}
    common: dict[str, Any] = {"gamma": GAMMA, "gae_lambda": LAMBDA, "policy_kwargs": policy, "device": "cpu"}
    steps = BATCH // peer.arguments.envs
    if peer.arguments.algorithm == "trpo":
        from sb3_contrib import TRPO

        model: Any = TRPO(
            "MlpPolicy", envs, n_steps=steps, batch_size=MINIBATCH, n_critic_updates=EPOCHS, learning_rate=LR,
            cg_max_steps=10, **common,
        )  # fmt: skip
    else:
        model = PPO(
            "MlpPolicy", envs, n_steps=steps, batch_size=MINIBATCH, n_epochs=EPOCHS, learning_rate=LR,
            clip_range=CLIP, **common,
        )  # fmt: skip
    model.learn((peer.iterations + 2) * BATCH, callback=Clock(peer))
    peer.report()
    envs.close()


if __name__ == "__main__":
    main()
