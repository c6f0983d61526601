"""A model of one's own for RLlib: it keeps a fully connected net, and lets that do the work."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


class GearModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]
    """Policy and value from two nets of `[model] hidden` layers; the observation arrives as one row."""

    def setup(self) -> None:
        """Build the nets for the spaces that RLlib tells."""
        super().setup()
        num_inputs = self.observation_space.shape[0]
        self.policy_net = self._fully_connected(num_inputs, int(self.action_space.n))
        self.value_net = self._fully_connected(num_inputs, 1)

    def _fully_connected(self, num_inputs: int, num_outputs: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for size in self.model_config["fcnet_hiddens"]:
            layers += [nn.Linear(num_inputs, size), ACTIVATIONS[self.model_config["fcnet_activation"]]()]
            num_inputs = size
        return nn.Sequential(*layers, nn.Linear(num_inputs, num_outputs))

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Tensor]:
        return {Columns.ACTION_DIST_INPUTS: self.policy_net(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the value of each observation."""
        values: Tensor = self.value_net(batch[Columns.OBS])
        return values.squeeze(-1)
