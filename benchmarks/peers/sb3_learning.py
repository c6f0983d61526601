"""What Stable-Baselines3 and sb3-contrib learn in a task, with their defaults or the Zoo's hyperparameters."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import TRPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

WIDE = {"log_std_init": -2, "ortho_init": False, "activation_fn": torch.nn.ReLU, "net_arch": [256, 256]}
TRPO_ZOO = {"batch_size": 128, "n_steps": 1024, "cg_max_steps": 25, "n_critic_updates": 20, "learning_rate": 1e-3}
ZOO: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {
    ("ppo", "Hopper-v5"): (
        1,
        {
            "batch_size": 32, "n_steps": 512, "gamma": 0.999, "learning_rate": 9.80828e-05, "ent_coef": 0.00229519,
            "clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99, "max_grad_norm": 0.7, "vf_coef": 0.835671,
            "policy_kwargs": WIDE,
        },
    ),
    ("ppo", "HalfCheetah-v5"): (
        1,
        {
            "batch_size": 64, "n_steps": 512, "gamma": 0.98, "learning_rate": 2.0633e-05, "ent_coef": 0.000401762,
            "clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92, "max_grad_norm": 0.8, "vf_coef": 0.58096,
            "policy_kwargs": WIDE,
        },
    ),
    ("ppo", "Walker2d-v5"): (
        1,
        {
            "batch_size": 32, "n_steps": 512, "gamma": 0.99, "learning_rate": 5.05041e-05, "ent_coef": 0.000585045,
            "clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.95, "max_grad_norm": 1, "vf_coef": 0.871923,
        },
    ),
    ("trpo", "Hopper-v5"): (2, TRPO_ZOO),
    ("trpo", "HalfCheetah-v5"): (2, {**TRPO_ZOO, "target_kl": 0.04}),
    ("trpo", "Walker2d-v5"): (2, TRPO_ZOO),
}  # fmt: skip
"""Number of simulators and hyperparameters, by algorithm and task, from the Zoo's files for the older versions."""


class Curve(BaseCallback):
    """Notes steps and the mean return of the last 100 episodes at the end of each rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[int, float]] = []

    def _on_rollout_end(self) -> None:
        if buffer := self.model.ep_info_buffer:
            self.points.append((self.num_timesteps, float(np.mean([info["r"] for info in buffer]))))

    def _on_step(self) -> bool:
        return True


def main() -> None:
    """Train, evaluate the last policy deterministically, and print both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    parser.add_argument("--algorithm", choices=("ppo", "trpo"), default="ppo")
    parser.add_argument("--settings", choices=("defaults", "zoo"), default="defaults")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    count, settings = 1, {}
    if arguments.settings == "zoo":
        count, settings = ZOO[arguments.algorithm, arguments.task]
    envs = VecNormalize(
        DummyVecEnv([lambda: Monitor(gymnasium.make(arguments.task))] * count), gamma=settings.get("gamma", 0.99)
    )
    algorithm = PPO if arguments.algorithm == "ppo" else TRPO
    model = algorithm("MlpPolicy", envs, seed=arguments.seed, device="cpu", **settings)
    curve, began = Curve(), time.process_time()
    model.learn(arguments.steps, callback=curve)
    seconds = time.process_time() - began
    envs.training = False
    env, returns = gymnasium.make(arguments.task), []
    for episode in range(arguments.episodes):
        observation, _ = env.reset(seed=10_000 + episode)
        total, over = 0.0, False
        while not over:
            action, _ = model.predict(envs.normalize_obs(observation), deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    print(json.dumps({"curve": curve.points, "latest": float(np.mean(returns)), "seconds": seconds}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
