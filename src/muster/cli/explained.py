"""The one place where the errors of commands are shown."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable

from muster.cli.start import EXIT_CODES
from muster.errors import MusterError


def run_explained(command: Callable[[], object]) -> None:
    """Run a command; a failure that muster can explain ends with its message and exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a name or file holds that the terminal cannot show is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        command()
        sys.stdout.flush()
    except MusterError as error:
        from muster.cli.screen import show_error

        show_error(error)
        _leave_threads_behind(error.exit_code)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_CODES[signal.SIGINT])
    except BrokenPipeError:
        # Nobody reads what is printed, which Python would try to write once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SystemExit as end:
        _leave_threads_behind(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


def _leave_threads_behind(code: int) -> None:
    """End the process now if a simulator has left threads that Python would wait for."""
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
