"""A page that stays open in headless Chromium, which is told what to do through pipes (the DevTools protocol)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.reports.chromium import CHROMIUM

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"),
)


class OpenPage:
    """One page; what its console says and which addresses it asks for are noted."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._to, self._from = to_browser, from_browser
        self._read = b""
        self._number = 0
        self._session: dict[str, str] = {}
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, address: str) -> None:
        """Go to an address."""
        self._call("Page.navigate", url=address)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; None as long as it raises an error."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            part = os.read(self._from, 65_536)
            assert part, "Chromium has ended"
            self._read += part
        message, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        name, values = event.get("method"), event.get("params", {})
        if name in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.console.append(json.dumps(values))
        elif name == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])


@contextmanager
def chromium_page(profile: Path) -> Iterator[OpenPage]:
    """Start a browser with a page in it."""
    assert CHROMIUM is not None
    browser_reads, we_write = os.pipe()
    we_read, browser_writes = os.pipe()
    # The protocol's pipes are file descriptors 3 and 4 of the browser.
    redirected = f'exec "$@" 3<&{browser_reads} 4>&{browser_writes}'
    command = ["bash", "-c", redirected, "bash", CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, pass_fds=(browser_reads, browser_writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(browser_reads)
    os.close(browser_writes)
    try:
        yield OpenPage(we_write, we_read)
    finally:
        os.close(we_write)
        os.close(we_read)
        process.terminate()
        process.wait()
