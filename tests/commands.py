"""Running the `muster` command as a user does."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
MUSTER = Path(sys.executable).with_name("muster")
RATIO = ROOT / "examples" / "ratio" / "ratio.toml"


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of a user who can import the tests' toys and has no settings of muster's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "RAY_")) and k != "COLUMNS"}
    return {**kept, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **extra}


def muster(*arguments: str | Path, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [str(MUSTER), *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment(**extra), capture_output=True, text=True, check=False, timeout=240
    )


def start_muster(
    *arguments: str | Path, cwd: Path, new_session: bool = False, **extra: str
) -> subprocess.Popen[str]:
    """Start a command and go on."""
    return subprocess.Popen(
        [str(MUSTER), *map(str, arguments)],
        cwd=cwd,
        env=environment(**extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=new_session,
    )


def last_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the JSON on the last line of standard output."""
    value: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return value


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for something, with a limit."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def timeless_metrics(run: Path) -> str:
    """Return a run's metrics without the columns that depend on the clock."""
    with (run / "metrics.csv").open() as file:
        rows = list(csv.reader(file))
    kept = [i for i, name in enumerate(rows[0]) if not name.startswith("time/")]
    return "\n".join(",".join(row[i] for i in kept) for row in rows)


def policy_bytes(run: Path) -> bytes:
    """Return the bytes of the newest policy's arrays."""
    return (run / "checkpoints" / "latest" / "policy.npz").read_bytes()


@dataclass(frozen=True)
class Ended:
    """How a command ended that ran in this process."""

    code: int
    out: str
    err: str


def muster_here(*arguments: str | Path) -> Ended:
    """Run a command in this process, as `muster` does; what muster does not explain is raised."""
    from muster.cli.main import run

    out, err, code = _stream(), _stream(), 0
    with (
        mock.patch.object(sys, "argv", ["muster", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            run()
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    return Ended(code, _text(out), _text(err))


class _Kept(io.BytesIO):
    """What is written, also after the stream around it was closed."""

    def close(self) -> None:
        """Stay open."""


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(_Kept(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    content = stream.buffer
    assert isinstance(content, _Kept)
    return content.getvalue().decode("utf-8")
