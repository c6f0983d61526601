"""Asking the head which hosts are in."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from muster.clusters.launching.ray_node import FOREIGN_RAY
from muster.ray_private import head_client

_ALIVE = 0
_ANSWER_SECONDS = 5
BRING_UP_SECONDS, STEADY_SECONDS = 0.1, 2.0
"""How often to ask."""


class ClusterView:
    """The head's own word on its hosts; empty until it answers.

    A thread asks, for a head that has died can keep a question waiting long after the launch should have ended.
    """

    def __init__(self, address: str, token: Path) -> None:
        self._address = address
        self._alive: list[Any] = []
        self.pause_seconds = BRING_UP_SECONDS
        for name in [name for name in os.environ if name.startswith(FOREIGN_RAY)]:
            del os.environ[name]
        # Not by its path: Ray aborts this process if the file is gone when it first connects.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token.read_text(encoding="ascii").strip()}
        threading.Thread(target=self._ask, name="cluster view", daemon=True).start()

    def alive(self) -> set[str]:
        """Return the addresses of the hosts whose Ray was alive when the head last answered."""
        return {node.node_manager_address for node in self._alive}

    def num_cpus(self) -> int:
        """Return the CPUs of these hosts."""
        return int(sum(node.resources_total.get("CPU", 0) for node in self._alive))

    def _ask(self) -> None:
        client: Any = None
        while True:
            try:
                client = client or head_client(self._address)
                nodes = client.get_all_node_info(timeout=_ANSWER_SECONDS)
                self._alive = [node for node in nodes.values() if node.state == _ALIVE]
            except Exception:
                client = None
            time.sleep(self.pause_seconds)
