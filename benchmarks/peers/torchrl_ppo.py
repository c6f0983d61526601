"""TorchRL's PPO: its collector, advantage and loss modules."""

from __future__ import annotations

from typing import Any

import numpy as np
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
    Peer,
    hidden,
    likeliest_choice,
    make_flat,
)
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import GymWrapper, ParallelEnv, RewardSum, SerialEnv, TransformedEnv
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE


def build(peer: Peer) -> tuple[Any, Any, Any]:
    """Return environments, policy and value network."""
    kind = ParallelEnv if peer.arguments.parallel else SerialEnv
    envs = TransformedEnv(kind(ENVS, lambda: GymWrapper(make_flat(peer.workload))), RewardSum())
    layers = hidden(peer.workload)
    ins = envs.observation_spec["observation"].shape[-1]
    discrete = not peer.workload.startswith("pendulum")
    outs = envs.action_spec.shape[-1]
    kwargs: dict[str, Any] = {"num_cells": layers, "activation_class": torch.nn.Tanh}
    net = MLP(in_features=ins, out_features=outs if discrete else 2 * outs, **kwargs)
    if discrete:
        module = TensorDictModule(net, ["observation"], ["logits"])
        actor = ProbabilisticActor(
            module, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True,
            spec=envs.full_action_spec_unbatched,
        )  # fmt: skip
    else:
        both = torch.nn.Sequential(net, NormalParamExtractor())
        module = TensorDictModule(both, ["observation"], ["loc", "scale"])
        actor = ProbabilisticActor(
            module, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True,
            spec=envs.full_action_spec_unbatched, distribution_kwargs={"low": -2.0, "high": 2.0},
        )  # fmt: skip
    critic = ValueOperator(MLP(in_features=ins, out_features=1, **kwargs), in_keys=["observation"])
    return envs, actor, critic


def main() -> None:
    """Train for some iterations."""
    peer = Peer()
    torch.set_num_threads(1)
    envs, actor, critic = build(peer)
    collector = Collector(envs, actor, frames_per_batch=BATCH, total_frames=-1)
    advantage = GAE(gamma=GAMMA, lmbda=LAMBDA, value_network=critic, average_gae=False)
    loss = ClipPPOLoss(
        actor, critic, clip_epsilon=CLIP, entropy_bonus=False, critic_coeff=0.5, normalize_advantage=True
    )
    optimizer = torch.optim.Adam(loss.parameters(), lr=LR)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(BATCH), sampler=SamplerWithoutReplacement(), batch_size=MINIBATCH
    )
    steps, recent = 0, []
    for data in collector:
        with torch.no_grad():
            advantage(data)
        ended = data["next", "done"].flatten()
        recent += data["next", "episode_reward"].flatten()[ended].tolist()
        steps += data.numel()
        buffer.extend(data.reshape(-1))
        for _ in range(EPOCHS):
            for _ in range(BATCH // MINIBATCH):
                values = loss(buffer.sample())
                total = values["loss_objective"] + values["loss_critic"]
                optimizer.zero_grad()
                total.backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        buffer.empty()
        collector.update_policy_weights_()
        peer.keep(actor.module[0], likeliest_choice)
        if peer.ended(steps, float(np.mean(recent[-100:])) if len(recent) >= 100 else None):
            break
    peer.report()
    collector.shutdown()


if __name__ == "__main__":
    main()
