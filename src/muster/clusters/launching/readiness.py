"""Asking the head which hosts are in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

_ALIVE = 0
_ANSWER_SECONDS = 5


class ClusterView:
    """The head's own word on its hosts; empty until it answers."""

    def __init__(self, address: str, token: Path) -> None:
        self._address = address
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        self._client: Any = None
        self._alive: list[Any] = []

    def alive_hosts(self) -> set[str]:
        """Return the names of the hosts whose Ray is alive; as of before if the head does not answer now."""
        self._look()
        return {node.node_manager_hostname for node in self._alive}

    def num_alive(self) -> int:
        """Return how many hosts were in at the last look."""
        return len(self._alive)

    def num_cpus(self) -> int:
        """Return the CPUs of all hosts at the last look."""
        return int(sum(node.resources_total.get("CPU", 0) for node in self._alive))

    def _look(self) -> None:
        from ray._raylet import GcsClient  # type: ignore[attr-defined]

        try:
            self._client = self._client or GcsClient(address=self._address)
            nodes = self._client.get_all_node_info(timeout=_ANSWER_SECONDS)
        except Exception:
            return
        self._alive = [node for node in nodes.values() if node.state == _ALIVE]
