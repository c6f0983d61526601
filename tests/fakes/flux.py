"""Flux as flux-core 0.88 behaves: submit, run, jobs, cancel, job kill, job timeleft, hostlist, queue list."""

from __future__ import annotations

import getpass
import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGALRM, SIGKILL, SIGTERM
from typing import Any

from tests.fakes.core import RefusedError, Scheduler, Site
from tests.fakes.jobs import CANCELLED, DONE, HELD, IMPOSSIBLE, LIMIT, NEVER, QUEUED, RUNNING, Dependency, Job
from tests.fakes.options import Options, UnknownOptionError, last, parse
from tests.fakes.work import Ranks

SUBMIT_VALUES = (
    "-N --nodes -n --ntasks -c --cores-per-task -g --gpus-per-task --tasks-per-node --gpus-per-node"
    " -t --time-limit --job-name --output --error -q --queue -B --bank --dependency --env --env-remove --signal"
    " --cwd --requires --setattr -o --setopt --urgency --flags"
)
SUBMIT_FLAGS = "-x --exclusive --quiet --unbuffered"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
STATES = {HELD: "DEPEND", QUEUED: "SCHED", RUNNING: "RUN", DONE: "INACTIVE"}
NOTES = {
    CANCELLED: "",
    LIMIT: "resource allocation expired",
    IMPOSSIBLE: "unsatisfiable request",
    NEVER: "dependency can never be satisfied",
}


def flux(site: Site, words: list[str]) -> int:
    """Dispatch to the subcommand, which is one word or two."""
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in SUBCOMMANDS:
            return SUBCOMMANDS[name](site, words[length:])
    raise RefusedError(f"flux: `{words[0] if words else ''}' is not a flux command.  See 'flux --help'")


def submit(site: Site, words: list[str]) -> int:
    """Submit a command that runs once per task, and print its id."""
    print(_f58(_submit(site, words, "flux-submit")))
    return 0


def run(site: Site, words: list[str]) -> int:
    """Submit a command and wait for its end; its output comes here."""
    number = _submit(site, words, "flux-run")
    job = site.table.load(str(number))
    forward: Callable[..., None] = lambda signum, frame: site.cancel(job)  # noqa: E731
    signal.signal(signal.SIGINT, forward)
    signal.signal(signal.SIGTERM, forward)
    shown = 0
    while True:
        job = site.table.load(str(number))
        path = site.table.folder(job) / "stdout"
        if path.exists():
            text = path.read_text()
            sys.stdout.write(text[shown:])
            sys.stdout.flush()
            shown = len(text)
        if job.state == DONE:
            return _code(job)
        time.sleep(0.05)


def jobs(site: Site, words: list[str]) -> int:
    """Tell of jobs: of those that have not ended, of all with -a, or of those given."""
    options, names = _read(words, "-o --format -u --user -f --filter", "-a -A -n --no-header --json", "flux-jobs")
    found = [_find(site, name, "flux-jobs") for name in names]
    if not names:
        everything = bool({"-a", "-A"} & options.keys())
        found = [job for job in reversed(site.table.all()) if everything or job.state != DONE]
    told = [_told(job) for job in found]
    if "--json" in options:
        print(json.dumps(told[0] if len(names) == 1 else {"jobs": told}))
        return 0
    pattern = last(options, "--format", last(options, "-o", "{id.f58} {name} {status} {nnodes}"))
    if not {"-n", "--no-header"} & options.keys():
        print(re.sub(r"\{([\w.]+)[^}]*\}", lambda field: field[1].upper(), pattern))
    for entry in told:
        print(_filled(pattern, entry))
    return 0


def cancel(site: Site, words: list[str]) -> int:
    """Cancel jobs: TERM, then KILL."""
    _, names = _read(words, "-m --message", "--all", "flux-cancel")
    for job in [_find(site, name, "flux-cancel") for name in names]:
        if job.state == DONE:
            raise RefusedError(f"flux-cancel: {_f58(job.number)}: job is inactive")
        site.cancel(job)
    return 0


def kill(site: Site, words: list[str]) -> int:
    """Signal the tasks of a running job."""
    options, names = _read(words, "-s --signal", "", "flux-job")
    name = last(options, "--signal", last(options, "-s", "SIGTERM"))
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in signal.Signals.__members__:
        raise RefusedError(f"flux-job: kill: invalid signal {name}")
    for job in [_find(site, text, "flux-job") for text in names]:
        if job.state != RUNNING:
            raise RefusedError(f"flux-job: kill {_f58(job.number)}: job is not running")
        site.table.request(job, name)
    return 0


def timeleft(site: Site, words: list[str]) -> int:
    """Print the seconds left of a job, by default of the one that asks."""
    _, names = _read(words, "", "-H --human", "flux-job")
    if not names and "FLUX_JOB_ID" not in os.environ:
        raise RefusedError("flux-job: timeleft: no jobid specified and FLUX_JOB_ID not found in environment")
    job = _find(site, names[0] if names else os.environ["FLUX_JOB_ID"], "flux-job")
    if job.started is None or job.wall_time is None:
        print("infinity")
    else:
        print(max(0, math.floor(job.started + job.wall_time - time.time())))
    return 0


def hostlist(site: Site, words: list[str]) -> int:
    """Print hosts: `local` are those of the job that asks, outside of one all."""
    source = words[0] if words else "local"
    if source == "local" and "FLUX_JOB_ID" in os.environ:
        source = os.environ["FLUX_JOB_ID"]
    if source in ("local", "instance", "avail"):
        hosts = [host.name for host in site.configuration.hosts]
    else:
        hosts = list(dict.fromkeys(_find(site, source, "flux-hostlist").hosts))
    print(_compressed(hosts))
    return 0


def queue_list(site: Site, words: list[str]) -> int:
    """Tell of the queues and their limits."""
    options, _ = _read(words, "-o --format -q --queue", "-n --no-header", "flux-queue")
    pattern = last(options, "--format", last(options, "-o", "{queue} {limits.timelimit} {limits.range.nnodes}"))
    if not {"-n", "--no-header"} & options.keys():
        print("QUEUE TLIMIT NNODES")
    for name, queue in site.configuration.queues.items():
        longest = "inf" if queue.max_wall_time is None else f"{queue.max_wall_time:g}s"
        nodes = f"{queue.min_nodes or 0}-{queue.max_nodes or 'inf'}"
        entry = {"queue": name, "limits": {"timelimit": longest, "range": {"nnodes": nodes}}}
        print(_filled(pattern, entry))
    return 0


def start(site: Site, job: Job) -> Ranks:
    """The command once per task, in the folder and environment of its submission."""
    folder = site.table.folder(job)
    path = Path(job.folder, _named(job, job.stdout)) if job.stdout else folder / "stdout"
    stdout = path.open("a")
    stderr = Path(job.folder, _named(job, job.stderr)).open("a") if job.stderr else stdout  # noqa: SIM115  (the ranks' own)
    ranks, per_host = Ranks(ends_together=False), job.extra["tasks_per_node"]
    for rank in range(job.nodes * per_host):
        variables = {
            "FLUX_JOB_ID": _f58(job.number),
            "FLUX_JOB_SIZE": job.nodes * per_host,
            "FLUX_JOB_NNODES": job.nodes,
            "FLUX_TASK_RANK": rank,
            "FLUX_TASK_LOCAL_ID": rank % per_host,
            "FLUX_JOB_TMPDIR": folder,
            "FLUX_URI": f"local://{site.folder}",
            "PMI_RANK": rank,
            "PMI_SIZE": job.nodes * per_host,
        }
        environment = {**job.environment, **{name: str(value) for name, value in variables.items()}}
        host = job.hosts[rank // per_host]
        ranks.start(site, host, job.command, environment, job.folder, stdout=stdout, stderr=stderr)
    return ranks


def _submit(site: Site, words: list[str], command: str) -> int:
    options, program = _read(words, SUBMIT_VALUES, SUBMIT_FLAGS, command)
    if not program:
        raise RefusedError(f"{command}: ERROR: job command and arguments are missing")
    queue = last(options, "--queue", last(options, "-q", site.default_queue()))
    if queue not in site.configuration.queues:
        raise RefusedError(f"{command}: ERROR: Invalid queue specified: {queue} is not a valid queue")
    return site.submit(_job(site, options, program, queue, command))


def _job(site: Site, options: Options, program: list[str], queue: str, command: str) -> Job:
    nodes = _number(options, "--nodes", "-N", 1, command)
    tasks_per_node = _number(options, "--tasks-per-node", "--tasks-per-node", 0, command)
    tasks = _number(options, "--ntasks", "-n", nodes * max(tasks_per_node, 1), command)
    tasks_per_node = tasks_per_node or -(-tasks // nodes)
    cores = _number(options, "--cores-per-task", "-c", 1, command) * tasks_per_node
    exclusive = bool({"-x", "--exclusive"} & options.keys())
    job = Job(
        0,
        name=last(options, "--job-name", Path(program[0]).name),
        queue=queue,
        nodes=nodes,
        cpus=min(host.cpus for host in site.configuration.hosts) if exclusive else cores,
        wall_time=_time_limit(last(options, "--time-limit", last(options, "-t")), command),
        command=program,
        environment=dict(os.environ),
        folder=last(options, "--cwd", str(Path.cwd())),
        stdout=last(options, "--output"),
        stderr=last(options, "--error"),
        dependencies=[_dependency(site, text, command) for text in options.get("--dependency", [])],
    )
    limits = site.configuration.queues[queue]
    if limits.max_wall_time is not None and (job.wall_time or math.inf) > limits.max_wall_time:
        raise RefusedError(
            f"{command}: ERROR: requested duration exceeds policy limit of {limits.max_wall_time:g}s"
        )
    job.extra = {"tasks_per_node": tasks_per_node, "fails_if_impossible": True}
    if warning := last(options, "--signal"):
        name, _, before = warning.partition("@")
        seconds = _duration(before or "60s", command)
        job.extra["warning"] = [name if name.startswith("SIG") else f"SIG{name}", seconds]
    return job


def _read(words: list[str], with_value: str, without: str, command: str) -> tuple[Options, list[str]]:
    try:
        return parse(words, with_value, without)
    except UnknownOptionError as error:
        raise RefusedError(f"{command}: error: unrecognized arguments: {error.option}", 2) from None


def _number(options: Options, long: str, short: str, default: int, command: str) -> int:
    text = last(options, long, last(options, short, str(default)))
    if not text.isdigit():
        raise RefusedError(f"{command}: error: argument {short}/{long}: invalid int value: '{text}'", 2)
    return int(text)


def _time_limit(text: str, command: str) -> float | None:
    """Seconds of a duration; a number without a unit counts minutes."""
    if not text:
        return None
    return float(text) * 60 if re.fullmatch(r"\d+(\.\d+)?", text) else _duration(text, command)


def _duration(text: str, command: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text)
    if not found:
        raise RefusedError(f"{command}: ERROR: invalid Flux standard duration: {text}")
    return float(found[1]) * UNITS[found[2] or "s"]


def _dependency(site: Site, text: str, command: str) -> Dependency:
    kind, _, on = text.partition(":")
    if kind not in ("afterany", "afterok", "afternotok") or not on:
        raise RefusedError(f"{command}: ERROR: dependency scheme '{kind}' not supported")
    return Dependency(_find(site, on, command).number, kind.removeprefix("after"))


def _f58(number: int) -> str:
    """A job's id as Flux shows it."""
    rest, text = number << 24, ""
    while rest:
        rest, digit = divmod(rest, len(LETTERS))
        text = LETTERS[digit] + text
    return f"ƒ{text}"


def _named(job: Job, path: str) -> str:
    """A file's name with the job's id in place of `{{id}}`."""
    plain = path.replace("{{id.dec}}", str(job.number << 24))
    return plain.replace("{{id}}", _f58(job.number)).replace("{{jobid}}", _f58(job.number))


def _find(site: Site, name: str, command: str) -> Job:
    """The job of an id: decimal, or beginning with ƒ or f."""
    value = -1
    if name.isdecimal():
        value = int(name)
    elif name[:1] in ("ƒ", "f") and all(letter in LETTERS for letter in name[1:]):
        value = 0
        for letter in name[1:]:
            value = value * len(LETTERS) + LETTERS.index(letter)
    found = site.table.of(value >> 24) if value > 0 and value % (1 << 24) == 0 else []
    if not found:
        raise RefusedError(f"{command}: ERROR: JobID {name} unknown")
    return found[0]


def _code(job: Job) -> int:
    """The code of a job: that of its failed task, 128 and the signal, -128 if it never ran."""
    if job.started is None:
        return -128
    return job.code or 0


def _told(job: Job) -> dict[str, Any]:
    ended = {CANCELLED: "CANCELED", LIMIT: "TIMEOUT"}.get(job.reason, "COMPLETED" if job.ok else "FAILED")
    kinds = {CANCELLED: "cancel", LIMIT: "timeout", IMPOSSIBLE: "alloc", NEVER: "dependency"}
    expiration = job.started + job.wall_time if job.started and job.wall_time else 0.0
    return {
        "id": job.number << 24,
        "name": job.name,
        "username": getpass.getuser(),
        "queue": job.queue,
        "state": STATES[job.state],
        "status": ended if job.state == DONE else STATES[job.state],
        "result": ended if job.state == DONE else "",
        "success": job.ok,
        "returncode": _code(job) if job.state == DONE else "",
        "exception": {
            "occurred": bool(job.reason),
            "severity": 0 if job.reason else "",
            "type": kinds.get(job.reason, ""),
            "note": NOTES.get(job.reason, ""),
        },
        "expiration": expiration,
        "nnodes": job.nodes,
        "ntasks": job.nodes * job.extra["tasks_per_node"],
        "nodelist": _compressed(job.hosts),
        "t_submit": job.submitted,
        "t_run": job.started or 0.0,
        "t_inactive": job.ended or 0.0,
        "duration": job.wall_time or 0.0,
    }


def _filled(pattern: str, entry: dict[str, Any]) -> str:
    """A format such as `{id.dec} {status:>8}` with an entry's values; widths are ignored."""
    return re.sub(r"\{([\w.]+)[^}]*\}", lambda field: _field(entry, field[1]), pattern)


def _field(entry: dict[str, Any], name: str) -> str:
    if name in ("id.dec", "id.f58", "id"):
        return str(entry["id"]) if name == "id.dec" else _f58(entry["id"] >> 24)
    value: Any = entry
    for part in name.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def _compressed(hosts: list[str]) -> str:
    """`node[1-3]` for node1, node2, node3; other names as they are."""
    parts = [re.fullmatch(r"(.*?\D)(\d+)", host) for host in hosts]
    found = [part for part in parts if part]
    prefixes = {part[1] for part in found}
    if len(hosts) < 2 or len(found) < len(hosts) or len(prefixes) > 1:
        return ",".join(hosts)
    numbers = [int(part[2]) for part in found]
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    inner = f"{numbers[0]}-{numbers[-1]}" if whole else ",".join(str(number) for number in numbers)
    return f"{prefixes.pop()}[{inner}]"


SUBCOMMANDS: dict[str, Callable[[Site, list[str]], int]] = {
    "submit": submit,
    "run": run,
    "jobs": jobs,
    "cancel": cancel,
    "job kill": kill,
    "job timeleft": timeleft,
    "hostlist": hostlist,
    "queue list": queue_list,
}

FLUX = Scheduler(
    "flux",
    {"flux": flux},
    limit_signals=((SIGALRM, 5.0), (SIGKILL, 0.0)),
    cancel_signals=((SIGTERM, 5.0), (SIGKILL, 0.0)),
    start=start,
    outages={"flux": ("flux: ERROR: Unable to connect to Flux: broker socket: No such file or directory\n", 1)},
    refusal=("flux-submit: ERROR: guest user not allowed to submit\n", 1),
)
