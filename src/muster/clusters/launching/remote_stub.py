"""A rank that `muster launch` starts on another host: a line of its input, or a file, says what to do, with what.

So neither quoting nor a process list has a part in it, whatever shells are on the way.

Run as a script of its own, with the standard library alone: before the order is read, nothing leads to muster.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FILE_SECONDS = 10.0
"""How long a shared file system may take to show a new file."""
_LOOK_SECONDS = 0.1


def main() -> None:
    """Become the command that the order names; input after the order's line is that command's to read."""
    order = _from_file(Path(sys.argv[1])) if len(sys.argv) > 1 else _from_input()
    os.chdir(order["folder"])
    os.environ.update(order["environment"])
    os.execv(sys.executable, [sys.executable, "-m", "muster", *order["arguments"]])


def _from_input() -> Any:
    line = bytearray()
    while (read := os.read(0, 1)) not in (b"", b"\n"):
        line += read
    if not line:
        sys.exit(1)
    return json.loads(line)


def _from_file(path: Path) -> Any:
    """Read the order and remove it. Input is taken from nowhere, for there may be none, not even a closed one."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    if nowhere:
        os.dup2(nowhere, 0)
        os.close(nowhere)
    deadline = time.monotonic() + FILE_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            sys.exit(f"{path}: not seen on {os.uname().nodename}: do all hosts share this folder?")
        time.sleep(_LOOK_SECONDS)
    order = json.loads(path.read_text(encoding="utf-8"))
    path.unlink(missing_ok=True)
    return order


if __name__ == "__main__":
    main()
