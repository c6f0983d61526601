"""Tianshou's PPO."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from protocol import BATCH, CLIP, ENVS, EPOCHS, GAMMA, LAMBDA, LR, MINIBATCH, Peer, hidden, make_flat
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic


def build(workload: str) -> PPO:
    """Return the algorithm with networks of the common size."""
    env = make_flat(workload)
    observations, actions = env.observation_space.shape, env.action_space
    layers = hidden(workload)
    nets = [Net(state_shape=observations, hidden_sizes=layers, activation=torch.nn.Tanh) for _ in range(2)]
    discrete = isinstance(actions, gymnasium.spaces.Discrete)
    if discrete:
        actor: Any = DiscreteActor(preprocess_net=nets[0], action_shape=int(actions.n), softmax_output=False)
        critic: Any = DiscreteCritic(preprocess_net=nets[1])

        def distribution(logits: Any) -> Any:
            return torch.distributions.Categorical(logits=logits)
    else:
        actor = ContinuousActorProbabilistic(preprocess_net=nets[0], action_shape=actions.shape, unbounded=True)
        critic = ContinuousCritic(preprocess_net=nets[1])

        def distribution(loc_scale: Any) -> Any:
            return torch.distributions.Independent(torch.distributions.Normal(*loc_scale), 1)

    policy = ProbabilisticActorPolicy(
        actor=actor, dist_fn=distribution, action_space=actions, action_scaling=not discrete
    )
    return PPO(
        policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=LR), eps_clip=CLIP, vf_coef=0.5, ent_coef=0.0,
        max_grad_norm=0.5, gae_lambda=LAMBDA, gamma=GAMMA, max_batchsize=BATCH,
    )  # fmt: skip


def likeliest(actor: Any, observations: Any) -> Any:
    """Return the likeliest of several choices."""
    with torch.no_grad():
        return actor(observations)[0].argmax(dim=1).numpy()


def main() -> None:
    """Train for some iterations: collect a batch, then update, as its trainer does."""
    peer = Peer()
    torch.set_num_threads(1)
    vector = SubprocVectorEnv if peer.arguments.parallel else DummyVectorEnv
    envs = vector([lambda: make_flat(peer.workload)] * ENVS)
    algorithm = build(peer.workload)
    buffer = VectorReplayBuffer(BATCH, ENVS)
    collector: Collector[CollectStats] = Collector(algorithm, envs, buffer)
    collector.reset()
    steps, recent = 0, []
    from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

    while True:
        with policy_within_training_step(algorithm.policy):
            collected = collector.collect(n_step=BATCH)
            with torch_train_mode(algorithm):
                algorithm.update(buffer, batch_size=MINIBATCH, repeat=EPOCHS)
        collector.reset_buffer(keep_statistics=True)
        steps += collected.n_collected_steps
        recent += list(collected.returns)
        peer.keep(algorithm.policy.actor, likeliest)
        if peer.ended(steps, float(np.mean(recent[-100:])) if len(recent) >= 100 else None):
            break
    peer.report()
    envs.close()


if __name__ == "__main__":
    main()
