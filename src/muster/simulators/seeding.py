"""Random numbers that depend on nothing but the experiment's seed and where they are used."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from hashlib import blake2b
from typing import Any

import numpy as np


class Stream(IntEnum):
    """What random numbers are for; each has a stream of its own."""

    RESET = 1
    ACTIONS = 2
    LEARNER = 3
    INITIAL_WEIGHTS = 4
    PROCESS = 5
    EVALUATION = 6


def generator(seed: int, stream: Stream, *place: int) -> np.random.Generator:
    """Return the generator of one stream at one place, such as a group."""
    return np.random.default_rng([seed, stream, *place])


def reset_seed(seed: int, stream: Stream, *place: int) -> int:
    """Return the seed of one episode, as `reset` takes it; it fits a 32-bit signed integer."""
    digest = blake2b(repr((seed, int(stream), *map(int, place))).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1


class ProcessRandomness:
    """The states of Python's and NumPy's process-wide generators, kept for one owner.

    Simulators that draw from `random` or `np.random` then see the same numbers whichever process steps them,
    and whoever else is in it.
    """

    def __init__(self, seed: int, stream: Stream, *place: int) -> None:
        derived = reset_seed(seed, stream, *place)
        self.states: tuple[Any, Any] = (
            random.Random(derived).getstate(),
            np.random.RandomState(derived).get_state(),
        )

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put these states in place for a while, then put back what was there."""
        outside = random.getstate(), np.random.get_state()
        random.setstate(self.states[0])
        np.random.set_state(self.states[1])
        try:
            yield
        finally:
            self.states = random.getstate(), np.random.get_state()
            random.setstate(outside[0])
            np.random.set_state(outside[1])
