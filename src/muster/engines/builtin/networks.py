"""What sampling and PPO ask of a policy and value network, whichever computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.policies import Policy
from muster.policies.acting import Interface
from muster.policies.distributions import AnyDistribution

Array = NDArray[Any]

PullBack = Callable[[Array, Array, Any], None]
"""Takes gradients at the outputs `[B, num_outputs]` and the values `[B]`, and the parts to write theirs to."""


class Networks(Protocol):
    """A policy and a value network whose parameters are one flat vector."""

    @property
    def distribution(self) -> AnyDistribution:
        """What the policy's outputs mean."""

    @property
    def num_parameters(self) -> int:
        """Length of the flat vector."""

    def policy_with(self, parameters: Array, interface: Interface) -> Policy:
        """Return the policy that these parameters are, at an interface to the simulator."""

    def initial(self, rng: np.random.Generator) -> Array:
        """Return first parameters."""

    def split(self, flat: Array) -> Any:
        """Return the parts of a flat vector, as the other methods take them, without a copy."""

    def policy_outputs(self, parts: Any, rows: Array) -> Array:
        """Return the outputs that the distribution reads, `[B, num_outputs]`."""

    def values(self, parts: Any, rows: Array) -> Array:
        """Return the value of each row, `[B]`."""

    def differentiate(self, parts: Any, rows: Array) -> tuple[Array, Array, PullBack]:
        """Return outputs and values, and what carries gradients at them back to parts of a flat vector."""
