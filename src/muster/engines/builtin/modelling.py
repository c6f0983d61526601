"""Which network a group computes with, and how it explores: plain data, so that any worker can build its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from muster.engines.builtin.actor_critic import ActorCritic
from muster.engines.builtin.exploration import Exploration, IndependentExploration, StateDependentExploration
from muster.engines.builtin.networks import Networks
from muster.policies.distributions import distribution_for
from muster.simulators.describing import Description
from muster.simulators.encoding import ObservationEncoder

if TYPE_CHECKING:
    from muster.policies.torch_model import TorchModel


@dataclass(frozen=True)
class Task:
    """What is to be learned, and with what: the simulator's spaces, and the network between them."""

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
            from muster.engines.builtin.torch_networks import TorchNetworks

            return TorchNetworks(self.torch_model, distribution, self.log_std_init)
        size = ObservationEncoder(observations).size
        networks = ActorCritic.create(size, distribution, list(self.hidden), self.activation)
        return replace(networks, state_dependent=self.use_sde, log_std_init=self.log_std_init)

    def exploration(self, networks: Networks) -> Exploration:
        """Return how actions are drawn from what these networks put out."""
        if self.use_sde:
            assert isinstance(networks, ActorCritic)
            return StateDependentExploration(networks, self.sde_sample_freq)
        return IndependentExploration(networks)
