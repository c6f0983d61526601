"""A server of `muster serve`, started as a user does, and requests to it as a browser sends them."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from tests.commands import start_muster


@dataclass
class Answer:
    """What came back."""

    code: int
    headers: dict[str, str]
    text: str


@dataclass
class Browser:
    """A browser that holds the cookie, unless it is told to leave it out."""

    port: int
    token: str
    cookie: str = field(default="")

    def get(self, path: str, method: str = "GET", *, cookie: bool = True, **headers: str) -> Answer:
        """Send a request; the path is sent as it is given, whatever is in it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {"Host": f"127.0.0.1:{self.port}", **headers}
        if cookie and "Cookie" not in headers:
            given["Cookie"] = self.cookie
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            body = (
                answer.read() if answer.headers.get("Content-Type") != "text/event-stream; charset=utf-8" else b""
            )
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, body.decode("utf-8", "replace"))
        finally:
            connection.close()

    def post(self, path: str, **headers: str) -> Answer:
        """Send what a button of a page does."""
        headers.setdefault("Origin", f"http://127.0.0.1:{self.port}")
        return self.get(path, "POST", cookie=True, **headers)

    def events(self, path: str) -> Generator[tuple[str, str]]:
        """Yield the events of a page, until the iterator is closed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers={"Cookie": self.cookie})
            answer = connection.getresponse()
            assert answer.status == 200
            event = ""
            while line := answer.readline().decode().rstrip("\r\n") or "-":
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    yield event, value
        finally:
            connection.close()


@contextmanager
def served(root: Path) -> Iterator[Browser]:
    """Serve a folder for a while; give a browser that has opened the address that was printed."""
    process = start_muster("serve", root, "--json", cwd=root)
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        printed = json.loads(line)
        port = urlsplit(printed["address"]).port
        assert port is not None
        browser = Browser(port, printed["token"])
        opened = browser.get(f"/?token={quote(browser.token)}", cookie=False)
        browser.cookie = opened.headers["set-cookie"].partition(";")[0]
        yield browser
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert "Traceback" not in err, err
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.communicate()
