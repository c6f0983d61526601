"""RLlib's PPO as it comes, with two env runners or none."""

from __future__ import annotations

import logging
import math
from typing import Any

import ray
import torch
from protocol import BATCH, CLIP, ENVS, EPOCHS, GAMMA, LAMBDA, LR, MINIBATCH, WORKERS, Peer, hidden, make_flat
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def likeliest(module: Any, observations: Any) -> Any:
    """Return the likeliest of several choices."""
    with torch.no_grad():
        outputs = module.forward_inference({"obs": torch.as_tensor(observations)})
    return outputs["action_dist_inputs"].argmax(dim=1).numpy()


def main() -> None:
    """Train for some iterations."""
    peer = Peer()
    ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    ray.tune.register_env("workload", lambda _: make_flat(peer.workload))
    layers = hidden(peer.workload)
    config = (
        PPOConfig()
        .environment("workload")
        .env_runners(num_env_runners=WORKERS if peer.arguments.parallel else 0, num_envs_per_env_runner=ENVS)
        .training(
            train_batch_size=BATCH, minibatch_size=MINIBATCH, num_epochs=EPOCHS, lr=LR, gamma=GAMMA,
            lambda_=LAMBDA, clip_param=CLIP, grad_clip=0.5, use_kl_loss=False,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=layers, fcnet_activation="tanh", vf_share_layers=False
            )
        )
    )  # fmt: skip
    algorithm = config.build_algo()
    while True:
        result: dict[str, Any] = algorithm.train()
        runners = result["env_runners"]
        mean = runners.get("episode_return_mean", math.nan)
        steps = int(runners["num_env_steps_sampled_lifetime"])
        peer.keep(algorithm.learner_group._learner.module["default_policy"], likeliest)
        if peer.ended(steps, None if math.isnan(mean) else float(mean)):
            break
    peer.report()


if __name__ == "__main__":
    main()
