"""`[clusters.NAME]`: what a site or a set of hosts needs, written down once for `launch` and `submit`."""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from muster.clusters.ray_address import PREFIX, parse_ray_address
from muster.errors import InputError, OwnershipError
from muster.experiment.fields import Duration
from muster.experiment.source import read_toml

PROJECT_FILE = "muster.toml"
USER_FILE = "muster/clusters.toml"
SITES = Path(__file__).with_name("sites")
SCHEDULERS = ("slurm", "pbs", "cobalt", "lsf", "sge", "flux", "local")
SSH = "ssh"
"""Hosts without a scheduler, named in `hosts`."""
RAY = "ray"
"""A Ray that exists, by its address."""

DESTINATION = re.compile(r"[A-Za-z0-9_][^\x00-\x20:/]{0,254}")
"""A host as ssh knows it, by name; never a flag of ssh's, nor a colon, which ends a host for rsync."""
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])i?B?", re.IGNORECASE)
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def parse_memory(value: object) -> object:
    """Turn "16G" or "500MB" into bytes; a unit is a power of 1024."""
    if not isinstance(value, str):
        return value
    written = _MEMORY.fullmatch(value.strip())
    if written is None:
        raise ValueError('expected a size such as "16G" or "500M"')
    return int(float(written[1]) * _UNITS[written[2].upper()])


def _require_false(value: object) -> object:
    if value is not False:
        raise ValueError("expected a value, or false to leave it out")
    return value


def _require_key(key: str) -> str:
    if key not in NamedCluster.model_fields:
        raise ValueError(f"{key} is no key of a cluster")
    return key


LeftOut = Annotated[Literal[False], BeforeValidator(_require_false)]
"""`key = false`: leave the directive out, for a site that refuses it."""
Number = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Memory = Annotated[int, BeforeValidator(parse_memory), Field(strict=True, ge=1024**2, le=2**60)]


def _destination(text: str) -> str:
    if not DESTINATION.fullmatch(text):
        raise ValueError("expected a host as ssh knows it, such as me@login.site.org: no flag, spaces, ':' or '/'")
    return text


def _one_line(text: str) -> str:
    if any(sign < " " for sign in text):
        raise ValueError("expected text without line breaks or other control characters")
    return text


Destination = Annotated[str, Field(strict=True), AfterValidator(_destination)]
Word = Annotated[str, Field(strict=True, min_length=1, max_length=1000), AfterValidator(_one_line)]


class QueueLimits(BaseModel):
    """What a queue can give at most; None where nobody has told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    min_nodes: Number | None = None
    max_nodes: Number | None = None
    max_cpus: Number | None = Field(None, description="CPUs of each host.")
    max_gpus: int | None = Field(None, ge=0, description="GPUs of each host.")
    max_memory: Memory | None = Field(None, description="Memory of each host.")
    max_wall_time: Duration | None = None


class NamedCluster(BaseModel):
    """What is the same for every job and launch on a cluster; a flag goes before it."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    profile: Word | None = Field(None, description="Shipped profile to take from what is not given here.")
    scheduler: Literal["slurm", "pbs", "cobalt", "lsf", "sge", "flux", "local", "ssh", "ray"] | None = Field(
        None,
        description="Who gives the hosts: slurm, pbs, cobalt, lsf, sge, flux; local: this machine; ssh: `hosts`; "
        "ray: a Ray that exists.",
    )
    address: Annotated[str, Field(strict=True), AfterValidator(parse_ray_address)] | None = Field(
        None, description='Job server of a Ray that exists, such as "http://127.0.0.1:8265".'
    )
    remote: Destination | None = Field(None, description="Login node to submit from, reached by ssh: user@host.")
    nodes: Number | LeftOut | None = Field(None, description="Hosts of a job.")
    min_nodes: Number | None = Field(None, description="Run with so many hosts if others fail; default: all.")
    cpus: Number | LeftOut | None = Field(None, description="CPUs of each host.")
    gpus: Annotated[int, Field(strict=True, ge=0)] | LeftOut | None = Field(None, description="GPUs of each host.")
    memory: Memory | LeftOut | None = Field(None, description='Memory of each host, such as "64G".')
    wall_time: Duration | LeftOut | None = Field(None, description='How long a job may run, such as "2h".')
    account: Word | LeftOut | None = Field(None, description="Whose allocation is charged.")
    queue: Word | LeftOut | None = Field(
        None,
        validation_alias=AliasChoices("queue", "partition"),
        description="Queue; on Slurm the partition.",
    )
    qos: Word | LeftOut | None = Field(None, description="Quality of service.")
    constraint: Word | LeftOut | None = Field(None, description="Features that hosts must have.")
    reservation: Word | LeftOut | None = Field(None, description="Reservation to run in.")
    licences: Word | LeftOut | None = Field(
        None,
        validation_alias=AliasChoices("licences", "licenses"),
        description="Licences or file systems that the scheduler counts.",
    )
    parallel_environment: Word | None = Field(None, description="Parallel environment of Grid Engine.")
    directives: tuple[Word, ...] = Field(
        (), description="Further directives, verbatim, without the scheduler's prefix."
    )
    chain: Literal["requeue", "dependency", "ahead", "none"] | None = Field(
        None, description="How a job continues past its wall time; default: what the scheduler can do best."
    )
    requires: tuple[Annotated[str, AfterValidator(_require_key)], ...] = Field(
        (), description="Keys that must be given on this site."
    )
    login_shell: bool | None = Field(
        None, description="Run the job script in a login shell; default: true, on this machine false."
    )
    queues: Mapping[str, QueueLimits] = Field({}, description="What each queue can give at most.")
    hosts: tuple[Destination, ...] = Field(
        (), description="Hosts to reach by ssh, the head's first; none under a scheduler."
    )
    folder: Word | None = Field(
        None, description="Muster's folder on hosts reached by ssh; default: ~/.muster/NAME."
    )
    environment: Word | None = Field(
        None, description="Virtual environment on the hosts to use; default: one is made of the requirements."
    )
    requirements: tuple[Word, ...] = Field(
        (), description="What to install on the hosts; default: requirements.txt or pyproject.toml of the project."
    )
    wheels: bool = Field(False, description="Send wheels from here, for hosts without a package index.")
    dashboard: bool = Field(False, description="Start Ray's dashboard with each launch (extra ray).")
    interface: str | None = Field(None, description="Network to use: an interface or a subnet.")
    port_range: str | None = Field(None, description="Ports to choose from, LOW-HIGH.")
    timeout: str | None = Field(None, description="How long to wait for all hosts, such as 5m.")
    scratch: Word | None = Field(None, description="Folder on each host's own disk; default: TMPDIR.")
    grace: str | None = Field(None, description="Time between TERM and KILL of a job, such as 10s.")
    launcher: str | None = Field(None, description="Command that starts the ranks; {nodes} is replaced.")
    container: str | None = Field(None, description="Image to run the ranks in.")
    runtime: str | None = Field(None, description="Container runtime, and flags of its own.")
    python: str | None = Field(
        None, description="Python interpreter: inside the container, or to make an environment with by ssh."
    )
    unset: tuple[str, ...] = Field((), description="Variables to take out, such as LD_PRELOAD.")
    setup: tuple[str, ...] = Field(
        (), description="Shell lines that come before Ray and the command on each host."
    )

    @property
    def is_elsewhere(self) -> bool:
        """Whether its runs live on hosts that are reached over a network, and not on this file system."""
        return self.remote is not None or self.scheduler in (SSH, RAY)

    def as_file(self, name: str) -> str:
        """Return a TOML file with this cluster alone."""
        table = self.model_dump(exclude_unset=True, exclude_none=True, mode="json")
        return tomli_w.dumps({"clusters": {name: table}})


@dataclass(frozen=True)
class FoundCluster:
    """A cluster, its name, and the file that describes it; `built in` for a bare scheduler."""

    name: str
    cluster: NamedCluster
    source: str


def find_cluster(name: str, flag: str = "--cluster", experiment: Path | None = None) -> FoundCluster:
    """Return the cluster of a name, or the only one of a file.

    It is looked for in the project's `muster.toml`, the user's own file, an experiment's file, the shipped
    profiles; last, the name of a scheduler stands for itself. `ray:ADDRESS` is the Ray at that address.

    Raises:
        InputError: if there is none, or what is written of it cannot be used.
    """
    if name.startswith(PREFIX):
        return _ray_at(name.removeprefix(PREFIX), flag)
    if name.endswith(".toml"):
        return _only_cluster(Path(name), flag)
    known: list[str] = []
    for path in _files(experiment):
        clusters = _read(path)
        if name in clusters:
            return FoundCluster(name, _with_profile(_validate(clusters[name], path, name)), str(path))
        known += clusters
    if name in SCHEDULERS:
        return FoundCluster(name, NamedCluster.model_validate({"scheduler": name}), "built in")
    if name == RAY:
        raise InputError(f"{flag} {name}: which one? Give its address: {flag} {PREFIX}http://127.0.0.1:8265")
    close = difflib.get_close_matches(name, [*known, *SCHEDULERS], 1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join([*dict.fromkeys(known), *SCHEDULERS])}"
    raise InputError(
        f"{flag} {name}: no such cluster; {hint}\n"
        f"    write [clusters.{name}] into {PROJECT_FILE} of the project or {user_file()}; "
        "`muster clusters` lists what there is"
    )


def list_clusters() -> list[FoundCluster]:
    """Return every cluster that can be named, in the order in which they are looked for.

    Raises:
        InputError: if a file cannot be used.
    """
    found: dict[str, FoundCluster] = {}
    for path in _files(None):
        for name, table in _read(path).items():
            found.setdefault(name, FoundCluster(name, _with_profile(_validate(table, path, name)), str(path)))
    return list(found.values())


def with_flags(found: FoundCluster, values: Mapping[str, Any], command: str) -> FoundCluster:
    """Return a cluster with the values of a command's flags in place of its own.

    Raises:
        InputError: naming all flags that cannot be used.
    """
    try:
        table = found.cluster.model_dump(exclude_unset=True)
        return replace(found, cluster=NamedCluster.model_validate({**table, **values}))
    except ValidationError as error:

        def spell(key: str) -> str:
            value = values.get(key, "")
            written = str(value).lower() if isinstance(value, bool) else value
            return f"--{key.replace('_', '-')} {written}".rstrip()

        raise InputError(f"{command}: flags that cannot be used{cluster_problems(error, spell)}") from None


def user_file() -> Path:
    """Return the user's own file of clusters."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or home_folder() / ".config") / USER_FILE


def home_folder() -> Path:
    """Return the user's home; the root folder for a user who has none, as in some containers."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def _ray_at(address: str, flag: str) -> FoundCluster:
    try:
        address = parse_ray_address(address)
    except ValueError as error:
        raise InputError(f"{flag} {PREFIX}{address}: {error}") from None
    return FoundCluster(RAY, NamedCluster.model_validate({"scheduler": RAY, "address": address}), flag)


def _only_cluster(path: Path, flag: str) -> FoundCluster:
    _require_safe(path)
    clusters = _read(path)
    if len(clusters) != 1:
        raise InputError(f"{flag} {path}: holds {len(clusters)} clusters, expected one")
    [(name, table)] = clusters.items()
    return FoundCluster(name, _with_profile(_validate(table, path, name)), str(path))


def _files(experiment: Path | None) -> Iterator[Path]:
    """Return the files that may describe clusters; those of another user are refused."""
    here = Path.cwd()
    project = next((folder / PROJECT_FILE for folder in (here, *here.parents) if _is_file(folder)), None)
    for path in (project, user_file(), experiment):
        if path is not None and path.is_file():
            _require_safe(path)
            yield path
    yield from sorted(SITES.glob("*.toml"))


def _is_file(folder: Path) -> bool:
    return (folder / PROJECT_FILE).is_file()


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


def _with_profile(cluster: NamedCluster) -> NamedCluster:
    """Take from a shipped profile what is not given."""
    if cluster.profile is None:
        return cluster
    path = SITES / f"{cluster.profile}.toml"
    profiles = [site.stem for site in sorted(SITES.glob("*.toml"))]
    if cluster.profile not in profiles:
        raise InputError(f"profile = {cluster.profile!r}: no such profile; known: {', '.join(profiles)}")
    given = cluster.model_dump(exclude_unset=True)
    return NamedCluster.model_validate({**_read(path)[cluster.profile], **given})


def _validate(table: Any, path: Path, name: str) -> NamedCluster:
    if not isinstance(table, dict):
        raise InputError(f"{path}: clusters.{name}: expected a table, [clusters.{name}]")
    try:
        return NamedCluster.model_validate(table)
    except ValidationError as error:
        raise InputError(f"{path}: [clusters.{name}]: cannot be used{cluster_problems(error)}") from None


def cluster_problems(error: ValidationError, spell: Callable[[str], str] = str) -> str:
    """Return all that is wrong with a cluster, a line each, by its keys or as they are spelled."""
    lines: dict[str, str] = {}
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"] if str(part) in _KEYS or not _is_branch(part))
        close = difflib.get_close_matches(key, _KEYS, 1)
        hint = f"; did you mean {close[0]}?" if problem["type"] == "extra_forbidden" and close else ""
        lines.setdefault(key, f"\n  {spell(key)}: {_message(problem['type'], problem['msg'])}{hint}")
    return "".join(lines.values())


def _message(kind: str, message: str) -> str:
    """Say in the words of a TOML file what is wrong."""
    expected = {"tuple_type": 'a list, such as ["..."]', "dict_type": "a table", "bool_parsing": "true or false"}
    if kind in expected:
        return f"expected {expected[kind]}"
    return "no such key" if kind == "extra_forbidden" else message.removeprefix("Value error, ")


def _is_branch(part: object) -> bool:
    """Whether a part of a place is pydantic's name of one of a key's types, and nothing that a user wrote."""
    return isinstance(part, str) and part.startswith(
        ("constrained-", "function-", "int", "str", "float", "literal")
    )


_KEYS = tuple(NamedCluster.model_fields)
