"""Images with channels before or after height and width are the same to a network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from muster.policies.convolution import ConvolutionalNetwork
from muster.simulators.describing import is_channels_first


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4, 84, 84), True),
        ((3, 7, 7), True),
        ((16, 64, 96), True),
        ((1, 8, 8), True),
        ((84, 84, 4), False),
        ((7, 7, 3), False),
        ((3, 3, 3), False),
        ((17, 64, 64), False),
        ((84, 84), False),
    ],
)
def test_which_images_have_their_channels_first(shape: tuple[int, ...], expected: bool) -> None:
    assert is_channels_first(shape) is expected


@pytest.mark.parametrize("size", [12, 40])
def test_the_order_of_channels_changes_no_output(size: int) -> None:
    networks = []
    for shape in ((size, size + 2, 4), (4, size, size + 2)):
        torch.manual_seed(0)
        config: dict[str, Any] = {"images": [(2, shape)], "hidden": [8], "activation": "tanh"}
        networks.append(ConvolutionalNetwork((2 + int(np.prod(shape)),), 3, config))
    images = np.random.default_rng(0).random((5, size, size + 2, 4), dtype=np.float32)
    rest = np.ones((5, 2), np.float32)
    with torch.no_grad():
        last, first = (
            network(torch.from_numpy(np.concatenate([rest, pixels.reshape(5, -1)], axis=1)))
            for network, pixels in zip(networks, (images, np.moveaxis(images, 3, 1)), strict=True)
        )
    for one, other in zip(last, first, strict=True):
        torch.testing.assert_close(one, other)
