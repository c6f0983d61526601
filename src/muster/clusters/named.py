"""`[clusters.NAME]`: what a site or a set of hosts needs, written down once for `muster launch --cluster NAME`."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.errors import InputError, OwnershipError
from muster.experiment.source import read_toml

PROJECT_FILE = "muster.toml"
USER_FILE = "muster/clusters.toml"


class NamedCluster(BaseModel):
    """What is the same for every launch on a cluster; a flag goes before it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: tuple[str, ...] = Field(
        (), description="Hosts to reach by ssh, the head's first; none under a scheduler."
    )
    cpus: int | None = Field(None, ge=1, description="CPUs of each host.")
    gpus: int | None = Field(None, ge=0, description="GPUs of each host.")
    interface: str | None = Field(None, description="Network to use: an interface or a subnet.")
    port_range: str | None = Field(None, description="Ports to choose from, LOW-HIGH.")
    timeout: str | None = Field(None, description="How long to wait for all hosts, such as 5m.")
    grace: str | None = Field(None, description="Time between TERM and KILL of a job, such as 10s.")
    launcher: str | None = Field(None, description="Command that starts the ranks; {nodes} is replaced.")
    container: str | None = Field(None, description="Image to run the ranks in.")
    runtime: str | None = Field(None, description="Container runtime, and flags of its own.")
    python: str | None = Field(None, description="Python interpreter inside the container.")
    unset: tuple[str, ...] = Field((), description="Variables to take out, such as LD_PRELOAD.")
    setup: tuple[str, ...] = Field(
        (), description="Shell lines that come before Ray and the command on each host."
    )


def find_cluster(name: str) -> NamedCluster:
    """Return the cluster of that name: of the project's `muster.toml`, else of the user's own file.

    Raises:
        InputError: if there is none, or what is written of it cannot be used.
    """
    known: list[str] = []
    for path in _files():
        _require_safe(path)
        clusters = _read(path)
        if name in clusters:
            return _validate(clusters[name], f"{path}: [clusters.{name}]")
        known += clusters
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known) or 'none'}"
    raise InputError(
        f"--cluster {name}: no such cluster; {hint}\n"
        f"    write [clusters.{name}] into {PROJECT_FILE} of the project or {_user_file()}"
    )


def _files() -> Iterator[Path]:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT_FILE).is_file():
            yield folder / PROJECT_FILE
            break
    if _user_file().is_file():
        yield _user_file()


def _user_file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / USER_FILE


def _require_safe(path: Path) -> None:
    """Refuse a file that another user wrote or anyone may change, for its setup lines would run as this user.

    Raises:
        OwnershipError: if it is such a file.
    """
    with suppress(OSError):
        status = path.stat()
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & stat.S_IWOTH:
            raise OwnershipError(
                f"{path}: belongs to user {status.st_uid} or can be changed by anyone, and could run code as you\n"
                "    copy it into your project if you trust it, or chmod o-w it"
            )


def _read(path: Path) -> dict[str, Any]:
    clusters = read_toml(path)[1].get("clusters", {})
    if not isinstance(clusters, dict):
        raise InputError(f"{path}: clusters must be tables, such as [clusters.mine]")
    return clusters


def _validate(table: Any, place: str) -> NamedCluster:
    try:
        return NamedCluster.model_validate(table)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            key = ".".join(map(str, problem["loc"]))
            close = difflib.get_close_matches(key, NamedCluster.model_fields, 1)
            hint = f"; did you mean {close[0]}?" if problem["type"] == "extra_forbidden" and close else ""
            message = "no such key" if problem["type"] == "extra_forbidden" else problem["msg"]
            lines.append(f"\n  {key}: {message}{hint}")
        raise InputError(f"{place}: cannot be used{''.join(lines)}") from None
