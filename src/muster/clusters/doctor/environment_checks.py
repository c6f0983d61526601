"""What a host's environment does to Ray: variables, limits, and other Rays beside ours."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from muster.clusters.doctor.findings import HostFinding, problem, warning, well
from muster.clusters.local import ADDRESS_VARIABLE
from muster.environment_variables import LAUNCH_CPUS_VARIABLE

LEAST_OPEN_FILES, GOOD_OPEN_FILES = 1024, 8192
PROCESSES_PER_HOST, PROCESSES_PER_CPU = 256, 64
"""Threads count too: Ray's own services have some hundred, each of its workers some dozen."""
UNLIMITED = -1
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_RAY_PROGRAMS = {"raylet", "gcs_server"}


def check_preload(environ: Mapping[str, str]) -> HostFinding:
    """Look for a library that is loaded into every process."""
    if not (preloaded := environ.get("LD_PRELOAD", "").strip()):
        return well("LD_PRELOAD", "not set")
    return warning(
        "LD_PRELOAD",
        f"{preloaded} is loaded into every process, and Ray's may crash or slow down with it",
        "take it out: unset LD_PRELOAD, or muster launch --unset LD_PRELOAD",
    )


def check_proxies(environ: Mapping[str, str], hosts: Sequence[str]) -> HostFinding:
    """Look for a proxy that connections between the hosts would be sent to."""
    lowered = {name.lower(): value for name, value in environ.items()}
    proxies = [name for name in _PROXIES if lowered.get(name)]
    if not proxies:
        return well("proxies", "none set")
    bypass = lowered.get("no_proxy", "")
    sent = [host for host in hosts if not _is_bypassed(host, bypass)]
    if not sent:
        return well("proxies", f"{', '.join(proxies)} set, and no_proxy has all hosts")
    return warning(
        "proxies",
        f"{', '.join(proxies)} set, but no_proxy lacks {len(sent)} of localhost and the hosts' addresses: "
        "what the hosts tell each other may go to the proxy",
        f"export no_proxy={','.join(filter(None, [bypass, *sent]))}  (muster launch does so by itself)",
    )


def check_ray_address(environ: Mapping[str, str]) -> HostFinding:
    """Look for the address of a Ray that is not this allocation's."""
    address = environ.get(ADDRESS_VARIABLE)
    if not address:
        return well(ADDRESS_VARIABLE, "not set")
    if environ.get(LAUNCH_CPUS_VARIABLE):
        return well(ADDRESS_VARIABLE, "set by muster launch")
    return warning(
        ADDRESS_VARIABLE,
        f"set to {address}: muster train would join that Ray, whoever's it is",
        f"unset {ADDRESS_VARIABLE}, unless it is the Ray that you want to train on",
    )


def check_open_files(limit: int) -> HostFinding:
    """Judge the hard limit, for Ray raises the soft one to it."""
    if limit == UNLIMITED or limit >= GOOD_OPEN_FILES:
        return well("open files", "the limit is high enough")
    found = f"at most {limit} open files a process (ulimit -Hn)"
    if limit >= LEAST_OPEN_FILES:
        remedy = f"ask your site for {GOOD_OPEN_FILES} if workers fail with 'Too many open files'"
        return warning("open files", f"{found}: enough for some dozen workers only", remedy)
    remedy = f"take ulimit -n out of your shell's start-up files, or ask your site for {GOOD_OPEN_FILES}"
    return problem("open files", f"{found}: Ray needs {LEAST_OPEN_FILES} at least", remedy)


def check_processes(limit: int, num_cpus: int) -> HostFinding:
    """Judge how many processes and threads this user may have."""
    needed = PROCESSES_PER_HOST + PROCESSES_PER_CPU * num_cpus
    if limit == UNLIMITED or limit >= needed:
        return well("processes", "the limit is high enough")
    return problem(
        "processes",
        f"at most {limit} processes and threads for this user (ulimit -u); Ray on {num_cpus} CPUs "
        f"needs about {needed}",
        f"ulimit -u {needed} in the job script; if that is refused, ask your site, or use fewer workers",
    )


def check_other_rays(proc: Path = Path("/proc"), folder: Path = Path("/tmp/ray")) -> list[HostFinding]:
    """Look for Rays that run on this host already, and for a folder of another user's."""
    findings = []
    if others := _ray_processes(proc):
        listed = ", ".join(f"{name} ({pid}, of {owner})" for pid, name, owner in others)
        findings.append(
            warning(
                "other Rays",
                f"a Ray runs here already and shares CPUs and memory: {listed}",
                "muster's own Ray does not meet it; if it is yours and forgotten, end it: kill PID",
            )
        )
    with suppress(OSError):
        if (owner_id := folder.stat().st_uid) != os.getuid():
            owner = _user(owner_id)
            findings.append(well("other Rays", f"{folder} is of {owner}; muster uses a folder of its own"))
    return findings or [well("other Rays", "none")]


def _is_bypassed(host: str, no_proxy: str) -> bool:
    """Whether no_proxy has a host: by its name, by a domain that it is in, or by a star."""
    entries = [entry.strip().lstrip(".") for entry in no_proxy.split(",")]
    return "*" in entries or any(host == entry or host.endswith(f".{entry}") for entry in entries if entry)


def _ray_processes(proc: Path) -> list[tuple[int, str, str]]:
    found = []
    for process in proc.glob("[0-9]*"):
        # It may end while we look.
        with suppress(OSError):
            program = (process / "cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
            if (name := Path(program).name) in _RAY_PROGRAMS:
                found.append((int(process.name), name, _user(process.stat().st_uid)))
    return sorted(found)


def _user(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"user {user_id}"
