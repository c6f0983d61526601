"""What a run is trained from: the resolved experiment, the sources of its values, the versions in use."""

from __future__ import annotations

import platform
import socket
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from muster.experiment import LoadedExperiment
from muster.experiment.writing import experiment_toml
from muster.runs.files import explained, write_json, write_text
from muster.runs.folder import RunFolder


def write_description(folder: RunFolder, loaded: LoadedExperiment) -> None:
    """Write the resolved experiment, where its values came from, and the versions of what trains it."""
    with explained(folder.path):
        write_json(folder.sources, loaded.sources)
        write_json(folder.versions, _versions())
        write_text(folder.experiment, experiment_toml(loaded.experiment))


def _versions() -> dict[str, Any]:
    packages = {}
    for name in ("muster-rl", "ray", "gymnasium", "numpy", "torch"):
        try:
            packages[name.removesuffix("-rl")] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        **packages,
        "git": _git_commit(),
        "host": socket.gethostname(),
        "platform": platform.platform(),
    }


def _git_commit() -> str | None:
    """Return the commit of the folder that training was started from, `-dirty` if it has changes."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
