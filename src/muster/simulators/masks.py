"""Action masks: which choices the simulator allows, from `info` or from a Dict observation. NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.simulators.describing import MASK, Description, mask_sizes

Array = NDArray[Any]


def mask_in(info: Any) -> Any:
    """Return the mask that `info` holds, or None."""
    return info.get(MASK) if isinstance(info, Mapping) else None


class MaskReader:
    """Reads the mask of one step: true where a choice is allowed, the choices one after another."""

    def __init__(self, observations: Description, actions: Description) -> None:
        self.sizes = mask_sizes(actions)
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(int)
        self.in_observation = "mask" in observations

    def read(self, observation: Any, info: Any) -> Array | None:
        """Return the mask that a reset or step came with; None if it came with none, or its actions take none.

        Raises:
            ValueError: if it does not fit the actions, or allows nothing.
        """
        if not self.sizes:
            return None
        if self.in_observation:
            return self.checked(observation[MASK])
        mask = mask_in(info)
        return None if mask is None else self.checked(mask)

    def checked(self, mask: Any) -> Array:
        """Return a mask as booleans.

        Raises:
            ValueError: if it does not fit the actions, or allows nothing.
        """
        size = sum(self.sizes)
        parts = mask if isinstance(mask, (tuple, list)) and np.ndim(mask[0]) else [mask]
        flat = np.concatenate([np.ravel(part) for part in parts])
        if len(flat) != size:
            raise ValueError(f"{MASK} has {len(flat)} entries; expected {size}, one for each choice")
        allowed: Array = flat.astype(bool)
        if not np.logical_or.reduceat(allowed, self._starts).all():
            raise ValueError(f"{MASK} allows nothing: {flat.tolist()}; expected at least one 1 for each choice")
        return allowed

    def checked_batch(self, masks: Array) -> tuple[Array, Array] | None:
        """Return the masks of a batch as rows of booleans, and which rows allow enough; None if they are no array.

        Raises:
            ValueError: if they do not fit the actions.
        """
        if masks.dtype == object:
            return None
        flat = masks.reshape(len(masks), -1)
        if flat.shape[1] != sum(self.sizes):
            self.checked(flat[0])
        allowed: Array = flat.astype(bool)
        is_good: Array = np.logical_and.reduce(np.logical_or.reduceat(allowed, self._starts, axis=1), axis=1)
        return allowed, is_good


def random_action(space: Any, observation: Any, info: Any) -> Any:
    """Return a random action of a Gymnasium space that the mask of the step, if it came with one, allows.

    Whether a mask fits is judged by who steps the simulator; one that does not is left aside here.
    """
    from gymnasium import spaces

    mask = mask_in(info)
    if mask is None and isinstance(observation, dict):
        mask = observation.get(MASK)
    is_discrete = isinstance(space, spaces.Discrete)
    if mask is None or not (is_discrete or (isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1)):
        return space.sample()
    try:
        parts = mask if isinstance(mask, tuple | list) and len(mask) and np.ndim(mask[0]) else [mask]
        flat = np.concatenate([np.ravel(part) for part in parts]).astype(np.int8)
        if not flat.any():
            return space.sample()
        return space.sample(flat if is_discrete else tuple(np.split(flat, np.cumsum(space.nvec)[:-1])))
    except (TypeError, ValueError, AssertionError):
        return space.sample()
