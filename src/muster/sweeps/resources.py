"""The CPUs and GPUs of a sweep: what a trial needs, what there is, and an error at once if that is less."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from muster.clusters.allocation.reading import usable_cpus
from muster.clusters.local import ADDRESS_VARIABLE, FREE_SECONDS, POLL_SECONDS, address_to_join, ray_for
from muster.errors import ClusterError
from muster.experiment.schema import Experiment

Bundle = dict[str, float]


def bundles(experiment: Experiment) -> list[Bundle]:
    """Return what a trial reserves: a CPU for itself, with the learner's GPUs, and one for each worker."""
    workers = experiment.resources.workers
    gpus = experiment.resources.gpus if experiment.algorithm.engine != "builtin" else 0
    learner: Bundle = {"CPU": 1, **({"GPU": gpus} if gpus else {})}
    return [learner, *({"CPU": 1.0} for _ in range(0 if workers == "auto" else workers))]


def total(needed: list[Bundle]) -> Bundle:
    """Return what the bundles hold together."""
    kinds = {kind for bundle in needed for kind in bundle}
    return {kind: sum(bundle.get(kind, 0) for bundle in needed) for kind in sorted(kinds)}


@contextmanager
def ray_for_trials(needed: Bundle, *, show_output: bool) -> Iterator[int]:
    """Have a Ray for the trials: the one in use, the one that RAY_ADDRESS names, or our own.

    Yields how many trials fit at the same time.

    Raises:
        ClusterError: if not even one does.
    """
    import ray

    address = address_to_join()
    if address or ray.is_initialized():
        with ray_for(0, show_worker_output=show_output):
            whose = f"the Ray at {address} (from {ADDRESS_VARIABLE})" if address else "the Ray in use"
            has = ray.cluster_resources()
            _require(needed, has, f"{whose} has")
            _require(needed, _free(needed), f"{whose} has free")
            yield _fit(needed, has)
    else:
        has = {"CPU": float(usable_cpus())}
        _require(needed, has, "this machine has")
        with ray_for(int(has["CPU"]), show_worker_output=show_output):
            yield _fit(needed, has)


def _fit(needed: Bundle, has: Bundle) -> int:
    return min(int(has.get(kind, 0) // count) for kind, count in needed.items())


def _free(needed: Bundle) -> Bundle:
    """Return what is free, after a while for those of a run that just ended."""
    import ray

    deadline = time.monotonic() + FREE_SECONDS
    while _fit(needed, free := ray.available_resources()) < 1 and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return dict(free)


def _require(needed: Bundle, has: Bundle, whose: str) -> None:
    if _fit(needed, has) < 1:
        wanted = " and ".join(f"{count:g} {kind}s" for kind, count in needed.items())
        there = " and ".join(f"{has.get(kind, 0):g} {kind}s" for kind in needed)
        raise ClusterError(
            f"a trial needs {wanted} (one CPU, and one for each worker), but {whose} {there}\n"
            "    ask for fewer resources.workers or resources.gpus"
        )
