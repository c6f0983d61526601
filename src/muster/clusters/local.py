"""The only place that starts or joins Ray: one of our own on this machine, or the one that is named to us."""

from __future__ import annotations

import logging
import math
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muster.clusters.allocation.reading import usable_cpus, usable_gpus
from muster.clusters.joined_ray import JoinedRay
from muster.clusters.ray_processes import RayProcesses
from muster.clusters.temporary import RAY_FOLDER, temporary_folder
from muster.errors import ClusterError
from muster.experiment.quantities import counted
from muster.ray_private import (
    end_processes_with,
    loopback_options,
    on_loopback,
    reread_authentication,
    without_sigterm_handler,
)
from muster.simulators.shipped_code import pack_code, shipped_folder

ADDRESS_VARIABLE = "RAY_ADDRESS"
JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set by Ray in jobs that came through its job server."""
FREE_SECONDS = 15.0
HOSTS_SECONDS = 600.0
"""How long hosts of a Ray may take to come that has just been started, as on a cloud."""
POLL_SECONDS = 0.1
HOSTS_POLL_SECONDS = 1.0
_OBJECT_STORE_BYTES = 512 * 1024**2
_TOKEN_BYTES = 32
SHUTDOWN_SECONDS = 5.0

_NO_PORT = "65536"
NO_METRICS_SERVERS = {"AUTOSCALER_METRIC_PORT": _NO_PORT, "DASHBOARD_METRIC_PORT": _NO_PORT}
"""Keeps Ray from serving metrics to everyone, without a token, where the packages for that are installed."""
_SETTINGS = {
    **NO_METRICS_SERVERS,
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_grpc_enable_http_proxy": "0",
}
OF_ANOTHER_RAY = ("RAY_AUTH_", "RAY_TLS_", "RAY_USE_TLS", "RAY_REDIS_", "RAY_TMPDIR", "RAY_NAMESPACE")
"""Beginnings of the names of variables by which a user reaches a Ray elsewhere."""

_OWN: list[RayProcesses] = []
_JOINED: list[JoinedRay] = []
_STUCK: list[bool] = []


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
    elif address := address_to_join():
        with joined(address, show_worker_output=show_worker_output):
            if JOB_VARIABLE in os.environ:
                _wait_for_hosts(num_cpus, num_gpus)
            _require_free(num_cpus, num_gpus, f"the Ray at {address} (from {ADDRESS_VARIABLE})")
            yield
    else:
        cpus, gpus = usable_cpus(), usable_gpus()
        if (num_cpus > cpus and not shares_cpus) or num_gpus > gpus:
            there = f"this machine has {counted(cpus, 'CPU')} and {counted(gpus, 'GPU')}"
            raise _too_much(num_cpus, num_gpus, there, cpus)
        with _own(num_cpus, math.ceil(num_gpus), show_worker_output):
            yield


def address_to_join() -> str | None:
    """Return the address of the Ray that RAY_ADDRESS names; `local` stands for one of our own, as for Ray."""
    address = os.environ.get(ADDRESS_VARIABLE)
    return None if address == "local" else address or None


@contextmanager
def joined(address: str, *, show_worker_output: bool) -> Iterator[None]:
    """Use the Ray at an address.

    Raises:
        ClusterError: if there is none.
    """
    reread_authentication()
    os.environ["RAY_RAYLET_PID"] = str(os.getpid())
    with _shipped_code() as runtime_env:
        _start(
            f"{ADDRESS_VARIABLE}={address}: no Ray to join there: {{error}}\n"
            f"    unset {ADDRESS_VARIABLE} to train with a Ray of this run's own",
            address=address,
            log_to_driver=show_worker_output,
            runtime_env=runtime_env,
        )
    joined_ray = JoinedRay(address)
    _JOINED.append(joined_ray)
    try:
        yield
    finally:
        _JOINED.remove(joined_ray)
        is_lost = joined_ray.is_lost()
        joined_ray.close()
        if is_lost:
            _STUCK.append(True)
        else:
            _leave()


@contextmanager
def _shipped_code() -> Iterator[dict[str, Any] | None]:
    """Give workers a copy of the run's code, if they do not see its folder, in place of the Ray job's files."""
    folder = shipped_folder()
    if folder is None:
        yield None
        return
    os.environ["RAY_OVERRIDE_JOB_RUNTIME_ENV"] = "1"
    with tempfile.TemporaryDirectory() as scratch:
        yield pack_code(folder, Path(scratch) / "code.tar.gz")


@contextmanager
def _own(num_cpus: int, num_gpus: int, show_worker_output: bool) -> Iterator[None]:
    """Start a Ray that no one else can reach, find or use, and leave nothing of it behind."""
    with temporary_folder() as folder:
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(_TOKEN_BYTES), encoding="ascii")
        processes = RayProcesses(folder)
        _OWN.append(processes)
        try:
            settings = {"RAY_AUTH_TOKEN_PATH": str(token), "RAY_RAYLET_PID": str(os.getpid())}
            with _environment({**_SETTINGS, **settings}):
                reread_authentication()
                with processes.starting(), on_loopback():
                    _start(
                        "Ray did not start on this machine: {error}\n    --workers 0 trains without Ray",
                        address="local",
                        num_cpus=num_cpus,
                        num_gpus=num_gpus,
                        object_store_memory=_OBJECT_STORE_BYTES,
                        include_dashboard=False,
                        log_to_driver=show_worker_output,
                        **loopback_options(folder / RAY_FOLDER),
                    )
                yield
        finally:
            _shut_down(processes)
            _OWN.remove(processes)


def ray_is_lost() -> bool:
    """Whether a Ray of our own has ended by itself, or the head of one that was joined."""
    return any(processes.are_lost() for processes in _OWN) or any(ray.is_lost() for ray in _JOINED)


def is_stuck_in_ray() -> bool:
    """Whether this process could not leave Ray: then Python cannot end in its usual way either."""
    return bool(_STUCK)


def _start(message: str, **options: Any) -> None:
    """Start or join Ray, which is to leave this process's signals alone."""
    import ray

    try:
        with without_sigterm_handler(), _term_kept():
            ray.init(logging_level=logging.ERROR, **options)
    except Exception as error:
        raise ClusterError(message.format(error=error)) from None


@contextmanager
def _term_kept() -> Iterator[None]:
    """Keep the handler of TERM: Ray's library puts its own in its place when it starts, and none when it ends.

    One that comes meanwhile waits.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        if (handler := signal.getsignal(signal.SIGTERM)) is not None:
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _shut_down(processes: RayProcesses) -> None:
    """Leave Ray and end its processes at once: they take no signal but KILL."""
    end_processes_with(processes.end)
    if processes.are_lost():
        _STUCK.append(True)
    else:
        _leave()
    processes.end()


def _leave() -> None:
    """Leave Ray; that may hang if it does not answer, and then it is not waited for."""
    import ray

    leaving = threading.Thread(target=ray.shutdown, name="leaving Ray", daemon=True)
    with _term_kept():
        leaving.start()
        leaving.join(SHUTDOWN_SECONDS)
    if leaving.is_alive():
        _STUCK.append(True)


def _wait_for_hosts(num_cpus: int, num_gpus: float) -> None:
    """Wait until a Ray that was just started has the CPUs and GPUs, whoever uses them."""
    import ray

    deadline, is_told = time.monotonic() + HOSTS_SECONDS, False
    while time.monotonic() < deadline:
        there = ray.cluster_resources()
        cpus, gpus = int(there.get("CPU", 0)), there.get("GPU", 0.0)
        if num_cpus <= cpus and num_gpus <= gpus:
            return
        if not is_told:
            print(
                f"muster: waiting at most {HOSTS_SECONDS:g} s for hosts: the Ray has {counted(cpus, 'CPU')} and "
                f"{counted(gpus, 'GPU')}, expected {num_cpus} and {num_gpus:g}",
                file=sys.stderr,
            )
            is_told = True
        time.sleep(HOSTS_POLL_SECONDS)


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
    figures = f"{whose} has {counted(cpus, 'CPU')}, {free_cpus} of them free"
    if num_gpus:
        figures += f", and {counted(gpus, 'GPU')}, {free_gpus:g} of them free"
    raise _too_much(num_cpus, num_gpus, figures, free_cpus)


def _too_much(num_cpus: int, num_gpus: float, figures: str, most_workers: int) -> ClusterError:
    asked = counted(num_cpus, "worker")
    if num_gpus:
        asked = f"{counted(num_cpus, 'CPU')} and {counted(num_gpus, 'GPU')}"
    hint = f"ask for --workers {most_workers} at most" if num_cpus > most_workers else "ask for fewer --gpus"
    return ClusterError(f"asked for {asked}, but {figures}\n    {hint}")


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set variables for a while, and hide those that are meant for another Ray."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(OF_ANOTHER_RAY):
            del os.environ[name]
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in {*settings, *(name for name in before if name.startswith(OF_ANOTHER_RAY))}:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
