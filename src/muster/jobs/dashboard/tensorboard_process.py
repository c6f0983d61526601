"""TensorBoard as a process that ends when the pipe of its standard input is closed."""

from __future__ import annotations

import os
import sys
import threading


def main() -> None:
    """Be TensorBoard, with the arguments of its own command."""
    threading.Thread(target=_end_with_input, daemon=True).start()

    from tensorboard.main import run_main

    run_main()


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
