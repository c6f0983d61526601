"""The only place that starts or joins Ray: one of our own on this machine, or the one that is named to us."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muster.clusters.temporary import temporary_folder
from muster.errors import ClusterError

ADDRESS_VARIABLE = "RAY_ADDRESS"
FREE_SECONDS = 15.0
POLL_SECONDS = 0.1
_OBJECT_STORE_BYTES = 512 * 1024**2
_TOKEN_BYTES = 32


@contextmanager
def ray_for(num_workers: int, *, show_worker_output: bool) -> Iterator[None]:
    """Have a Ray with a CPU for each worker: the one in use, the one that RAY_ADDRESS names, or our own.

    In a placement group, such as that of a sweep's trial, the CPUs are reserved already.

    Raises:
        ClusterError: if it does not come up, or has fewer CPUs than workers.
    """
    import ray

    if ray.is_initialized():
        if ray.util.get_current_placement_group() is None:
            _require_cpus(num_workers, "the Ray in use")
        yield
    elif address := os.environ.get(ADDRESS_VARIABLE):
        with _joined(address, show_worker_output):
            _require_cpus(num_workers, f"the Ray at {address} (from {ADDRESS_VARIABLE})")
            yield
    else:
        with _own(num_workers, show_worker_output):
            yield


@contextmanager
def _joined(address: str, show_worker_output: bool) -> Iterator[None]:
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
def _own(num_cpus: int, show_worker_output: bool) -> Iterator[None]:
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
                    num_gpus=0,
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


def _require_cpus(num_workers: int, whose: str) -> None:
    """Look that there is a free CPU for each worker; those of a run that just ended take a moment."""
    import ray

    cpus = int(ray.cluster_resources().get("CPU", 0))
    deadline = time.monotonic() + FREE_SECONDS
    while (free := int(ray.available_resources().get("CPU", 0))) < num_workers <= cpus:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    if num_workers > free:
        raise ClusterError(
            f"{num_workers} workers were asked for, but {whose} has {cpus} CPUs, {free} of them free\n"
            f"    ask for --workers {free} at most"
        )


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
