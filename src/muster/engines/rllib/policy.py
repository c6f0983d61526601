"""The policy that RLlib trained: encoding, scale and RLModule, saved without pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from muster.engines.rllib.config import Subject, make_model_config, quieten
from muster.engines.rllib.spaces import ObservationCoder, decode_action
from muster.experiment.schema import Experiment
from muster.policies.policy import ARRAYS_FILE, write_policy
from muster.policies.scale import Scale
from muster.simulators.describing import MASK
from muster.simulators.masks import MaskReader

Array = NDArray[Any]

KIND = "rllib"
_AFTER_ALL_EXPLORATION = 10**12
_WEIGHTS, _MEAN, _STD = "weights/", "observations/mean", "observations/std"


@dataclass(repr=False)
class RLlibPolicy:
    """What acts: the same encoding, scale, connectors and module as in training."""

    subject: Subject
    weights: dict[str, Array]
    scale: Scale | None
    _episode: SingleAgentEpisode | None = field(default=None, init=False, repr=False)

    def __repr__(self) -> str:
        return f"RLlibPolicy({self.subject.experiment.algorithm.name})"

    def __post_init__(self) -> None:
        quieten()
        self._coder = ObservationCoder(self.subject.observations)
        self._masks = MaskReader(self.subject.observations, self.subject.actions)
        config = make_model_config(self.subject)
        pair = self.subject.spaces
        spaces = {INPUT_ENV_SPACES: pair, INPUT_ENV_SINGLE_SPACES: pair, DEFAULT_MODULE_ID: pair}
        self._module = config.get_rl_module_spec(spaces=spaces, inference_only=True).build()
        self._module.set_state(self.weights)
        self._to_module = config.build_env_to_module_connector(env=None, spaces=spaces, device=None)
        self._to_env = config.build_module_to_env_connector(env=None, spaces=spaces)
        self._extra: dict[str, Any] = {}
        self._action: Any = None

    def begin_episode(self) -> None:
        """Forget the episode before, where the module has a memory."""
        self._episode = None

    def act(
        self,
        observation: Any,
        *,
        mask: Any = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """Return the action for one observation, as the simulator's `step` takes it.

        The mask is heeded by a policy that was trained with masks.
        """
        row = self._coder.encode(observation)
        if self.scale is not None:
            row = self.scale.apply(row, np.empty_like(row))
        if self.subject.is_masked:
            row = np.concatenate([row, self._columns(observation, mask)], dtype=np.float32)
        episode = self._continued(row)
        shared: dict[str, Any] = {}
        common = {"rl_module": self._module, "episodes": [episode], "shared_data": shared}
        with torch.random.fork_rng(), torch.no_grad():
            if not deterministic:
                torch.manual_seed(int((rng or np.random.default_rng()).integers(2**31)))
            batch = self._to_module(batch={}, explore=not deterministic, **common)
            if deterministic:
                outputs = self._module.forward_inference(batch)
            else:
                outputs = self._module.forward_exploration(batch, t=_AFTER_ALL_EXPLORATION)
            outputs = self._to_env(batch=outputs, explore=not deterministic, **common)
        self._action = outputs.pop(Columns.ACTIONS)[0]
        chosen = outputs.pop(Columns.ACTIONS_FOR_ENV, [self._action])[0]
        self._extra = {name: values[0] for name, values in outputs.items()}
        return decode_action(self.subject.actions, chosen)

    def _columns(self, observation: Any, mask: Any) -> Array:
        """Return the mask as the columns with which the network's observations end."""
        if self._masks.in_observation:
            mask = observation[MASK]
        return np.ones(sum(self._masks.sizes)) if mask is None else self._masks.checked(mask)

    def _continued(self, row: Array) -> SingleAgentEpisode:
        """Return the episode up to this observation; a module without a memory needs no more than that."""
        if self._episode is None or not self._module.is_stateful():
            observations, actions = self.subject.spaces
            self._episode = SingleAgentEpisode(
                observations=[row], observation_space=observations, action_space=actions, len_lookback_buffer=0
            )
        else:
            self._episode.add_env_step(row, self._action, 0.0, extra_model_outputs=self._extra)
        return self._episode

    def save(self, folder: Path) -> None:
        """Write `policy.json` and `policy.npz` into a folder."""
        experiment = self.subject.experiment.as_table()
        env = {"id": experiment["env"]["id"], "paths": experiment["env"]["paths"]}
        description = {
            "kind": KIND,
            "format": 1,
            "observations": self.subject.observations,
            "actions": self.subject.actions,
            "masked": self.subject.is_masked,
            "experiment": {"env": env, "algorithm": experiment["algorithm"], "model": experiment["model"]},
        }
        arrays = {_WEIGHTS + name: array for name, array in self.weights.items()}
        if self.scale is not None:
            arrays |= {_MEAN: self.scale.mean, _STD: self.scale.std}
        write_policy(folder, description, arrays)


def load(folder: Path, description: dict[str, Any]) -> RLlibPolicy:
    """Load the policy that a folder's description tells of."""
    with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
        arrays = dict(file)
    weights = {name.removeprefix(_WEIGHTS): array for name, array in arrays.items() if name.startswith(_WEIGHTS)}
    scale = Scale(arrays[_MEAN], arrays[_STD]) if _MEAN in arrays else None
    experiment = Experiment.model_validate(description["experiment"])
    subject = Subject(
        experiment, description["observations"], description["actions"], description.get("masked", False)
    )
    return RLlibPolicy(subject, weights, scale)
