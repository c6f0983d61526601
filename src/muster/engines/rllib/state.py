"""All that RLlib's learning changes, taken out and put back: also what RLlib's own checkpoints leave out.

Those lose PPO's KL coefficient and SAC's entropy weight, attributes of the learner, and the replay buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray.cloudpickle as pickle
import torch
from numpy.typing import NDArray
from ray.rllib.core import (
    COMPONENT_LEARNER,
    COMPONENT_LEARNER_GROUP,
    COMPONENT_METRICS_LOGGER,
    COMPONENT_RL_MODULE,
    DEFAULT_MODULE_ID,
)

from muster.engines.moments import Moments
from muster.errors import CheckpointError

Array = NDArray[Any]

STATE_FILE = "rllib.pkl"
REPLAY_FILE = "replay.pkl"

_LEARNER_ATTRIBUTES = ("curr_kl_coeffs_per_module", "curr_log_alpha")


@dataclass(frozen=True)
class Captured:
    """The state after an iteration: RLlib's, pickled since it changes in place; the policy's weights; scales."""

    pickled: bytes
    policy: dict[str, Array]
    is_finite: bool
    observations: Moments
    returns: Moments

    def write(self, folder: Path) -> None:
        """Write the training state into a folder."""
        values = {"rllib": self.pickled, "observations": self.observations, "returns": self.returns}
        (folder / STATE_FILE).write_bytes(pickle.dumps(values))


def capture(algorithm: Any, observations: Moments, returns: Moments) -> Captured:
    """Take all state out of an algorithm."""
    state = algorithm.get_state()
    weights = state[COMPONENT_LEARNER_GROUP][COMPONENT_LEARNER][COMPONENT_RL_MODULE]
    policy = algorithm.learner_group.get_state(
        components=f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}", inference_only=True
    )[COMPONENT_LEARNER][COMPONENT_RL_MODULE][DEFAULT_MODULE_ID]
    attributes = algorithm.learner_group.foreach_learner(_read_attributes).result_or_errors[0].get()
    return Captured(
        pickle.dumps({"algorithm": state, "attributes": attributes}),
        {name: np.array(array) for name, array in policy.items()},
        all(np.isfinite(array).all() for module in weights.values() for array in _arrays(module)),
        observations,
        returns,
    )


def read(folder: Path) -> dict[str, Any]:
    """Read the training state of a checkpoint.

    Raises:
        CheckpointError: if it is another engine's.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        raise CheckpointError(
            f"{folder}: not a checkpoint of RLlib's\n    take one of a run that was trained with --engine rllib"
        )
    values: dict[str, Any] = pickle.loads(path.read_bytes())
    return values


def restore(algorithm: Any, values: dict[str, Any]) -> None:
    """Put a saved state into a new algorithm, whatever its number of env runners."""
    saved = pickle.loads(values["rllib"])
    # RLlib tells its env runners the step count of the metrics, so these must come first.
    algorithm.metrics.set_state(saved["algorithm"][COMPONENT_METRICS_LOGGER])
    algorithm.set_state(saved["algorithm"])
    attributes = saved["attributes"]
    algorithm.learner_group.foreach_learner(lambda learner: _write_attributes(learner, attributes))


def restore_weights(algorithm: Any, values: dict[str, Any], source: Path) -> None:
    """Put the weights alone into a new algorithm.

    Raises:
        CheckpointError: if they are another network's.
    """
    saved = pickle.loads(values["rllib"])["algorithm"]
    weights = saved[COMPONENT_LEARNER_GROUP][COMPONENT_LEARNER][COMPONENT_RL_MODULE]
    current = algorithm.learner_group.get_state(components=f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}")
    current = current[COMPONENT_LEARNER][COMPONENT_RL_MODULE]
    if _shapes(weights) != _shapes(current):
        raise CheckpointError(
            f"{source}: its network does not fit this experiment's spaces and [model]\n"
            "    take a checkpoint of the same simulator and algorithm, with the same model.hidden"
        )
    algorithm.learner_group.foreach_learner(lambda learner: learner.module.set_state(weights))
    algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=algorithm.learner_group)


def replay_buffer(algorithm: Any) -> Any:
    """Return an algorithm's replay buffer, or None if it has none."""
    return getattr(algorithm, "replay_buffer", None) or algorithm.local_replay_buffer


def write_replay(algorithm: Any, folder: Path) -> None:
    """Write what was experienced into a checkpoint."""
    if (buffer := replay_buffer(algorithm)) is not None:
        (folder / REPLAY_FILE).write_bytes(pickle.dumps(buffer.get_state()))


def read_replay(algorithm: Any, folder: Path) -> None:
    """Put a checkpoint's experience back, if it holds any."""
    if (path := folder / REPLAY_FILE).is_file():
        replay_buffer(algorithm).set_state(pickle.loads(path.read_bytes()))


def _read_attributes(learner: Any) -> dict[str, dict[str, float]]:
    found = {name: getattr(learner, name, {}) for name in _LEARNER_ATTRIBUTES}
    return {name: {key: float(value.detach()) for key, value in table.items()} for name, table in found.items()}


def _write_attributes(learner: Any, attributes: dict[str, dict[str, float]]) -> None:
    """Fill the learner's variables in place: its optimisers hold on to them."""
    for name, table in attributes.items():
        for key, value in table.items():
            variable = getattr(learner, name)[key]
            with torch.no_grad():
                variable.fill_(value)


def _arrays(module: dict[str, Any]) -> list[Array]:
    return [np.asarray(array) for array in module.values() if np.asarray(array).dtype.kind == "f"]


def _shapes(weights: dict[str, dict[str, Any]]) -> dict[str, dict[str, tuple[int, ...]]]:
    return {name: {key: np.shape(array) for key, array in module.items()} for name, module in weights.items()}
