"""Wheels of a run's requirements, collected here for hosts that cannot reach a package index."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster.clusters.named import home_folder
from muster.errors import JobError
from muster.jobs.places.requirements import MINOR, Requirements

COLLECT_SECONDS = 3600.0
_OLDEST_GLIBC = 5


def collect_wheels(requirements: Requirements, facts: dict[str, Any], notice: Callable[[str], None]) -> Path:
    """Download or build the wheels of requirements for hosts of a kind; return their folder.

    Raises:
        JobError: with pip's output.
    """
    target = cache_folder() / "wheels" / f"{requirements.id}-{facts['system']}-{facts['machine']}"
    if (target / "complete").exists():
        return target
    notice("collecting the wheels of the requirements here, since wheels = true")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirements.text)
        file.flush()
        _pip([*_action(facts, target), "--requirement", file.name])
    (target / "complete").touch()
    return target


def cache_folder() -> Path:
    """Return where muster keeps what it can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home_folder() / ".cache") / "muster"


def _action(facts: dict[str, Any], target: Path) -> list[str]:
    """Build what has no wheel if the hosts are of this machine's kind; else take only what has one for theirs."""
    if facts["system"] == sys.platform and facts["machine"] == platform.machine():
        return ["wheel", "--wheel-dir", str(target)]
    minor = int((facts["libc"] or "2.28").split(".")[1])
    tags = [f"manylinux_2_{number}_{facts['machine']}" for number in range(minor, _OLDEST_GLIBC - 1, -1)]
    platforms = [word for tag in (*tags, f"manylinux2014_{facts['machine']}") for word in ("--platform", tag)]
    return ["download", "--only-binary=:all:", "--python-version", MINOR, *platforms, "--dest", str(target)]


def _pip(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", arguments[0], "--quiet", *arguments[1:]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COLLECT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise JobError(f"pip {arguments[0]}: did not end within {COLLECT_SECONDS:g} s") from None
    if done.returncode:
        lines = "\n".join(f"    {line}" for line in done.stderr.strip().splitlines()[-6:])
        raise JobError(f"the wheels cannot be collected: pip {arguments[0]} failed\n{lines}")
