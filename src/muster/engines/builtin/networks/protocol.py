"""What sampling and learning ask of a policy and value network, in NumPy or torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muster.policies import Policy
from muster.policies.distributions import AnyDistribution
from muster.policies.interface import Interface

Array = NDArray[Any]

PullBack = Callable[[Array, Array, Any], None]
"""Called with gradients at outputs `[B, num_outputs]` and values `[B]`, and the parts to write the result to."""


class Networks(Protocol):
    """A policy and a value network whose parameters are one flat vector."""

    @property
    def distribution(self) -> AnyDistribution:
        """The distribution that the policy's outputs parametrise."""

    @property
    def num_parameters(self) -> int:
        """Length of the flat vector."""

    def policy_with(self, parameters: Array, interface: Interface) -> Policy:
        """Return the policy with these parameters, at an interface to the simulator."""

    def initial(self, rng: np.random.Generator) -> Array:
        """Return initial parameters."""

    def split(self, flat: Array) -> Any:
        """Return the parts of a flat vector, as the other methods take them, without a copy."""

    def policy_outputs(self, parts: Any, rows: Array) -> Array:
        """Return the outputs that the distribution reads, `[B, num_outputs]`."""

    def values(self, parts: Any, rows: Array) -> Array:
        """Return the value of each row, `[B]`."""

    def differentiate(self, parts: Any, rows: Array) -> tuple[Array, Array, PullBack]:
        """Return outputs and values, and the function that propagates gradients at them back to the parameters."""
