"""Actions as JSON holds them, there and back."""

from __future__ import annotations

import json

import numpy as np
from gymnasium import spaces

from muster.simulators.plain_actions import action_of, plain


def test_every_action_comes_back_as_it_was() -> None:
    space = spaces.Dict(
        {
            "gear": spaces.Discrete(3, start=1),
            "valves": spaces.Tuple([spaces.Box(-1, 1, (2, 2)), spaces.MultiBinary(3)]),
            "modes": spaces.MultiDiscrete([2, 3]),
        }
    )
    space.seed(0)
    for _ in range(20):
        action = space.sample()
        again = action_of(space, json.loads(json.dumps(plain(action))))
        assert space.contains(again)
        assert again["gear"] == action["gear"]
        assert isinstance(again["valves"], tuple)
        for part, other in [
            *zip(again["valves"], action["valves"], strict=True),
            (again["modes"], action["modes"]),
        ]:
            assert part.dtype == other.dtype
            np.testing.assert_array_equal(part, other)
