"""Which network a group computes with, and how it explores: plain data, so that any worker can build its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from muster.engines.builtin.networks.actor_critic import ActorCritic
from muster.engines.builtin.networks.exploration import (
    Exploration,
    IndependentExploration,
    StateDependentExploration,
)
from muster.engines.builtin.networks.protocol import Networks
from muster.engines.builtin.networks.row_formats import RowFormat, row_format
from muster.policies.distributions import distribution_for
from muster.simulators.describing import Description
from muster.simulators.encoding import ObservationEncoder

if TYPE_CHECKING:
    from muster.policies.torch_model import TorchModel


@dataclass(frozen=True)
class Task:
    """What is learned: the simulator's spaces, and the network between them."""

    observations: Description
    actions: Description
    model: ModelSettings


@dataclass(frozen=True)
class ModelSettings:
    """The built-in network's shape, or a torch model in its place; torch is imported only for the latter."""

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    torch_model: TorchModel | None = None
    log_std_init: float | None = None
    use_sde: bool = False
    sde_sample_freq: int | None = None

    def networks(self, observations: Description, actions: Description) -> Networks:
        """Return the networks for these spaces."""
        distribution = distribution_for(actions)
        if self.torch_model is not None:
            from muster.engines.builtin.networks.torch_networks import TorchNetworks

            return TorchNetworks(self.torch_model, distribution, self.log_std_init)
        size = ObservationEncoder(observations).size
        networks = ActorCritic.create(size, distribution, list(self.hidden), self.activation)
        return replace(networks, state_dependent=self.use_sde, log_std_init=self.log_std_init)

    def row_format(self, observations: Description) -> RowFormat:
        """Return the format of the rows that these networks read."""
        return row_format(observations, takes_columns=self.torch_model is None)

    def exploration(self, networks: Networks) -> Exploration:
        """Return how actions are drawn from the outputs of these networks."""
        if self.use_sde:
            assert isinstance(networks, ActorCritic)
            return StateDependentExploration(networks, self.sde_sample_freq)
        return IndependentExploration(networks)
