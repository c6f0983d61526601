"""A page on this machine's loopback: a free port for it, waiting until it answers, showing it in a browser."""

from __future__ import annotations

import html
import http.client
import os
import socket
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from muster.errors import InputError, JobError

LOOPBACK = "127.0.0.1"
ANSWER_SECONDS = 60.0
_LOOK_SECONDS = 5.0
_PAUSE_SECONDS = 0.2


def free_port(wanted: int | None = None) -> int:
    """Return a port of the loopback that nobody listens on: the one that is wanted, or any.

    Raises:
        InputError: if the one that is wanted is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted or 0))
        except OSError as error:
            raise InputError(
                f"--port {wanted}: cannot be used: {error.strerror}\n    leave it out, and a free one is taken"
            ) from None
        port: int = probe.getsockname()[1]
        return port


def await_page(port: int, path: str, loss: Callable[[], str | None], seconds: float = ANSWER_SECONDS) -> None:
    """Wait until a server behind a port answers, whatever it answers.

    Raises:
        JobError: if it does not, or the way to it is lost.
    """
    deadline = time.monotonic() + seconds
    while not _answers(port, path):
        if (reason := loss()) is not None:
            raise JobError(reason)
        if time.monotonic() > deadline:
            raise JobError(f"the page behind port {port} did not answer within {seconds:g} s")
        time.sleep(_PAUSE_SECONDS)


@contextmanager
def page_shown(address: str, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Open an address in a browser, if this machine has a screen and the user sits at it.

    The browser is given a file that leads there: its command line, which all users can read, holds no token.
    """
    has_screen = sys.platform == "darwin" or environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    if not has_screen or environ.get("SSH_CONNECTION"):
        yield
        return
    with page_file(address) as file:
        with suppress(webbrowser.Error):
            browser = webbrowser.get()
            # One of this very class runs in the terminal, as lynx does, and would take it from us.
            if type(browser) is not webbrowser.GenericBrowser:
                browser.open(file.as_uri())
        yield


@contextmanager
def page_file(address: str) -> Iterator[Path]:
    """Make a file that only its owner can read, and that leads a browser to an address; remove it at the end."""
    with TemporaryDirectory(prefix="muster-page-") as folder:
        file = Path(folder, "page.html")
        file.touch(0o600)
        link = html.escape(address)
        file.write_text(
            f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={link}"><a href="{link}">open</a>'
        )
        yield file


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_LOOK_SECONDS)
    try:
        connection.request("GET", path)
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
