"""A rank that `muster launch` starts on another host: the first line of its input says what to do, with what.

So neither quoting nor a process list has a part in it, whatever shells are on the way.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Become the command that the first line names; the lines after it are that command's to read."""
    line = bytearray()
    while (read := os.read(0, 1)) not in (b"", b"\n"):
        line += read
    if not line:
        sys.exit(1)
    order = json.loads(line)
    os.chdir(order["folder"])
    os.environ.update(order["environment"])
    os.execv(sys.executable, [sys.executable, "-m", "muster", *order["arguments"]])


if __name__ == "__main__":
    main()
