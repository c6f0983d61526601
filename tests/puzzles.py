"""Tasks that only an agent with the right encoding can solve: ten steps, a reward of at most 1 for each.

At every step a number from 0 to 3 is hidden in the observation, in a way that needs all of its parts, and the
action must say which.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 10
NUMBERS = 4


class Puzzle(gymnasium.Env[Any, Any]):
    """Shows the number plainly and takes it plainly; the others hide it, or want it, in another way."""

    def __init__(self) -> None:
        self.observation_space: Any = spaces.Discrete(NUMBERS)
        self.action_space: Any = spaces.Discrete(NUMBERS)
        self.number, self.steps = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._next()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not an action of {self.action_space}")
        reward = self._reward(action)
        self.steps += 1
        observation, info = self._next()
        return observation, reward, self.steps == LENGTH, False, info

    def _next(self) -> tuple[Any, dict[str, Any]]:
        self.number = int(self.np_random.integers(NUMBERS))
        high, low = divmod(self.number, 2)
        observation = self._show(high, low)
        return observation, self._info()

    def _show(self, high: int, low: int) -> Any:
        return self.number

    def _info(self) -> dict[str, Any]:
        return {}

    def _reward(self, action: Any) -> float:
        return float(action == self.number)

    def _noise(self, *shape: int) -> Any:
        return self.np_random.normal(size=shape).astype(np.float32)


class InDict(Puzzle):
    """One half is a choice, the other the sign of a measurement of an odd size."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {"high": spaces.Discrete(2, start=5), "low": spaces.Box(-np.inf, np.inf, (3,))}
        )

    def _show(self, high: int, low: int) -> Any:
        measured = self._noise(3)
        measured[1] = 1000.0 + (50.0 if low else -50.0)
        return {"high": 5 + high, "low": measured}


class InTuple(Puzzle):
    """One half is a bit, the other one of two choices."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([3, 2])))

    def _show(self, high: int, low: int) -> Any:
        bits = np.array([self.np_random.integers(2), high], np.int8)
        return bits, np.array([self.np_random.integers(3), low])


class InNested(Puzzle):
    """The halves lie in different places of a Dict in a Tuple in a Dict."""

    def __init__(self) -> None:
        super().__init__()
        inner = spaces.Dict({"x": spaces.Box(-1, 1, (2, 2)), "y": spaces.Discrete(2)})
        self.observation_space = spaces.Dict(
            {"a": spaces.Tuple((inner, spaces.Box(-9, 9, (1,)))), "b": spaces.MultiBinary(1)}
        )

    def _show(self, high: int, low: int) -> Any:
        x = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        x[1, 0] = high
        distraction = self.np_random.integers(2)
        return {"a": ({"x": x, "y": low}, self._noise(1)), "b": np.array([distraction], np.int8)}


class InGrid(Puzzle):
    """The number is the corner of a grid that is marked."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (3, 4))

    def _show(self, high: int, low: int) -> Any:
        grid = 0.2 * self._noise(3, 4)
        grid[2 * high, 3 * low] = 2.0
        return grid


class InImage(Puzzle):
    """The number is the quarter of an image that has a bright spot, on a dim ground."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def _show(self, high: int, low: int) -> Any:
        image = self.np_random.integers(0, 40, (8, 8, 3)).astype(np.uint8)
        row, column = self.np_random.integers(0, 3, 2) + np.array([4 * high, 4 * low])
        image[row : row + 2, column : column + 2] = 255
        return image


class InImageAndDict(Puzzle):
    """One half is in a flat image, the other beside it."""

    def __init__(self) -> None:
        super().__init__()
        image = spaces.Box(0, 255, (6, 6), np.uint8)
        self.observation_space = spaces.Dict({"image": image, "low": spaces.Discrete(2)})

    def _show(self, high: int, low: int) -> Any:
        image = self.np_random.integers(0, 40, (6, 6)).astype(np.uint8)
        image[3 * high + self.np_random.integers(3)] = 255
        return {"image": image, "low": low}


class Masked(Puzzle):
    """Six choices, of which two besides the right one are allowed; any other fails."""

    def __init__(self, where: str = "info") -> None:
        super().__init__()
        self.where = where
        self.action_space = spaces.Discrete(NUMBERS + 2)
        if where == "observation":
            mask = spaces.MultiBinary(NUMBERS + 2)
            self.observation_space = spaces.Dict({"action_mask": mask, "number": spaces.Discrete(NUMBERS)})
        self.mask = np.ones(NUMBERS + 2, np.int8)

    def _show(self, high: int, low: int) -> Any:
        self.mask = np.zeros(NUMBERS + 2, np.int8)
        self.mask[self.np_random.integers(NUMBERS + 2, size=2)] = 1
        self.mask[self.number] = 1
        return {"action_mask": self.mask, "number": self.number} if self.where == "observation" else self.number

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.mask} if self.where == "info" else {}

    def _reward(self, action: Any) -> float:
        if not self.mask[action]:
            raise ValueError(f"action {action} is forbidden")
        return super()._reward(action)


class SeldomMasked(Masked):
    """Comes with a mask at every second step, and with one that allows nothing at the end of an episode."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        gymnasium.Env.reset(self, seed=seed)
        self.length = int(self.np_random.integers(3, LENGTH + 1))
        self.steps = 0
        return self._next()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, self.steps == self.length, False, info

    def _info(self) -> dict[str, Any]:
        if self.steps == self.length:
            return {"action_mask": np.zeros_like(self.mask)}
        if self.steps % 2:
            self.mask = np.ones_like(self.mask)
            return {}
        return {"action_mask": self.mask}


class BadlyMasked(Puzzle):
    """Its third step comes with a mask that cannot be."""

    def __init__(self, entries: int = NUMBERS) -> None:
        super().__init__()
        self.entries = entries

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.zeros(self.entries, np.int8)} if self.steps == 3 else {}


class MaskedPair(Puzzle):
    """Two choices, each half of the number, with a mask that leaves the right ones and some others."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([3, 4])
        self.masks: tuple[Any, ...] = (np.ones(3, np.int8), np.ones(4, np.int8))

    def _info(self) -> dict[str, Any]:
        self.masks = tuple(self.np_random.integers(0, 2, size).astype(np.int8) for size in (3, 4))
        for mask, half in zip(self.masks, divmod(self.number, 2), strict=True):
            mask[half] = 1
        return {"action_mask": self.masks}

    def _reward(self, action: Any) -> float:
        if not all(mask[half] for mask, half in zip(self.masks, action, strict=True)):
            raise ValueError(f"action {action} is forbidden")
        return float(tuple(action) == divmod(self.number, 2))


class ByBits(Puzzle):
    """The action is the number's two bits, of four."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiBinary([2, 2])

    def _reward(self, action: Any) -> float:
        return float((action[1] == divmod(self.number, 2)).all())


class ByParts(Puzzle):
    """The action is a choice for one half and a position for the other."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Dict(
            {
                "aim": spaces.Box(np.array([10.0]), np.array([20.0]), dtype=np.float64),
                "pair": spaces.Tuple((spaces.Discrete(2, start=3), spaces.MultiBinary(1))),
            }
        )

    def _reward(self, action: Any) -> float:
        high, low = divmod(self.number, 2)
        wanted = 18.0 if low else 12.0
        return float(action["pair"][0] == 3 + high) * (1.0 - float(abs(action["aim"][0] - wanted)) / 10.0)


class ByPosition(Puzzle):
    """The action is a position that the number names, near to the bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 8.0], np.float32))

    def _reward(self, action: Any) -> float:
        high, low = divmod(self.number, 2)
        wanted = np.array([0.8 if high else -0.8, 7.0 if low else 1.0])
        return 1.0 - float(np.abs((action - wanted) / [1.0, 4.0]).mean())


class MaskedLate(Masked):
    """Comes with its first mask at the third step of an episode."""

    def _info(self) -> dict[str, Any]:
        if self.steps < 3:
            self.mask = np.ones_like(self.mask)
            return {}
        return super()._info()


class MaskedImage(InImage):
    """An image, with a mask that allows everything."""

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.ones(NUMBERS, np.int8)}


class AllZeros(Puzzle):
    """Shows nothing but zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-1, 1, (2,))

    def _show(self, high: int, low: int) -> Any:
        return np.zeros(2, np.float32)
