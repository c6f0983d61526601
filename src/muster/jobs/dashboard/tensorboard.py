"""TensorBoard on a run's folder here; that of a run elsewhere is kept up to date.

TensorBoard asks nobody for a password: it listens on this machine's loopback alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.errors import JobError
from muster.jobs.dashboard.page import LOOPBACK, await_page, free_port
from muster.jobs.places.model import find_place
from muster.jobs.places.record import RunElsewhere

FETCH_SECONDS = 10.0
FIRST_FETCH_SECONDS = 2.0
"""How often to look as long as there is nothing to show."""
END_SECONDS = 3.0
"""How long a fetch may take to end; one that waits for a host that is gone ends by itself later."""
FOLDER = "tensorboard"
FIRST_TAGS = ("return/mean", "length/mean")
_RELOAD_SECONDS = 5
_MODULE = "muster.jobs.dashboard.tensorboard_process"


@contextmanager
def open_tensorboard(run: Path) -> Iterator[str]:
    """Start TensorBoard for a while on a run, or on all runs in a folder, by their names; give its address.

    Raises:
        JobError: if it does not start.
    """
    with (
        tempfile.TemporaryDirectory(prefix="muster-tensorboard-") as folder,
        _links_kept(run, Path(folder)),
        _server(Path(folder), run) as address,
    ):
        yield address


def with_returns_first(address: str) -> str:
    """Return TensorBoard's address with the curves of the return above all others."""
    cards = [{"plugin": "scalars", "tag": tag} for tag in FIRST_TAGS]
    query = urllib.parse.urlencode({"pinnedCards": json.dumps(cards, separators=(",", ":"))})
    return f"{address}/?{query}#timeseries"


@contextmanager
def _links_kept(run: Path, links: Path) -> Iterator[None]:
    """Keep a folder of links to the curves, named as the runs are: TensorBoard names curves by their folders."""
    is_over = threading.Event()

    def keep() -> None:
        while not is_over.wait(_RELOAD_SECONDS):
            _link_curves(run, links)

    _link_curves(run, links)
    thread = threading.Thread(target=keep, name="links", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(END_SECONDS)


def _link_curves(run: Path, links: Path) -> None:
    """Link the curves of a run that have no link yet, or those of all runs in a folder."""
    for name, curves in named_curves(run):
        link = links / name
        if not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(curves.resolve())


def named_curves(run: Path) -> list[tuple[str, Path]]:
    """Return the folders with curves of a run, or of all runs in a folder, each with its run's name."""
    if (run / FOLDER).is_dir():
        return [(run.resolve().name, run / FOLDER)]
    found = [path for pattern in (f"*/{FOLDER}", f"*/*/{FOLDER}") for path in run.glob(pattern) if path.is_dir()]
    return sorted((str(path.parent.relative_to(run)), path) for path in found)


@contextmanager
def _server(folder: Path, run: Path) -> Iterator[str]:
    port = free_port()
    options = {"logdir": folder, "host": LOOPBACK, "port": port, "reload_interval": _RELOAD_SECONDS}
    command = [sys.executable, "-P", "-m", _MODULE, *(f"--{name}={value}" for name, value in options.items())]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def loss() -> str | None:
        if process.poll() is None:
            return None
        return f"TensorBoard exited with code {process.returncode}\n    try: tensorboard --logdir {run}"

    try:
        await_page(port, "/", loss)
        yield f"http://{LOOPBACK}:{port}"
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def kept_up_to_date(
    run: RunElsewhere, target: Path, notice: Callable[[str], None], only: str | None = FOLDER
) -> Iterator[None]:
    """Fetch what is new of a run's curves every few seconds, for a while; with `only` None, of all its files."""
    is_over = threading.Event()
    place = find_place(run.record)

    def fetch() -> None:
        failure: str | None = None
        while True:
            try:
                place.fetch(run, target, only=only)
                if failure is not None:
                    notice("fetching new curves again")
                failure = None
            except JobError as error:
                # Ctrl-C ends an rsync before it ends us.
                if failure is None and not is_over.wait(1.0):
                    notice(f"curves cannot be fetched now: {error}")
                failure = str(error)
            if is_over.wait(FETCH_SECONDS if _has_curves(target) else FIRST_FETCH_SECONDS):
                return

    thread = threading.Thread(target=fetch, name="fetch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(END_SECONDS)


def _has_curves(target: Path) -> bool:
    return any(True for pattern in (f"{FOLDER}/*", f"*/{FOLDER}/*") for _ in target.glob(pattern))
