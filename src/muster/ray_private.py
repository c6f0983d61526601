"""Every private name of Ray's that muster uses, each with its reason; the first place to look when Ray changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGE_LOGGER = "ray._private.runtime_env.packaging"
"""Reports every package that is sent to a Ray; there is no setting that silences it alone."""
DEPRECATION_LOGGER = "ray._common.deprecation"
"""Reports what RLlib's own code uses and should not."""


def ray_session_folder() -> Path:
    """Return the folder on this host that ends with the Ray of this process; no public function names it."""
    import ray

    return Path(ray._private.worker._global_node.get_session_dir_path())


def end_processes_with(end: Callable[[], None]) -> None:
    """Let `ray.shutdown` end its processes this way: its own way is to send TERM, which they do not take."""
    import ray

    node = ray._private.worker._global_node
    if node is not None:
        node.kill_all_processes = lambda **_: end()


@contextmanager
def started_by(start: Callable[..., Any]) -> Iterator[None]:
    """Start Ray's processes with `start(popen, *arguments, **options)`, to give each a session of its own."""
    from ray._private import services

    original = services.ConsolePopen
    services.ConsolePopen = lambda *arguments, **options: start(original, *arguments, **options)
    try:
        yield
    finally:
        services.ConsolePopen = original


@contextmanager
def without_sigterm_handler() -> Iterator[None]:
    """Keep `ray.init` from handling TERM: the run saves when it comes, and Ray would end the process."""
    import ray

    original = ray._private.utils.set_sigterm_handler
    ray._private.utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        ray._private.utils.set_sigterm_handler = original


@contextmanager
def on_loopback() -> Iterator[None]:
    """Let Ray take the loopback address as this machine's, as on macOS: no other host reaches it."""
    from ray._private import ray_constants

    original = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = original


def loopback_options(folder: Path) -> dict[str, str]:
    """Return options of `ray.init` for a Ray on the loopback address that keeps its files in a folder."""
    return {"_node_ip_address": "127.0.0.1", "_temp_dir": str(folder)}


def reread_authentication() -> None:
    """Make Ray see the environment's mode and token: it reads them only when it is imported and first used."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def head_client(address: str) -> Any:
    """Return a client of a Ray's head that lists its hosts without joining it, as `ray.nodes` would have to."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    return GcsClient(address=address)
