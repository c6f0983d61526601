"""The only place that starts or joins Ray: one of our own on this machine, or the one that is named to us."""

from __future__ import annotations

import logging
import math
import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muster.clusters.allocation.reading import usable_cpus, usable_gpus
from muster.clusters.temporary import temporary_folder
from muster.errors import ClusterError

ADDRESS_VARIABLE = "RAY_ADDRESS"
FREE_SECONDS = 15.0
POLL_SECONDS = 0.1
_OBJECT_STORE_BYTES = 512 * 1024**2
_TOKEN_BYTES = 32


@contextmanager
def ray_for(
    num_cpus: int, num_gpus: float = 0.0, *, show_worker_output: bool, shares_cpus: bool = True
) -> Iterator[None]:
    """Have a Ray with so many CPUs and GPUs: the one in use, the one that RAY_ADDRESS names, or our own.

    Our own may have more CPUs than this machine if the processes can share them.

    In a placement group, such as that of a sweep's trial, the CPUs are reserved already.

    Raises:
        ClusterError: if it does not come up, or has less than is asked for.
    """
    import ray

    if ray.is_initialized():
        if ray.util.get_current_placement_group() is None:
            _require_free(num_cpus, num_gpus, "the Ray in use")
        yield
    elif address := os.environ.get(ADDRESS_VARIABLE):
        with joined(address, show_worker_output=show_worker_output):
            _require_free(num_cpus, num_gpus, f"the Ray at {address} (from {ADDRESS_VARIABLE})")
            yield
    else:
        cpus, gpus = usable_cpus(), usable_gpus()
        if (num_cpus > cpus and not shares_cpus) or num_gpus > gpus:
            raise _too_much(num_cpus, num_gpus, f"this machine has {cpus} CPUs and {gpus} GPUs", cpus)
        with _own(num_cpus, math.ceil(num_gpus), show_worker_output):
            yield


@contextmanager
def joined(address: str, *, show_worker_output: bool) -> Iterator[None]:
    """Use the Ray at an address.

    Raises:
        ClusterError: if there is none.
    """
    import ray

    try:
        ray.init(address=address, log_to_driver=show_worker_output, logging_level=logging.ERROR)
    except Exception as error:
        raise ClusterError(
            f"{ADDRESS_VARIABLE}={address}: no Ray to join there: {error}\n"
            f"    unset {ADDRESS_VARIABLE} to train with a Ray of this run's own"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _own(num_cpus: int, num_gpus: int, show_worker_output: bool) -> Iterator[None]:
    """Start a Ray that no one else can find or use, and leave nothing of it behind."""
    import ray

    with temporary_folder() as folder:
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(_TOKEN_BYTES), encoding="ascii")
        settings = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        }
        with _environment(settings):
            _reread_authentication()
            try:
                _start_ray(
                    address="local",
                    num_cpus=num_cpus,
                    num_gpus=num_gpus,
                    object_store_memory=_OBJECT_STORE_BYTES,
                    include_dashboard=False,
                    log_to_driver=show_worker_output,
                    logging_level=logging.ERROR,
                    _temp_dir=str(folder),
                )
            except Exception as error:
                raise ClusterError(
                    f"Ray did not start on this machine: {error}\n    --workers 0 trains without Ray"
                ) from None
            try:
                yield
            finally:
                ray.shutdown()


def _start_ray(**options: Any) -> None:
    """Start Ray with USR2 blocked for its processes: a scheduler sends it to all, and they would die of it."""
    import ray

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        ray.init(**options)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})


def _reread_authentication() -> None:
    """Make Ray see this run's token: it reads mode and token only when it is imported and first used."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _require_free(num_cpus: int, num_gpus: float, whose: str) -> None:
    """Look that what is asked for is there and free; what a run had that just ended takes a moment."""
    import ray

    there = ray.cluster_resources()
    cpus, gpus = int(there.get("CPU", 0)), there.get("GPU", 0.0)
    deadline = time.monotonic() + FREE_SECONDS
    while True:
        free = ray.available_resources()
        free_cpus, free_gpus = int(free.get("CPU", 0)), free.get("GPU", 0.0)
        if num_cpus <= free_cpus and num_gpus <= free_gpus:
            return
        if num_cpus > cpus or num_gpus > gpus or time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    figures = f"{whose} has {cpus} CPUs, {free_cpus} of them free"
    if num_gpus:
        figures += f", and {gpus:g} GPUs, {free_gpus:g} of them free"
    raise _too_much(num_cpus, num_gpus, figures, free_cpus)


def _too_much(num_cpus: int, num_gpus: float, figures: str, most_workers: int) -> ClusterError:
    asked = f"{num_cpus} CPUs and {num_gpus:g} GPUs" if num_gpus else f"{num_cpus} workers"
    hint = f"ask for --workers {most_workers} at most" if num_cpus > most_workers else "ask for fewer --gpus"
    return ClusterError(f"{asked} were asked for, but {figures}\n    {hint}")


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
