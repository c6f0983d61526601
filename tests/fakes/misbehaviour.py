"""Switches that make a command hang, print garbage or fail: one file per command in the state folder."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass
class Misbehaviour:
    """What a command does in place of its work."""

    hang: float = 0.0
    """Seconds of silence before anything else."""
    stdout: str = ""
    stderr: str = ""
    code: int = 0
    then_works: bool = False
    """Whether it does its work after all, when it has hung."""
    times: int | None = None
    """For how many calls; None for all."""


def switch_on(folder: Path, command: str, misbehaviour: Misbehaviour) -> None:
    """Let a command misbehave from now on."""
    folder.mkdir(exist_ok=True)
    (folder / command).write_text(json.dumps(asdict(misbehaviour)))


def switch_off(folder: Path, command: str) -> None:
    """Let a command work again."""
    (folder / command).unlink(missing_ok=True)


def act(folder: Path, command: str) -> int | None:
    """Misbehave if the switch is on, and return the exit code; None if the command is to do its work."""
    path = folder / command
    if not path.exists():
        return None
    misbehaviour = Misbehaviour(**json.loads(path.read_text()))
    if misbehaviour.times is not None:
        if misbehaviour.times <= 0:
            return None
        misbehaviour.times -= 1
        switch_on(folder, command, misbehaviour)
    time.sleep(misbehaviour.hang)
    if misbehaviour.then_works:
        return None
    sys.stdout.write(misbehaviour.stdout)
    sys.stderr.write(misbehaviour.stderr)
    return misbehaviour.code
