"""How many threads linear algebra may use: fixed, since their number can change the last bit of a sum."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController, threadpool_limits


def limit_threads(threads: int) -> None:
    """Fix the number of threads of this process for good."""
    threadpool_limits(threads)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Fix the number of threads for a while."""
    with _controller().limit(limits=number):
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(number)
        yield
