"""What muster does on a host that may not have muster yet: look at it, make its environment, clean up.

Sent over ssh and run by whatever Python 3 is there, with the standard library alone: the order is the first line
of standard input, the answer the last line of standard output.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import random
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ANSWER = "muster-answer "
COMPLETE = "complete.json"
SEEN = "seen"
SEEN_SECONDS = 3600
LEAST_FREE = 64 * 1024**2
_FACTS = """
import json, platform, sys
from importlib import metadata
try:
    ray = metadata.version("ray")
except metadata.PackageNotFoundError:
    ray = None
packages = [path for path in sys.path if path.endswith("-packages")]
print(json.dumps({"version": platform.python_version(), "ray": ray, "packages": packages}))
"""


class AgentError(Exception):
    """The host is not fit; the message says why."""


def look(order: dict[str, Any]) -> dict[str, Any]:
    """Report on this host: its Python, space, addresses, and what is there already."""
    folder = _folder(order)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SEEN).is_dir():
        raise AgentError(f"{folder}: holds other files; give muster a folder of its own: folder = ...")
    for name in (SEEN, *order["folders"]):
        _make(folder / name)
    _require_space(folder)
    _forget_old(folder / SEEN)
    (folder / SEEN / f"{order['nonce']}-{order['number']}").touch()
    python = _find_python(order)
    facts = json.loads(_check([python, "-c", _FACTS], f"run {python}").strip().splitlines()[-1])
    return {
        **facts,
        **meeting(order),
        "hostname": socket.gethostname(),
        "folder": str(folder),
        "python": python,
        "system": sys.platform,
        "machine": platform.machine(),
        "libc": platform.libc_ver()[1],
        "has_rsync": shutil.which("rsync") is not None,
        "has_environment": (folder / "environments" / order["environment_id"] / COMPLETE).exists(),
        "has_muster": (folder / "muster" / order["muster_id"] / COMPLETE).exists(),
    }


def meeting(order: dict[str, Any]) -> dict[str, Any]:
    """Return where ranks on other hosts can meet one on this host."""
    return {"addresses": _addresses(), "port": _free_port(order["port_range"])}


def sharing(order: dict[str, Any]) -> dict[str, Any]:
    """Return which hosts of this submission see the same folder."""
    seen = (_folder(order) / SEEN).glob(f"{order['nonce']}-*")
    return {"numbers": sorted(int(path.name.rpartition("-")[2]) for path in seen)}


def make_environment(order: dict[str, Any]) -> dict[str, Any]:
    """Make the virtual environment of the requirements, whole or not at all, one process at a time."""
    path = _folder(order) / "environments" / order["environment_id"]
    _make(path.parent)
    with path.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (path / COMPLETE).exists():
            shutil.rmtree(path, ignore_errors=True)
            _make(path)
            try:
                _install(path, order)
                _complete(path)
            except BaseException:
                shutil.rmtree(path, ignore_errors=True)
                raise
    return {}


def _install(path: Path, order: dict[str, Any]) -> None:
    what = "make a virtual environment (is python3-venv installed?)"
    _check([order["python"], "-m", "venv", str(path)], what)
    requirements = path / "requirements.txt"
    requirements.write_text(order["requirements"], encoding="utf-8")
    command = [str(path / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if order["wheels"]:
        command += ["--no-index", "--find-links", str(_folder(order) / order["wheels"])]
    _check([*command, "--requirement", str(requirements)], "install the requirements", order["project"])


def make_muster(order: dict[str, Any]) -> dict[str, Any]:
    """Put a Python beside the muster that was sent: it sees this muster, then the environment's packages."""
    path = _folder(order) / "muster" / order["muster_id"]
    [packages] = path.glob("lib/python3*/site-packages")
    _check([order["python"], "-m", "venv", "--without-pip", str(path)], "make a virtual environment")
    added = "; ".join(f"site.addsitedir({place!r})" for place in order["packages"])
    (packages / "environment.pth").write_text(f"import site; {added}\n", encoding="utf-8")
    about = packages / f"muster_rl-{order['version']}.dist-info"
    _make(about)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: muster-rl\nVersion: {order['version']}\n")
    python, program = path / "bin" / "python", path / "bin" / "muster"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} -P -m muster "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    _complete(path)
    return {}


def whereabouts(order: dict[str, Any]) -> dict[str, Any]:
    """Return where our folder is, and a muster in it that is whole."""
    folder = _folder(order)
    found = [path.parent / "bin" / "muster" for path in folder.glob(f"muster/*/{COMPLETE}")]
    return {"folder": str(folder), "muster": str(found[0]) if found else None}


def clean(order: dict[str, Any]) -> dict[str, Any]:
    """Remove all that muster has put on this host for one cluster; a folder that is not ours stays."""
    folder = _folder(order)
    if not (folder / SEEN).is_dir():
        return {"removed": False}
    # Of hosts that share the folder, one takes it away.
    gone = folder.with_name(f".{folder.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        folder.rename(gone)
    except FileNotFoundError:
        return {"removed": False}
    shutil.rmtree(gone)
    if order["is_default"]:
        with suppress(OSError):
            folder.parent.rmdir()
    return {"removed": True}


def _folder(order: dict[str, Any]) -> Path:
    return Path(os.path.expandvars(order["folder"])).expanduser().resolve()


def _find_python(order: dict[str, Any]) -> str:
    """Return the interpreter to use: that of a given environment, the one that is named, or one of our version."""
    if order["environment"]:
        python = Path(order["environment"]).expanduser() / "bin" / "python"
        if not os.access(python, os.X_OK):
            raise AgentError(f"environment = {order['environment']!r}: there is no {python}")
        return str(python)
    wanted = [order["python"]] if order["python"] else [f"python{order['minor']}", "python3"]
    for name in wanted:
        if found := shutil.which(str(Path(name).expanduser())):
            return found
    raise AgentError(f"no Python found: looked for {', '.join(wanted)}")


def _addresses() -> list[str]:
    """Return this host's addresses as others may see it, the one that leads out first."""
    found = []
    for target in ("10.255.255.255", "192.0.2.1"):
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            found.append(probe.getsockname()[0])
    with suppress(OSError):
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    return [address for address in dict.fromkeys(found) if not address.startswith("127.")]


def _free_port(port_range: list[int] | None) -> int:
    """Return a port on which nothing listens."""
    ports = list(range(port_range[0], port_range[1] + 1)) if port_range else [0]
    random.shuffle(ports)
    for port in ports:
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return int(probe.getsockname()[1])
    raise AgentError(f"no port is free in port_range = {port_range}")


def _require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        raise AgentError(f"{folder}: only {free // 1024**2} MiB are free on its disk")


def _forget_old(folder: Path) -> None:
    """Remove what earlier submissions left; one that is under way needs no more than minutes."""
    for path in folder.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > SEEN_SECONDS:
                path.unlink()


def _complete(path: Path) -> None:
    (path / COMPLETE).write_text(json.dumps({"time": time.time()}))


def _make(path: Path) -> None:
    """Make a folder for this user alone: code that will run lies below it."""
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            with suppress(FileExistsError):
                folder.mkdir(0o700)


def _check(command: list[str], what: str, folder: str | None = None) -> str:
    """Run a command; return what it prints."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        raise AgentError(f"could not {what}: {' | '.join(lines[-4:]) or f'code {done.returncode}'}")
    return text


def main(order: dict[str, Any]) -> None:
    """Do what the order says, and print the answer."""
    try:
        answer = globals()[order["do"]](order)
    except AgentError as error:
        answer = {"failure": str(error)}
    except OSError as error:
        answer = {"failure": f"{error.filename or order['folder']}: {error.strerror or error}"}
    print(ANSWER + json.dumps(answer), flush=True)
