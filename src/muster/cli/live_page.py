"""The live page of a run for `muster dashboard`; what a run elsewhere has that is new is fetched all the time."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from muster.cli.screen import console, show_notice
from muster.runs.folder import RunFolder

if TYPE_CHECKING:
    from muster.jobs.places.record import RunElsewhere

_END_SECONDS = 5.0


@contextmanager
def open_live_page(run: str, directory: Path, elsewhere: RunElsewhere | None) -> Iterator[str]:
    """Serve the runs of a folder for a while; give the address of one of them, with its token.

    Raises:
        InputError: if the extra is missing, or there is no such run.
    """
    from muster.jobs.dashboard.find_dashboard import find_folder
    from muster.jobs.dashboard.tensorboard import kept_up_to_date
    from muster.serving.run_watch import address
    from muster.serving.server import live_server

    folder = find_folder(run, directory) if elsewhere is None else elsewhere.path / elsewhere.member
    root = directory.resolve() if folder.is_relative_to(directory.resolve()) else folder.parent
    with ExitStack() as held:
        server = held.enter_context(live_server(root, None, show_notice))
        if elsewhere is not None:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(kept_up_to_date(elsewhere, folder, show_notice, only=None))
        thread = threading.Thread(target=server.run, name="live page", daemon=True)
        thread.start()
        try:
            page = f"runs/{address(os.path.relpath(folder, root))}" if RunFolder(folder).exists() else ""
            yield f"{server.address}{page}?token={server.token}"
        finally:
            server.server.should_exit = True
            thread.join(_END_SECONDS)


def print_address(address: str, name: str = "") -> None:
    """Print an address; with its token only on a terminal, for other output may be kept in a file."""
    is_terminal = sys.stdout.isatty()
    console().print(f"{name}{address if is_terminal else address.partition('?')[0]}")
    sys.stdout.flush()
    if not is_terminal:
        show_notice("it asks for a token: a terminal shows it, and `muster serve --json` prints it")
    if os.environ.get("SSH_CONNECTION"):
        here, port = shlex.quote(f"{getpass.getuser()}@{socket.gethostname()}"), urlsplit(address).port
        show_notice(f"from a machine with a browser: ssh -N -L 127.0.0.1:{port}:127.0.0.1:{port} {here}")
