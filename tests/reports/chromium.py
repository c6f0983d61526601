"""A page in headless Chromium: what its console says, and what it asks the network for."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=6000"),
    *("--enable-logging=stderr", "--dump-dom"),
)
_OF_THE_BROWSER = re.compile(rb"\.google(apis)?\.com[:/]")
"""Where the browser itself goes, whatever page is open."""


def opened(page: Path, profile: Path) -> tuple[str, list[str], list[bytes]]:
    """Open a page; return its document, its console's lines, and the requests that it sent to a proxy."""
    assert CHROMIUM is not None
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        threading.Thread(target=_note, args=(proxy, requests), daemon=True).start()
        flags = [*_QUIET, f"--proxy-server=127.0.0.1:{proxy.getsockname()[1]}", f"--user-data-dir={profile}"]
        command = [CHROMIUM, *flags, page.absolute().as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    console = re.findall(r"CONSOLE.*", done.stderr)
    return done.stdout, console, [line for line in requests if _OF_THE_BROWSER.search(line) is None]


def _note(proxy: socket.socket, requests: list[bytes]) -> None:
    """Take the first line of every request until the proxy is closed, and answer none."""
    while True:
        try:
            connection, _ = proxy.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(2)
            try:
                requests.append(connection.recv(4096).partition(b"\r\n")[0])
            except OSError:
                requests.append(b"")
