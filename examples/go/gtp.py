"""A Go program behind a pipe, spoken to in the Go Text Protocol."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

COLUMNS = "ABCDEFGHJKLMNOPQRST"


class GoProgram:
    """One running program, started in this file's folder.

    It ends with this process, however that ends: its standard input is then at its end.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._process = subprocess.Popen(
            shlex.split(command),
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, request: str) -> str:
        """Send a command and return the answer.

        Raises:
            RuntimeError: if the program refuses the command or has ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{request}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended(request) from None
        lines: list[str] = []
        while line := self._process.stdout.readline():
            if line.strip():
                lines.append(line.strip())
            elif lines:
                break
        else:
            raise self._ended(request)
        answer = " ".join(lines)
        if not answer.startswith("="):
            raise RuntimeError(f"{self._command}: {request!r} was refused: {answer}")
        return answer[1:].strip()

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _ended(self, request: str) -> RuntimeError:
        code = self._process.wait()
        return RuntimeError(f"{self._command} ended with code {code} at {request!r}")


def vertex(point: int, size: int) -> str:
    """Return a point's name in the protocol, such as C3; the point after the last is a pass."""
    if point == size * size:
        return "pass"
    row, column = divmod(point, size)
    return f"{COLUMNS[column]}{size - row}"


def point_of(name: str, size: int) -> int:
    """Return the point of a name."""
    if name.lower() == "pass":
        return size * size
    return (size - int(name[1:])) * size + COLUMNS.index(name[0].upper())
