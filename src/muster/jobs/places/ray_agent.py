"""A short job on the head of a Ray: look what is installed, run a command of muster's, or pack a run's files.

The order is in a file of the job's folder, the answer is a line of its output. Only the standard library and what
Ray itself needs, so that it runs whatever else is installed there.
"""

from __future__ import annotations

import base64
import fnmatch
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from io import BytesIO
from pathlib import Path
from typing import Any

ORDER = "order.json"
ANSWER = "muster:answer:"
BEGIN = "muster:begin"
END = "muster:end:"
"""Before the exit code of a command whose output is shown."""
POINTERS = ("latest", "best")
"""Those of `runs/checkpoints.py`, which cannot be imported here."""
NOT_PACKED = ("lock", "part.json", ".*.[0-9]*")
"""What belongs to processes there: locks, secrets, files that are just being written."""
_PACKAGE = ".fetch-"
_OLD_SECONDS = 24 * 3600


def main() -> int:
    """Do what the order says; return the exit code."""
    order = json.loads(Path(ORDER).read_text(encoding="utf-8"))
    if order["do"] == "attend":
        return _attend(order["arguments"])
    work = {"look": _look, "run": _run, "pack": _pack, "part": _part}[order["do"]]
    try:
        answer = work(order)
    except OSError as error:
        answer = {"failure": str(error)}
    print(f"\n{ANSWER}{json.dumps(answer)}", flush=True)
    return 0


def _look(order: dict[str, Any]) -> dict[str, Any]:
    """Return what is here, and which of the requirements have to be installed."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "ray": version("ray"),
        "hostname": socket.gethostname(),
        "folder": str(Path(order["folder"]).expanduser().resolve()),
        "missing": list(dict.fromkeys(line for wanted in order["requirements"] for line in _missing(wanted))),
    }


def _missing(line: str) -> Iterator[str]:
    """Return what to install for a line of requirements; never Ray itself, which runs already."""
    from packaging.requirements import InvalidRequirement, Requirement

    line = line.partition(" #")[0].strip()
    if not line or line.startswith("#"):
        return
    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        yield line
        return
    if wanted.marker is not None and not wanted.marker.evaluate():
        return
    if wanted.url or not _is_installed(wanted):
        if wanted.name.lower() != "ray":
            yield line
        return
    inner = [Requirement(text) for text in requires(wanted.name) or [] if wanted.extras]
    absent = [
        f"{one.name}{one.specifier}"
        for one in inner
        if one.marker is not None
        and any(one.marker.evaluate({"extra": extra}) for extra in wanted.extras)
        and not one.marker.evaluate({"extra": ""})
        and not _is_installed(one)
    ]
    yield from absent if wanted.name.lower() == "ray" else [line] if absent else []


def _is_installed(wanted: Any) -> bool:
    try:
        return bool(wanted.specifier.contains(version(wanted.name), prereleases=True))
    except PackageNotFoundError:
        return False


def _muster(arguments: list[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "muster", *arguments]


def _run(order: dict[str, Any]) -> dict[str, Any]:
    """Run a command of muster's; return what it printed and its exit code."""
    done = subprocess.run(_muster(order["arguments"]), capture_output=True, stdin=subprocess.DEVNULL, check=False)
    stdout, stderr = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return {"code": done.returncode, "stdout": stdout, "stderr": stderr}


def _attend(arguments: list[str]) -> int:
    """Run a command of muster's; pass on what it prints, between two marks."""
    print(BEGIN, flush=True)
    last = b"\n"
    with subprocess.Popen(
        _muster(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        while part := os.read(process.stdout.fileno(), 65_536):
            sys.stdout.buffer.write(part)
            sys.stdout.flush()
            last = part[-1:]
    print("" if last == b"\n" else "\n", END, process.returncode, sep="", flush=True)
    return 0


def _pack(order: dict[str, Any]) -> dict[str, Any]:
    """Pack what is new of a run's folder into a file beside it; return the file's size and its first part.

    What names a checkpoint is read first, and packed last: it never names one that is not packed.
    """
    folder, here = Path(order["folder"]), order["here"]
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: is gone")
    _remove_old(folder.parent)
    pointers = {path: str(path.readlink()) for path in folder.rglob("checkpoints/*") if _is_pointer(path)}
    descriptor, packed = tempfile.mkstemp(dir=folder.parent, prefix=_PACKAGE)
    os.close(descriptor)
    try:
        with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(folder.rglob("*")):
                name = path.relative_to(folder)
                if _is_wanted(name, order["only"]) and path not in pointers:
                    _add(tar, path, name, here)
            for path, target in pointers.items():
                if order["only"] is None and (path.parent / target).is_dir():
                    tar.addfile(_link(str(path.relative_to(folder)), target))
    except BaseException:
        Path(packed).unlink()
        raise
    return _part({"file": packed, "offset": 0, "length": order["length"]})


def _is_wanted(name: Path, only: str | None) -> bool:
    """Whether a file is packed: none that belongs to a process there; with a name, those of such folders alone."""
    if any(fnmatch.fnmatch(name.name, kind) for kind in NOT_PACKED):
        return False
    return only is None or only in name.parent.parts


def _part(order: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a packed file, which is removed after its last."""
    path = Path(order["file"])
    if not path.name.startswith(_PACKAGE):
        raise FileNotFoundError(f"{path}: was not packed")
    with path.open("rb") as file:
        file.seek(order["offset"])
        data = file.read(order["length"])
    size = path.stat().st_size
    if order["offset"] + len(data) >= size:
        path.unlink()
    return {"file": str(path), "size": size, "data": base64.b64encode(data).decode("ascii")}


def _add(tar: tarfile.TarFile, path: Path, name: Path, here: dict[str, Any]) -> None:
    """Add a file unless it is there already; one that goes away or changes meanwhile is taken as it is."""
    try:
        if path.is_symlink():
            target = os.path.relpath(path.resolve(), path.parent.resolve())
            if path.resolve().is_relative_to(path.parents[len(name.parts) - 1].resolve()):
                tar.addfile(_link(str(name), target))
            return
        found = path.stat()
        if not path.is_file() or here.get(str(name)) == mark(found):
            return
        content = path.read_bytes()
    except FileNotFoundError:
        return
    member = tarfile.TarInfo(str(name))
    member.size, member.mtime, member.mode = len(content), found.st_mtime, found.st_mode & 0o755
    tar.addfile(member, BytesIO(content))


def mark(found: os.stat_result) -> list[int]:
    """Return what is the same for a file and its copy, and another when it has changed."""
    return [found.st_size, round(found.st_mtime * 1000)]


def _link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def _is_pointer(path: Path) -> bool:
    return path.name in POINTERS and path.is_symlink()


def _remove_old(folder: Path) -> None:
    """Remove what fetches that were interrupted have left."""
    for path in folder.glob(f"{_PACKAGE}*"):
        if time.time() - path.stat().st_mtime > _OLD_SECONDS:
            path.unlink()


if __name__ == "__main__":
    sys.exit(main())
