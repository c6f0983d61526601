"""Who may ask for a page: whoever holds the token, from this server's own pages, by an address of the loopback."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"
_HOSTS = ("127.0.0.1", "localhost", "::1")
"""Another name that leads here is that of a page elsewhere, whose owner has pointed it to the loopback."""
_READING = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page may load: only what this server has. Plotly sets styles from its script."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Stands before an app: answers what is refused, and moves a token in an address into a cookie."""

    def __init__(self, app: ASGIApp, token: str, cookie: str) -> None:
        self._app = app
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(scope)
        await (self._app if answer is None else answer)(scope, receive, send_with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the answer to a request that does not come through; None for one that does."""
        headers, query = Headers(scope=scope), parse_qsl(scope["query_string"].decode("latin-1"))
        host = headers.get("host", "")
        if _host_name(host) not in _HOSTS:
            return _refusal(403, "this server is only for addresses of this machine: http://127.0.0.1:PORT/")
        origin = headers.get("origin")
        if origin != f"http://{host}" and (origin is not None or scope["method"] not in _READING):
            return _refusal(403, "the request comes from another page than this server's own")
        given = [value for name, value in query if name == TOKEN]
        if given and scope["method"] in _READING:
            if not self._is_token(given[0]):
                return _refusal(401, "the token is wrong: `muster serve` makes a new one at each start")
            return self._with_cookie(scope, [(name, value) for name, value in query if name != TOKEN])
        if not self._is_token(_cookie(headers.get("cookie", ""), self._cookie)):
            return _refusal(401, "open the address that `muster serve` has printed: it ends with a token")
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def _with_cookie(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """Send the browser to the same address without the token, which would stay in its history."""
        path = "/" + quote(scope["path"].lstrip("/"))
        answer = RedirectResponse(f"{path}?{urlencode(query)}" if query else path, status_code=303)
        # With "strict", a browser would withhold it from the page that the file of `page_shown` leads to.
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="lax")
        return answer


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _cookie(header: str, name: str) -> str:
    """Return a cookie's value; those of other servers on this machine come with it, and may be malformed."""
    for part in header.split(";"):
        try:
            found = SimpleCookie(part)
        except CookieError:
            continue
        if name in found:
            return found[name].value
    return ""


def _refusal(code: int, reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", status_code=code)
