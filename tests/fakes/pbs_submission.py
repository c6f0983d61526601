"""What OpenPBS 23.06's qsub accepts: options, directives, resources, dependencies."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from tests.fakes.core import QueueEntry, RefusedError, Site
from tests.fakes.jobs import HELD, QUEUED, Dependency, Job
from tests.fakes.options import Options, UnknownOptionError, colon_seconds, last, parse, read_script

ATTRIBUTE, UNKNOWN_QUEUE, UNKNOWN_RESOURCE, TOO_MUCH = 166, 170, 187, 188
SUBMIT_VALUES = "-a -A -c -C -e -j -J -k -l -m -M -N -o -p -P -q -r -R -S -u -v -W"
SUBMIT_FLAGS = "-h -V -X -z -f"
JOB_RESOURCES = {"select", "place", "walltime", "ncpus", "mem", "filesystems"}
CHUNK_RESOURCES = {"ncpus", "mem", "mpiprocs", "ompthreads", "ngpus", "host", "vnode", "arch", "system"}
VALUES = {
    "-N": r"[A-Za-z0-9_+-][\w.+-]{0,229}",
    "-j": r"oe|eo|n",
    "-k": r"[oed]{1,3}|n",
    "-r": r"[yn]",
    "-J": r"\d+-\d+(:\d+)?(%\d+)?",
    "-m": r"[abej]+|n",
}
MIB = {"b": 2**-20, "kb": 2**-10, "mb": 1, "gb": 2**10, "tb": 2**20}


def split_program(words: list[str]) -> tuple[list[str], list[str]]:
    """The options and operands of a command line, and the program after `--`."""
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def read_options(words: list[str], with_value: str, without: str, command: str) -> tuple[Options, list[str]]:
    """Read a command's options, or refuse them as getopt does."""
    try:
        return parse(words, with_value, without)
    except UnknownOptionError as error:
        letter = error.option.lstrip("-")[:1] or "-"
        raise RefusedError(f"{command}: invalid option -- '{letter}'\nusage: {command} ...", 2) from None


def submit_options(words: list[str], command: str) -> tuple[Options, list[str]]:
    """Read qsub's options and check the form of their values."""
    options, rest = read_options(words, SUBMIT_VALUES, SUBMIT_FLAGS, command)
    for name, pattern in VALUES.items():
        if any(not re.fullmatch(pattern, value) for value in options.get(name, [])):
            raise RefusedError(f"{command}: illegal {name} value", 2)
    return options, rest


def script_text(rest: list[str]) -> str:
    """The job script: a file, or standard input."""
    if not rest or rest == ["-"]:
        return sys.stdin.read()
    return read_script(rest[0], lambda: RefusedError(f"qsub: script file '{rest[0]}' cannot be loaded"))


def make_job(site: Site, options: Options, default_name: str) -> Job:
    """The job that the options ask for."""
    resources = _resources(options.get("-l", []))
    queue = last(options, "-q", site.default_queue())
    if queue not in site.configuration.queues:
        raise RefusedError("qsub: Unknown queue", UNKNOWN_QUEUE)
    nodes, chunk = _chunks(resources)
    wall_time = _checked(resources, "walltime", colon_seconds)
    cpus = int(chunk.get("ncpus", "1"))
    _enforce(site.configuration.queues[queue], nodes, cpus, wall_time)
    name = last(options, "-N", default_name)
    folder = str(Path.cwd())
    out, error = f"{name}.o{{number}}", f"{name}.e{{number}}"
    if "-J" in options:
        out, error = f"{out}.^array_index^", f"{error}.^array_index^"
    joined = last(options, "-j", "n") == "oe"
    job = Job(
        0,
        name=name,
        queue=queue,
        nodes=nodes,
        cpus=cpus,
        memory_mib=int(_memory(chunk.get("mem", "0")) or 0),
        scatter="scatter" in resources.get("place", ""),
        wall_time=wall_time,
        environment={"HOME": os.environ["HOME"], "PATH": os.environ.get("PATH", "")},
        folder=folder,
        stdout=_path(last(options, "-o", out), folder),
        stderr="" if joined else _path(last(options, "-e", error), folder),
        dependencies=_dependencies(options.get("-W", [])),
        state=HELD if "-h" in options else QUEUED,
    )
    job.extra = {
        "keep": last(options, "-k", "n"),
        "variables": _passed(options),
        "mpiprocs": int(chunk.get("mpiprocs", "1")),
        "user_hold": "-h" in options,
        "account": last(options, "-A"),
        "resources": resources,
    }
    return job


def _resources(lists: list[str]) -> dict[str, str]:
    resources: dict[str, str] = {}
    for item in ",".join(lists).split(",") if lists else []:
        name, equals, value = item.partition("=")
        if name not in JOB_RESOURCES:
            raise RefusedError(f"qsub: Unknown resource  Resource_List.{name}", UNKNOWN_RESOURCE)
        if not equals or not value:
            raise RefusedError("qsub: illegal -l value", 2)
        resources[name] = value
    return resources


def _chunks(resources: dict[str, str]) -> tuple[int, dict[str, str]]:
    """The number of chunks and what each is; the fake knows only chunks that are all the same."""
    select = resources.get("select", f"1:ncpus={resources.get('ncpus', '1')}")
    count, *items = select.split(":")
    if not count.isdigit():
        count, items = "1", [count, *items]
    chunk = dict(item.partition("=")[::2] for item in items)
    for name, value in chunk.items():
        if name not in CHUNK_RESOURCES:
            raise RefusedError(f"qsub: Unknown resource  Resource_List.select.{name}", UNKNOWN_RESOURCE)
        numeric = value.isdigit() if name in ("ncpus", "mpiprocs", "ompthreads", "ngpus") else bool(value)
        if not numeric or (name == "mem" and _memory(value) is None):
            raise RefusedError(f"qsub: Illegal attribute or resource value Resource_List.{name}", ATTRIBUTE)
    return int(count), chunk


def _checked(resources: dict[str, str], name: str, read: Callable[[str], float | None]) -> float | None:
    if name not in resources:
        return None
    value = read(resources[name])
    if value is None:
        raise RefusedError(f"qsub: Illegal attribute or resource value Resource_List.{name}", ATTRIBUTE)
    return value


def _memory(text: str) -> float | None:
    found = re.fullmatch(r"(\d+)(b|kb|mb|gb|tb)?", text.lower())
    return int(found[1]) * MIB[found[2] or "b"] if found else None


def _enforce(queue: QueueEntry, nodes: int, cpus: int, wall_time: float | None) -> None:
    over = (
        (queue.max_nodes is not None and nodes > queue.max_nodes)
        or (queue.min_nodes is not None and nodes < queue.min_nodes)
        or (queue.max_cpus is not None and cpus > queue.max_cpus)
        or (queue.max_wall_time is not None and wall_time is not None and wall_time > queue.max_wall_time)
    )
    if over:
        raise RefusedError("qsub: Job violates queue and/or server resource limits", TOO_MUCH)


def _dependencies(attributes: list[str]) -> list[Dependency]:
    found = []
    for attribute in attributes:
        name, _, value = attribute.partition("=")
        if name not in ("depend", "umask", "group_list", "block", "sandbox", "stagein", "stageout"):
            raise RefusedError("qsub: illegal -W value", 2)
        for item in value.split(",") if name == "depend" else []:
            kind, *ids = item.split(":")
            numbers = [re.fullmatch(r"(\d+)(\[\])?(\.\S+)?", text) for text in ids]
            if kind not in ("afterany", "afterok", "afternotok") or not ids or None in numbers:
                raise RefusedError("qsub: illegal -W value", 2)
            found += [Dependency(int(number[1]), kind.removeprefix("after")) for number in numbers if number]
    return found


def _passed(options: Options) -> dict[str, str]:
    """The variables of -V, all but PATH, and of -v: `A,B="x,y z"`."""
    passed = {name: value for name, value in os.environ.items() if name != "PATH"} if "-V" in options else {}
    for item in re.findall(r'((?:[^,"]|"[^"]*")+)', last(options, "-v")):
        name, equals, value = item.partition("=")
        if equals or name in os.environ:
            passed[name] = value.strip('"') if equals else os.environ[name]
    return passed


def _path(text: str, folder: str) -> str:
    """A path without the host before its colon, as seen from the folder of submission."""
    plain = re.sub(r"^[^/:]+:", "", text)
    return os.path.join(folder, plain)  # noqa: PTH118  (keeps a slash at the end)


def array_indices(job: Job, text: str) -> range | None:
    """The indices of `X-Y[:Z][%N]`, whose limit the job keeps."""
    if not text:
        return None
    bounds, _, limit = text.partition("%")
    low, high, _, step = re.fullmatch(r"(\d+)-(\d+)(:(\d+))?", bounds).groups()  # type: ignore[union-attr]
    job.array_limit = int(limit) if limit else None
    return range(int(low), int(high) + 1, int(step or 1))
