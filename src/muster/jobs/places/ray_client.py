"""The way to a Ray's job server: whether one answers, which token it wants, and what it says when it refuses."""

from __future__ import annotations

import http.client
import json
import logging
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from muster.clusters.ray_address import is_loopback
from muster.errors import JobError
from muster.extras import how_to_install
from muster.jobs.places.connection import UnreachableError
from muster.ray_private import PACKAGE_LOGGER, reread_authentication

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 120.0
_OF_ANOTHER_RAY = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_JOB_HEADERS")
"""Variables that Ray's client would prefer to the address it is given."""
_TALKATIVE = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    PACKAGE_LOGGER,
)
"""Loggers of Ray's that tell of every package that is sent."""
_LARGEST_ANSWER = 65_536
_CONNECTING = threading.Lock()


class RequestFailedError(JobError):
    """The job server answered with an error; `status` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def connect(address: str) -> Any:
    """Return a `JobSubmissionClient`; all its errors are `JobError`.

    The token is read by Ray itself, and sent only if that Ray asks for one.

    Raises:
        UnreachableError: if no Ray answers there, or it refuses this user.
        JobError: if Ray's client is not installed here.
    """
    if is_loopback(address):
        _go_past_proxies(urlsplit(address).hostname or "")
    mode = _authentication_mode(address)
    client_class = _client_class(address)
    with _CONNECTING, _variables({"RAY_AUTH_MODE": mode}):
        reread_authentication()
        return client_class(address)


def _client_class(address: str) -> type:
    """Return Ray's client with limits of time and errors of our own."""
    try:
        import requests
        from ray.exceptions import AuthenticationError
        from ray.job_submission import JobSubmissionClient
    except ImportError as error:
        raise _not_installed(error) from None
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)

    class Client(JobSubmissionClient):  # type: ignore[misc]
        def __init__(self, address: str) -> None:
            try:
                super().__init__(address)
            except AuthenticationError:
                raise _refused(address) from None
            except RuntimeError as error:
                raise _not_installed(error) from None

        def _do_request(self, method: str, endpoint: str, **kwargs: Any) -> Any:
            try:
                return super()._do_request(method, endpoint, **{"timeout": ANSWER_SECONDS, **kwargs})
            except AuthenticationError:
                raise _refused(address) from None
            except requests.RequestException as error:
                raise UnreachableError(f"{address}: {_reason(error)}") from None

        def _raise_error(self, r: Any) -> None:
            lines = str(r.text).strip().splitlines() or ["no text"]
            raise RequestFailedError(f"{address}: the job server says: {lines[-1]}", r.status_code)

    return Client


def _authentication_mode(address: str) -> str:
    """Ask a Ray, which tells everyone, whether it wants a token."""
    handlers = [urllib.request.ProxyHandler({})] if is_loopback(address) else []
    try:
        with urllib.request.build_opener(*handlers).open(
            f"{address}/api/authentication_mode", timeout=CONNECT_SECONDS
        ) as answer:
            mode = json.loads(answer.read(_LARGEST_ANSWER))["authentication_mode"]
    except urllib.error.HTTPError as error:
        raise _not_a_ray(address, f"answers with HTTP {error.code}") from None
    except (OSError, urllib.error.URLError) as error:
        raise UnreachableError(
            f"{address}: no Ray answers there: {_reason(error)}\n"
            "    is its address right, and the tunnel to it open? `ray dashboard FILE.yaml` opens one"
        ) from None
    except (ValueError, KeyError, TypeError, http.client.HTTPException):
        raise _not_a_ray(address, "answers what Ray's job server does not") from None
    return str(mode)


def _refused(address: str) -> UnreachableError:
    return UnreachableError(
        f"{address}: this Ray wants a token, and there is none here or it is another one\n"
        "    put the Ray's token into ~/.ray/auth_token, or name a file with it in RAY_AUTH_TOKEN_PATH"
    )


def _not_a_ray(address: str, what: str) -> UnreachableError:
    return UnreachableError(f"{address}: {what}\n    give the address of Ray's job server, port 8265 by default")


def _not_installed(error: Exception) -> JobError:
    return JobError(f"Ray's job client is not installed here: {error}{how_to_install('ray')}")


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return str(getattr(reason, "strerror", None) or reason)


def _go_past_proxies(host: str) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        known = [word for word in os.environ.get(name, "").split(",") if word]
        if host not in known:
            os.environ[name] = ",".join([*known, host])


@contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """Set variables for a while, and hide those by which Ray's client would go elsewhere."""
    before = {name: os.environ.pop(name, None) for name in (*_OF_ANOTHER_RAY, *values)}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
