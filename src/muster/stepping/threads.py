"""How many threads linear algebra may use: fixed, since their number can change the last bit of a sum."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController, threadpool_limits

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def announce_cpus(cpus: int | None) -> None:
    """Let libraries that a simulator loads and processes that it starts use so many CPUs; None changes nothing."""
    if cpus is not None:
        os.environ.update(dict.fromkeys(_VARIABLES, str(cpus)))


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
