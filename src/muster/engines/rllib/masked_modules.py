"""Networks of RLlib's that heed action masks: those of PPO and of DQN, with what is forbidden taken out.

Masked observations end with a column for each choice: 1 where it is allowed. The network itself does not see it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns

from muster.policies.distributions import FORBIDDEN


def with_columns(space: spaces.Box, number: int) -> spaces.Box:
    """Return the space of observations that end with so many columns for the mask."""
    low, high = np.zeros(number, np.float32), np.ones(number, np.float32)
    return spaces.Box(np.concatenate([space.low, low]), np.concatenate([space.high, high]), dtype=np.float32)


def _without_columns(space: spaces.Box, actions: gymnasium.Space[Any]) -> spaces.Box:
    number = spaces.flatdim(actions)
    return spaces.Box(space.low[:-number], space.high[:-number], dtype=np.float32)


def _split(batch: dict[str, Any], number: int) -> tuple[dict[str, Any], torch.Tensor]:
    """Return a batch as the network sees it, and which choices are allowed."""
    rows = batch[Columns.OBS]
    allowed = rows[..., -number:] > 0
    # RLlib asks for actions on rows of zeros, too, where an episode has ended; they are thrown away.
    allowed |= ~allowed.any(-1, keepdim=True)
    return {**batch, Columns.OBS: rows[..., :-number]}, allowed


class MaskedPPO(DefaultPPOTorchRLModule):  # type: ignore[misc]
    """PPO's network; what a mask forbids has no probability, when acting and when learning."""

    def __init__(self, *, observation_space: spaces.Box, action_space: gymnasium.Space[Any], **rest: Any) -> None:
        self._number = spaces.flatdim(action_space)
        seen = _without_columns(observation_space, action_space)
        super().__init__(observation_space=seen, action_space=action_space, **rest)
        self.observation_space = observation_space

    def _forward(self, batch: dict[str, Any], **rest: Any) -> dict[str, Any]:
        seen, allowed = _split(batch, self._number)
        return _masked(super()._forward(seen, **rest), allowed)

    def _forward_train(self, batch: dict[str, Any], **rest: Any) -> dict[str, Any]:
        seen, allowed = _split(batch, self._number)
        return _masked(super()._forward_train(seen, **rest), allowed)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """Return the values of observations, which do not depend on the mask."""
        return super().compute_values(_split(batch, self._number)[0], embeddings)


def _masked(outputs: dict[str, Any], allowed: torch.Tensor) -> dict[str, Any]:
    logits = outputs[Columns.ACTION_DIST_INPUTS]
    return {**outputs, Columns.ACTION_DIST_INPUTS: torch.where(allowed, logits, float(FORBIDDEN))}


class ExploringDQN(DefaultDQNTorchRLModule):  # type: ignore[misc]
    """DQN's network; where all values are zero, as for an observation of zeros at first, it explores too.

    RLlib takes a value of exactly zero for a choice that is forbidden, and fails if it finds no other.
    """

    def _qf_forward_helper(self, batch: dict[str, Any], encoder: Any, head: Any) -> dict[str, Any]:
        outputs: dict[str, Any] = super()._qf_forward_helper(batch, encoder, head)
        values = outputs[QF_PREDS]
        return {**outputs, QF_PREDS: values + (values == 0) * torch.finfo(values.dtype).tiny}


class MaskedDQN(ExploringDQN):
    """DQN's network; what a mask forbids is worth minus infinity, which RLlib neither chooses nor explores."""

    def __init__(self, *, observation_space: spaces.Box, action_space: gymnasium.Space[Any], **rest: Any) -> None:
        self._number = spaces.flatdim(action_space)
        seen = _without_columns(observation_space, action_space)
        super().__init__(observation_space=seen, action_space=action_space, **rest)
        self.observation_space = observation_space

    def _qf_forward_helper(self, batch: dict[str, Any], encoder: Any, head: Any) -> dict[str, Any]:
        seen, allowed = _split(batch, self._number)
        outputs: dict[str, Any] = super()._qf_forward_helper(seen, encoder, head)
        return {**outputs, QF_PREDS: torch.where(allowed, outputs[QF_PREDS], -torch.inf)}


OWN = {"DQN": ExploringDQN}
"""The algorithms whose network is not RLlib's own as it is, even without masks."""
MODULES = {"PPO": MaskedPPO, "DQN": MaskedDQN}
"""The algorithms that heed masks, each with its network."""
