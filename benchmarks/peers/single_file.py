"""PPO in one file on vectorised environments, the way CleanRL writes it: plain torch, no framework."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium
import numpy as np
import torch
from protocol import BATCH, CLIP, EPOCHS, GAMMA, LAMBDA, LR, MINIBATCH, Peer, hidden, likeliest_choice, make_flat
from torch import nn


def network(sizes: list[int], gain: float) -> nn.Sequential:
    """Return tanh layers with orthogonal weights."""
    layers: list[nn.Module] = []
    for i, (ins, outs) in enumerate(itertools.pairwise(sizes)):
        linear = nn.Linear(ins, outs)
        last = i == len(sizes) - 2
        nn.init.orthogonal_(linear.weight, gain if last else 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear] if last else [linear, nn.Tanh()]
    return nn.Sequential(*layers)


class Agent(nn.Module):
    """A policy and a value network."""

    def __init__(self, envs: Any, layers: list[int]) -> None:
        super().__init__()
        ins = envs.single_observation_space.shape[0]
        space = envs.single_action_space
        self.discrete = isinstance(space, gymnasium.spaces.Discrete)
        outs = int(space.n) if self.discrete else space.shape[0]
        self.actor = network([ins, *layers, outs], 0.01)
        self.critic = network([ins, *layers, 1], 1.0)
        self.log_std = nn.Parameter(torch.zeros(outs))

    def distribution(self, rows: torch.Tensor) -> torch.distributions.Distribution:
        """Return the distribution of actions."""
        outputs = self.actor(rows)
        if self.discrete:
            return torch.distributions.Categorical(logits=outputs)
        return torch.distributions.Independent(torch.distributions.Normal(outputs, self.log_std.exp()), 1)


def main() -> None:
    """Train for some iterations."""
    peer = Peer()
    torch.set_num_threads(1)
    torch.manual_seed(peer.arguments.seed)
    count = peer.arguments.envs
    builders = [lambda: make_flat(peer.workload)] * count
    kind = gymnasium.vector.AsyncVectorEnv if peer.arguments.parallel else gymnasium.vector.SyncVectorEnv
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        kind(builders, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    )
    agent = Agent(envs, hidden(peer.workload))
    optimizer = torch.optim.Adam(agent.parameters(), lr=LR, eps=1e-5)
    length = BATCH // count
    seen, _ = envs.reset(seed=peer.arguments.seed)
    recent: list[float] = []
    steps = 0
    while True:
        rows, actions, log_probs, rewards, dones, values = [], [], [], [], [], []
        for _ in range(length):
            observations = torch.as_tensor(np.asarray(seen, np.float32))
            with torch.no_grad():
                distribution = agent.distribution(observations)
                action = distribution.sample()
                rows.append(observations)
                actions.append(action)
                log_probs.append(distribution.log_prob(action))
                values.append(agent.critic(observations).flatten())
            seen, reward, terminated, truncated, info = envs.step(action.numpy())
            rewards.append(torch.as_tensor(np.asarray(reward, np.float32)))
            dones.append(torch.as_tensor((terminated | truncated).astype(np.float32)))
            if "episode" in info:
                recent += list(info["episode"]["r"][info["_episode"]])
        steps += BATCH
        with torch.no_grad():
            next_value = agent.critic(torch.as_tensor(np.asarray(seen, np.float32))).flatten()
        gains = [torch.zeros(count)] * length
        last = torch.zeros(count)
        for t in reversed(range(length)):
            live = 1 - dones[t]
            delta = rewards[t] + GAMMA * next_value * live - values[t]
            last = delta + GAMMA * LAMBDA * live * last
            gains[t], next_value = last, values[t]
        learn(agent, optimizer, [torch.cat(part) for part in (rows, actions, log_probs, gains, values)])
        peer.keep(agent.actor, likeliest_choice)
        if peer.ended(steps, float(np.mean(recent[-100:])) if len(recent) >= 100 else None):
            break
    peer.report()
    envs.close()


def learn(agent: Agent, optimizer: torch.optim.Optimizer, batch: list[torch.Tensor]) -> None:
    """Pass over the batch ten times."""
    rows, actions, log_probs, gains, values = batch
    returns = gains + values
    for _ in range(EPOCHS):
        for chosen in torch.randperm(BATCH).split(MINIBATCH):
            distribution = agent.distribution(rows[chosen])
            ratio = (distribution.log_prob(actions[chosen]) - log_probs[chosen]).exp()
            advantage = gains[chosen]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            surrogate = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
            error = (agent.critic(rows[chosen]).flatten() - returns[chosen]).square().mean()
            loss = 0.5 * error - surrogate
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


if __name__ == "__main__":
    main()
