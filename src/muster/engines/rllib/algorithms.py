"""RLlib's algorithms that muster runs: where each lives, what it can act with, and which figures it gives."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

_ANY_ACTIONS = ("discrete", "multi_discrete", "box")
_LEARNING_RATE = {"learner/lr": "default_optimizer_learning_rate"}
_GRADIENT = {"learner/grad_norm": "gradients_default_optimizer_global_norm"}
_SOFT_ACTOR_CRITIC = {
    "policy/loss": "policy_loss",
    "policy/entropy_weight": "alpha_value",
    "value/loss": "qf_loss",
    "value/mean": "qf_mean",
}


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of RLlib's.

    `replays` tells whether it learns from old experience; `steps` is what an iteration has at least (None: the
    training batch). `figures` maps the columns of the record to RLlib's names of the learner's figures.
    """

    package: str
    actions: tuple[str, ...]
    replays: bool
    steps: int | None
    figures: dict[str, str] = field(default_factory=dict)
    is_asynchronous: bool = False

    def new_config(self, name: str) -> Any:
        """Return RLlib's config of this algorithm with its defaults."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = import_module(f"ray.rllib.algorithms.{self.package}")
        return getattr(module, f"{name}Config")()


_POLICY_GRADIENT = {
    "policy/loss": "policy_loss",
    "policy/kl": "mean_kl_loss",
    "policy/entropy": "entropy",
    "value/loss": "vf_loss",
    "value/explained_variance": "vf_explained_var",
    **_GRADIENT,
    **_LEARNING_RATE,
    "learner/kl_coeff": "curr_kl_coeff",
}

ALGORITHMS = {
    "PPO": Algorithm("ppo", _ANY_ACTIONS, False, None, _POLICY_GRADIENT),
    "APPO": Algorithm(
        "appo",
        _ANY_ACTIONS,
        False,
        2000,
        {"policy/loss": "policy_loss", "policy/entropy": "entropy", "value/loss": "vf_loss"}
        | {"policy/kl": "mean_kl_loss", **_GRADIENT, **_LEARNING_RATE},
        is_asynchronous=True,
    ),
    "IMPALA": Algorithm(
        "impala",
        _ANY_ACTIONS,
        False,
        2000,
        {"policy/loss": "mean_pi_loss", "policy/entropy": "entropy", "value/loss": "mean_vf_loss"}
        | {**_GRADIENT, **_LEARNING_RATE},
        is_asynchronous=True,
    ),
    "DQN": Algorithm(
        "dqn",
        ("discrete",),
        True,
        1000,
        {"value/loss": "qf_loss", "value/mean": "qf_mean", "value/td_error": "td_error_mean"}
        | {**_GRADIENT, **_LEARNING_RATE},
    ),
    "SAC": Algorithm("sac", ("box", "discrete"), True, 1000, _SOFT_ACTOR_CRITIC),
    "TQC": Algorithm("tqc", ("box",), True, 1000, _SOFT_ACTOR_CRITIC),
    "DreamerV3": Algorithm(
        "dreamerv3",
        ("discrete", "box"),
        True,
        200,
        {"world/loss": "WORLD_MODEL_L_total", "policy/loss": "ACTOR_L_total", "value/loss": "CRITIC_L_total"},
    ),
}
