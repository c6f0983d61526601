"""What is kept here of a run that lives elsewhere: where it is, and how muster is called there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from muster.clusters.named import NamedCluster
from muster.errors import InputError
from muster.files.ownership import OWN_FOLDER, require_own
from muster.files.regular import is_folder, is_regular, read_bytes
from muster.runs.files import explained, write_json
from muster.runs.folder import ELSEWHERE

_KINDS = ("ssh", "ray")


@dataclass(frozen=True)
class HostRecord:
    """A host that has a part of the run."""

    folder: str
    """The run's folder there."""
    python: str
    """The interpreter whose `-m muster` is run there."""
    hostname: str = ""
    """What the host calls itself."""


@dataclass(frozen=True)
class Elsewhere:
    """Where a run is. The first host is the one with the results, and the one to ask."""

    kind: str
    """`ssh` or `ray`."""
    cluster: str
    scheduler: str
    hosts: Mapping[str, HostRecord]
    """By the names that ssh knows; for a Ray, by its address."""
    table: Mapping[str, Any] = field(default_factory=dict)
    """The cluster, as a table of `[clusters.NAME]`."""
    job_id: str = ""
    """Of a Ray job."""
    requirements: tuple[str, ...] = ()
    """What a Ray job needs, line by line."""
    packages: tuple[str, ...] = ()
    """What of that the Ray lacked, and installs for each job."""
    submitted: float = field(default_factory=time.time)

    @property
    def host(self) -> str:
        """Whom to ask."""
        return next(iter(self.hosts))

    @property
    def settings(self) -> NamedCluster:
        """The cluster as it was when the run was submitted."""
        return NamedCluster.model_validate(self.table)

    @property
    def first(self) -> HostRecord:
        """What is on the host to ask."""
        return self.hosts[self.host]


@dataclass(frozen=True)
class RunElsewhere:
    """A run that lives elsewhere: its folder here, its record, and the part of it that is meant."""

    path: Path
    record: Elsewhere
    member: str = ""
    """One run of several, such as `seed-1`."""

    @property
    def folder(self) -> str:
        """The run's folder on the host to ask."""
        return self.folder_on(self.record.host)

    def folder_on(self, host: str) -> str:
        """Return the run's folder on one of its hosts."""
        folder = self.record.hosts[host].folder
        return f"{folder}/{self.member}" if self.member else folder

    def host_named(self, name: str) -> str:
        """Return the host that a person means, who may leave out the user or the domain.

        Raises:
            InputError: naming the hosts there are.
        """
        for host, known in self.record.hosts.items():
            alone = host.rpartition("@")[2]
            if name in (host, alone, alone.partition(".")[0], known.hostname):
                return host
        raise InputError(f"--host {name}: not a host of this run; there are {', '.join(self.record.hosts)}")


def write_record(path: Path, record: Elsewhere) -> None:
    """Keep where a run is in its folder here."""
    with explained(path):
        path.mkdir(OWN_FOLDER, parents=True, exist_ok=True)
        write_json(path / ELSEWHERE, asdict(record))


def read_record(path: Path) -> Elsewhere:
    """Return where a run is.

    Raises:
        InputError: if the record is damaged.
        OwnershipError: if another user could have written it: what it names is run over ssh.
    """
    file = path / ELSEWHERE
    require_own([path, file], f"{path.name}: asking where it runs", trust=False)
    try:
        table = json.loads(read_bytes(file))
        hosts = {str(name): HostRecord(**value) for name, value in table.pop("hosts").items()}
        lists = {name: tuple(table.get(name, ())) for name in ("requirements", "packages")}
        record = Elsewhere(**{**table, **lists, "hosts": hosts})
        record.settings  # noqa: B018 - raises if the table is not a cluster's
        words = [record.cluster, record.scheduler, *hosts]
        words += [word for host in hosts.values() for word in (host.folder, host.python)]
        words += [*record.requirements, *record.packages]
        if record.kind not in _KINDS or not hosts or not all(isinstance(word, str) and word for word in words):
            raise ValueError("not what muster wrote")
        if any(name.startswith("-") for name in hosts):
            raise ValueError("a host's name begins with -")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read: {error}\n    submit the run again") from None
    return record


def find_elsewhere(run: str | Path, directory: Path) -> RunElsewhere | None:
    """Find a run that lives elsewhere by its name or folder, or one of several below it; None if it is none."""
    for path in (Path(run), directory / run):
        for outer, member in ((path, ""), (path.parent, path.name)):
            if str(run) and is_regular(outer / ELSEWHERE):
                return RunElsewhere(outer.resolve(), read_record(outer), member)
    return None


def list_elsewhere(directory: Path) -> list[Path]:
    """Return the folders of the runs that live elsewhere."""
    try:
        folders = sorted(directory.iterdir())
    except OSError:
        return []
    return [path.resolve() for path in folders if is_folder(path) and is_regular(path / ELSEWHERE)]


def last_line(output: str) -> str:
    """Return the answer in what a command printed there, after what a login shell may have said."""
    return output.strip().rpartition("\n")[2]
