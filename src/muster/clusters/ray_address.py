"""The address of a Ray's job server, as people write it."""

from __future__ import annotations

from urllib.parse import urlsplit

PREFIX = "ray:"
"""`--on ray:ADDRESS` names a Ray without a table of its own."""
DEFAULT_PORT = 8265
_LOOPBACK = ("127.", "::1", "localhost")
_EXPECTED = f"expected that of Ray's job server, such as http://127.0.0.1:{DEFAULT_PORT}"


def parse_ray_address(text: str) -> str:
    """Return an address with its scheme and without a last slash; a bare `host:port` is http.

    Raises:
        ValueError: if it is none, or holds a password.
    """
    address = (text if "://" in text else f"http://{text}").rstrip("/")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise ValueError(f"{text!r} is no address; {_EXPECTED}") from None
    if parts.scheme == "ray":
        raise ValueError(f"ray:// is the port of Ray's client, not of its job server; {_EXPECTED}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address holds no user or password; Ray's token is read from ~/.ray/auth_token")
    is_odd = parts.query or parts.fragment or any(sign.isspace() or not sign.isprintable() for sign in address)
    if parts.scheme not in ("http", "https") or not parts.hostname or is_odd:
        raise ValueError(f"{text!r} is no address; {_EXPECTED}")
    return address if port is not None or parts.scheme == "https" or parts.path else f"{address}:{DEFAULT_PORT}"


def is_loopback(address: str) -> bool:
    """Whether an address leads to this machine alone, perhaps into a tunnel."""
    return (urlsplit(address).hostname or "").startswith(_LOOPBACK)
