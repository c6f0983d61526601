"""A few words between ranks through mpi4py, before there is any other way: the only importer of it."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from types import TracebackType
from typing import Any, TypeVar

from muster.clusters.allocation.launchers import mpi_world_problem
from muster.clusters.allocation.model import Ranks
from muster.clusters.launching.signals import heeded_signals

T = TypeVar("T")


def is_installed() -> bool:
    """Whether mpi4py is here."""
    return find_spec("mpi4py") is not None


class World:
    """All ranks of this MPI job, for as long as it is open; can be opened once in a process."""

    def __init__(self, ranks: Ranks | None) -> None:
        self._ranks = ranks
        self._mpi: Any = None
        self.problem: str | None = None

    def __enter__(self) -> World:
        """Start MPI; `problem` says why nothing can be asked of it, if so."""
        import mpi4py

        # MPI's calls wait in C, where Python sees no signal; nothing has been made yet that would be left behind.
        self._handlers = {number: signal.signal(number, signal.SIG_DFL) for number in heeded_signals()}
        mpi4py.rc.initialize = False
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            self.problem = f"mpi4py finds no MPI library: {error}"
            return self
        self._mpi = MPI
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            MPI.Init()
        self._world: Any = MPI.COMM_WORLD
        self.problem = mpi_world_problem(self._ranks, self._world.Get_size())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End MPI; after an error it is left to the launcher, for the others may never come to the end."""
        if kind is None and self._mpi is not None:
            self._mpi.Finalize()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that the others hear first."""
        return bool(self._world.Get_rank() == 0)

    def from_first(self, value: T) -> T:
        """Return on all ranks what the first one says."""
        said: T = self._world.bcast(value, root=0)
        return said

    def from_one(self, value: T | None) -> T | None:
        """Return on all ranks what the one says that has something to say."""
        return next((said for said in self._world.allgather(value) if said is not None), None)

    def all_say(self, look: Callable[[], bool]) -> bool:
        """Whether every rank finds it so; each looks when the first one has come this far."""
        self._world.Barrier()
        return all(self._world.allgather(look()))
