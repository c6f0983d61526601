"""What a PBS server says of a job: its hosts' shares, and when it ends."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from muster.clusters.allocation.commands import ask
from muster.clusters.allocation.host_lists import short_name
from muster.clusters.allocation.model import Host, Sourced
from muster.clusters.allocation.variables import Environment, text

CONFIGURATION = "/etc/pbs.conf"
_SOURCE = "exec_vnode of qstat"
_EXEC = re.compile(r"^\s*PBS_EXEC=(\S+)", re.MULTILINE)
_CHUNK = re.compile(r"\(([^)]*)\)")
_SIZE = re.compile(r"(\d+)([kmgtp]?)([bw]?)", re.IGNORECASE)
_PREFIXES = ("", "k", "m", "g", "t", "p")
_WORD_BYTES = 8


@dataclass(frozen=True)
class PbsJob:
    """A running job."""

    shares: dict[str, Counter[str]]
    """What each host gives to the job, by the host's short name."""
    end_time: Sourced[float] | None

    def host(self, name: str) -> Host:
        """Return a host with its share; without one if the job has none there under this name."""
        share = self.shares.get(short_name(name), Counter())
        given = {key: Sourced(share[key], _SOURCE) for key in ("ncpus", "ngpus", "mem") if share[key]}
        return Host(name, given.get("ncpus"), given.get("ngpus"), given.get("mem"))


def ask_job(environ: Environment, job_id: str) -> PbsJob | None:
    """Ask the server for a job; None if it does not answer."""
    answer = ask(environ, find_program(environ, "qstat") or "qstat", "-f", "-F", "json", job_id)
    job = _only_job(answer or "")
    if job is None:
        return None
    shares = sum_chunks(str(job.get("exec_vnode", "")), str(job.get("exec_host", "")))
    return PbsJob(shares, _end_time(job))


def find_program(environ: Environment, name: str) -> str | None:
    """Return the path of one of PBS's programs, which a job's PATH may not have; None if it is not here."""
    given, configured = text(environ, "PBS_EXEC"), _configured_place(environ)
    places = [
        f"{given.value}/bin" if given else "",
        environ.get("PATH", ""),
        f"{configured}/bin" if configured else "",
    ]
    return next(filter(None, (shutil.which(name, path=place) for place in places if place)), None)


def sum_chunks(exec_vnode: str, exec_host: str) -> dict[str, Counter[str]]:
    """Add up the chunks of each host: `(v1:ncpus=4:mem=2gb)+(v1:ncpus=2)`, `h1/0*4+h1/1*2`.

    Both lists have the same order. Vnodes may be named otherwise than their hosts.
    """
    chunks = _CHUNK.findall(exec_vnode)
    hosts = [written.partition("/")[0] for written in exec_host.split("+")]
    if len(hosts) != len(chunks):
        hosts = [chunk.partition(":")[0] for chunk in chunks]
    shares: dict[str, Counter[str]] = {}
    for host, chunk in zip(hosts, chunks, strict=True):
        shares.setdefault(short_name(host), Counter()).update(_resources(chunk))
    return shares


def _configured_place(environ: Environment) -> str | None:
    path = text(environ, "PBS_CONF_FILE")
    try:
        found = _EXEC.search(Path(path.value if path else CONFIGURATION).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return found[1] if found else None


def _only_job(answer: str) -> dict[str, Any] | None:
    """Return the job of an answer, whose id may be spelled shorter or longer than ours."""
    try:
        jobs = list(json.loads(answer)["Jobs"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return jobs[0] if len(jobs) == 1 and isinstance(jobs[0], dict) else None


def _resources(chunk: str) -> Counter[str]:
    """Add up the vnodes of one chunk: `v1:ncpus=2:mem=1gb+v2:ncpus=2`."""
    resources: Counter[str] = Counter()
    for vnode in chunk.split("+"):
        for pair in vnode.split(":")[1:]:
            key, _, value = pair.partition("=")
            resources[key] += _size(value) if key == "mem" else int(value) if value.isdigit() else 0
    return resources


def _size(written: str) -> int:
    """Return a size in bytes: `512000kb`, `2gb`, or words of 8 bytes such as `100mw`."""
    found = _SIZE.fullmatch(written)
    if found is None:
        return 0
    unit = _WORD_BYTES if found[3].lower() == "w" else 1
    return int(found[1]) * unit << 10 * _PREFIXES.index(found[2].lower())


def _end_time(job: dict[str, Any]) -> Sourced[float] | None:
    try:
        start = datetime.strptime(job["stime"], "%a %b %d %H:%M:%S %Y").timestamp()
        parts = [int(part) for part in job["Resource_List"]["walltime"].split(":")]
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    seconds = sum(part * 60**power for power, part in enumerate(reversed(parts)))
    return Sourced(start + seconds, "stime and walltime of qstat")
