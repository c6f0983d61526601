"""Failures on their way from the workers to the run while their fragments are not complete yet.

They go through the key-value store of Ray's head, which every host reaches. Each comes again with its fragment, so
one that is lost here is only told later.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import asdict

from muster.engines.engine import SimulatorFailure

NAMESPACE = "muster"
LARGEST_BYTES = 1024**2


class Mailbox:
    """Takes failures from any worker; the name tells one run's from another's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def put(self, failure: SimulatorFailure) -> None:
        """Send a failure, unless it is very large."""
        from ray.experimental.internal_kv import _internal_kv_put

        letter = json.dumps(asdict(failure))
        if len(letter) <= LARGEST_BYTES:
            with suppress(Exception):
                _internal_kv_put(f"{self.name}/{uuid.uuid4().hex}", letter, namespace=NAMESPACE)

    def take(self) -> list[SimulatorFailure]:
        """Return what has arrived since this was last called."""
        from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list

        failures = []
        with suppress(Exception):
            for key in _internal_kv_list(f"{self.name}/", namespace=NAMESPACE):
                failures.append(SimulatorFailure(**json.loads(_internal_kv_get(key, namespace=NAMESPACE))))
                _internal_kv_del(key, namespace=NAMESPACE)
        return failures
