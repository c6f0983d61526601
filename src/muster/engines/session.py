"""The folder of the Ray session that a worker belongs to."""

from __future__ import annotations

from pathlib import Path

from muster.ray_private import ray_session_folder


def session_folder() -> Path:
    """Return the folder on this host that ends with the Ray that this worker belongs to."""
    return ray_session_folder() / "muster"
