"""Cobalt as on Theta: qsub, qstat, qdel, and ALPS's aprun. Texts and codes are those of Cobalt's own clients."""

from __future__ import annotations

import getpass
import os
import re
import time
from pathlib import Path
from signal import SIGKILL, SIGTERM

from tests.fakes import launchers
from tests.fakes.core import RefusedError, Scheduler, Site
from tests.fakes.jobs import CANCELLED, DONE, HELD, LIMIT, NEVER, QUEUED, RUNNING, Dependency, Job
from tests.fakes.options import Options, UnknownOptionError, directives, last, merged, parse, read_script
from tests.fakes.work import Session

SUBMIT_VALUES = (
    "-A -q -n -t -O -o -e -i -M -K --cwd --env --mode --attrs --dependencies --kernel --proccount --jobname"
    " --project --queue --nodecount --time --outputprefix --output --error --debuglog"
)
LONG = {
    "--project": "-A",
    "--queue": "-q",
    "--nodecount": "-n",
    "--time": "-t",
    "--outputprefix": "-O",
    "--output": "-o",
    "--error": "-e",
}
KILL_SECONDS = 10.0
"""No source says how long Cobalt waits between TERM and KILL."""
HEADER = ["JobID", "User", "WallTime", "Nodes", "State", "Location"]
FULL_HEADER = ["JobID", "JobName", "User", "WallTime", "RunTime", "Nodes", "State", "Location", "Queue"]


def qsub(site: Site, words: list[str]) -> int:
    """Submit an executable script; the options in its first lines count as well."""
    options, command = _options(words)
    if not command:
        raise RefusedError("Command required")
    folder = last(options, "--cwd", str(Path.cwd()))
    path = Path(folder, command[0])
    if not path.is_file():
        raise RefusedError(f"command {path} not found, or is not a file")
    text = read_script(str(path), lambda: RefusedError(f"command {path} not found, or is not a file"))
    options = merged(_options(directives(text, "#COBALT"))[0], options)
    if not os.access(path, os.X_OK):
        raise RefusedError(f"Script {path} is not executable")
    job = _job(site, options, last(options, "--cwd", str(Path.cwd())))
    job.command = [str(path), *command[1:]]
    number = site.submit(job)
    print(f'Job routed to queue "{job.queue}".\n{number}')
    return 0


def qstat(site: Site, words: list[str]) -> int:
    """Tell of the jobs that have not ended, or of queues; 1 and nothing printed if no job given is there."""
    options, names = _read(words, "-u --user --header --sort", "-f --full -l --long -Q --reverse")
    if "-Q" in options:
        rows = [["Name", "MaxTime", "TotalNodes", "State"]]
        for name, queue in site.configuration.queues.items():
            longest = _clock(queue.max_wall_time) if queue.max_wall_time is not None else "None"
            rows.append([name, longest, str(queue.max_nodes), "running"])
        return _print(rows, vertical=False)
    if bad := [name for name in names if not name.isdigit()]:
        raise RefusedError(f"{bad[0]} is not a valid jobid or queue name")
    jobs = [job for job in site.table.all() if job.state != DONE and (not names or str(job.number) in names)]
    if names and not jobs:
        return 1
    full = bool({"-f", "--full"} & options.keys())
    header = last(options, "--header", ":".join(FULL_HEADER if full else HEADER)).split(":")
    rows = [[_told(site, job).get(name.lower(), "-") for name in header] for job in jobs]
    return _print([header, *rows], vertical=bool({"-l", "--long"} & options.keys()))


def qdel(site: Site, words: list[str]) -> int:
    """Delete jobs; the code is 0 even if there is none."""
    _, names = _read(words, "", "-f")
    if any(not name.isdigit() for name in names) or not names:
        raise RefusedError("jobid must be an integer")
    jobs = [job for job in site.table.all() if job.state != DONE and str(job.number) in names]
    for job in jobs:
        site.cancel(job)
    if not jobs:
        print(f"qdel: Job {names[-1]} not found")
        return 0
    print("      Deleted Jobs")
    return _print([["JobID", "User"], *([str(job.number), getpass.getuser()] for job in jobs)], vertical=False)


def aprun(site: Site, words: list[str]) -> int:
    """ALPS's launcher."""
    if "COBALT_JOBID" not in os.environ:
        raise RefusedError("aprun: not in a job: COBALT_JOBID is not set")
    return launchers.run(launchers.APRUN, site, site.table.load(os.environ["COBALT_JOBID"]), words)


def start(site: Site, job: Job) -> Session:
    """The script itself, with the submitter's PATH and little else, in the folder of --cwd."""
    nodes = site.table.folder(job) / "nodes"
    nodes.write_text("".join(f"{host}\n" for host in job.hosts))
    assert job.started is not None and job.wall_time is not None
    own = {
        "COBALT_JOBID": str(job.number),
        "COBALT_JOBSIZE": str(job.nodes),
        "COBALT_PARTSIZE": str(job.nodes),
        "COBALT_PARTNAME": ",".join(job.hosts),
        "COBALT_NODEFILE": str(nodes),
        "COBALT_QUEUE": job.queue,
        "COBALT_STARTTIME": str(int(job.started)),
        "COBALT_ENDTIME": str(int(job.started + job.wall_time)),
    }
    stdout, stderr = Path(_named(job, job.stdout)), Path(_named(job, job.stderr))
    environment = {**job.environment, **job.extra["variables"], **own}
    return Session(job.command, env=environment, cwd=job.folder, stdout=stdout.open("a"), stderr=stderr.open("a"))


def finish(site: Site, job: Job) -> None:
    """Write the end into JOBID.cobaltlog, the only place that keeps it."""
    how = {CANCELLED: "deleted by user", LIMIT: "maximum execution time exceeded"}.get(job.reason)
    code = job.code if job.code is None or job.code >= 0 else 128 - job.code
    line = f"Info: {how}; " if how else "Info: task completed normally "
    log = Path(_named(job, job.stdout)).with_suffix(".cobaltlog")
    log.write_text(f"{line}with an exit code of {code}; initiating job cleanup and removal\n")


def _read(words: list[str], with_value: str, without: str) -> tuple[Options, list[str]]:
    try:
        return parse(words, with_value, without)
    except UnknownOptionError as error:
        raise RefusedError(f"Usage: [options]\n\nerror: no such option: {error.option}", 2) from None


def _options(words: list[str]) -> tuple[Options, list[str]]:
    options, rest = _read(words, SUBMIT_VALUES, "-h -v -d --preemptable --disable_preboot")
    return {LONG.get(name, name): values for name, values in options.items()}, rest


def _job(site: Site, options: Options, folder: str) -> Job:
    if missing := [word for name, word in (("-t", "time"), ("-n", "nodecount")) if name not in options]:
        raise RefusedError(f"Not all required arguments provided: {','.join(missing)} needed")
    if not Path(folder).is_dir():
        raise RefusedError(f"Error: dir '{folder}' is not a directory")
    minutes = _minutes(last(options, "-t"))
    if minutes is None:
        raise RefusedError(f"invalid time specification: {last(options, '-t')}")
    if not last(options, "-n").isdigit():
        raise RefusedError("Error: non-integer node count specified with -n option")
    nodes, queue = int(last(options, "-n")), last(options, "-q", site.default_queue())
    _enforce(site, queue, nodes, minutes)
    if last(options, "--mode", "script") != "script":
        raise RefusedError(f"Specifed mode '{last(options, '--mode')}' not valid, valid modes are\nscript")
    attributes = last(options, "--attrs")
    if attributes and not re.fullmatch(r"[\w-]+=[\w,.-]+(:[\w-]+=[\w,.-]+)*", attributes):
        raise RefusedError(f"Improperly formatted argument to attrs : {attributes}")
    prefix = last(options, "-O", "{number}")
    ids = re.split("[:,]", last(options, "--dependencies")) if "--dependencies" in options else []
    if any(not text.isdigit() for text in ids):
        raise RefusedError(f"{last(options, '--dependencies')} is not a valid dependency list")
    job = Job(
        0,
        name=Path(prefix).name,
        queue=queue,
        nodes=nodes,
        # A host of Theta belongs to one job.
        cpus=min(host.cpus for host in site.configuration.hosts),
        wall_time=minutes * site.configuration.minute,
        environment={name: os.environ[name] for name in ("HOME", "PATH", "USER", "SHELL") if name in os.environ},
        folder=folder,
        stdout=str(Path(folder, last(options, "-o", f"{prefix}.output"))),
        stderr=str(Path(folder, last(options, "-e", f"{prefix}.error"))),
        dependencies=[Dependency(int(text), "ok") for text in ids],
        state=HELD if "-h" in options else QUEUED,
    )
    job.extra = {"variables": _passed(last(options, "--env")), "user_hold": "-h" in options, "waits_forever": True}
    job.extra["minutes"] = minutes
    return job


def _enforce(site: Site, queue: str, nodes: int, minutes: float) -> None:
    if queue not in site.configuration.queues:
        raise RefusedError(f"'{queue}' is not an existing queue")
    limits = site.configuration.queues[queue]
    if nodes < 1 or nodes > len(site.configuration.hosts):
        raise RefusedError("node count out of realistic range")
    if limits.max_wall_time is not None and minutes * site.configuration.minute > limits.max_wall_time:
        raise RefusedError(
            f"Walltime greater than the '{queue}' queue max walltime of {_clock(limits.max_wall_time)}"
        )
    if limits.max_nodes is not None and nodes > limits.max_nodes:
        raise RefusedError(f"Node count greater than the '{queue}' queue max of {limits.max_nodes}")


def _minutes(text: str) -> float | None:
    """Minutes, `HH:MM` or `HH:MM:SS`."""
    if not re.fullmatch(r"\d+(:\d\d){0,2}", text):
        return None
    parts = [int(part) for part in text.split(":")]
    return float(parts[0]) if len(parts) == 1 else parts[0] * 60 + parts[1] + (parts[2] / 60 if parts[2:] else 0)


def _passed(text: str) -> dict[str, str]:
    pairs = [item.split("=", 1) for item in re.split(r":(?=\w+\b=)", text)] if text else []
    if any(len(pair) != 2 for pair in pairs):
        raise RefusedError(f"Improperly formatted argument to env : {text!r}")
    return dict(pairs)


def _named(job: Job, path: str) -> str:
    return path.replace("{number}", str(job.number)).replace("$jobid", str(job.number))


def _told(site: Site, job: Job) -> dict[str, str]:
    held = "dep_fail" if job.reason == NEVER else "user_hold" if job.extra["user_hold"] else "dep_hold"
    return {
        "jobid": str(job.number),
        "jobname": _named(job, job.name),
        "user": getpass.getuser(),
        "walltime": _clock(job.extra["minutes"] * 60),
        "runtime": _clock(time.time() - job.started) if job.started else "N/A",
        "nodes": str(job.nodes),
        "state": {HELD: held, QUEUED: "queued", RUNNING: "running"}[job.state],
        "location": ",".join(job.hosts) or "None",
        "queue": job.queue,
        "outputpath": _named(job, job.stdout),
    }


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}"


def _print(rows: list[list[str]], *, vertical: bool) -> int:
    header, *lines = rows
    if vertical:
        for line in lines:
            print("\n".join(f"{name}: {value}" for name, value in zip(header, line, strict=True)) + "\n")
        return 0
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    for row in [header, ["=" * sum(width + 2 for width in widths)], *lines]:
        print("  ".join(f"{value:<{width}}" for value, width in zip(row, widths, strict=False)).rstrip())
    return 0


_KILL = ((SIGTERM, KILL_SECONDS), (SIGKILL, 0.0))
_DOWN = ("component error: Failed to connect to queue-manager\n\n", 1)

COBALT = Scheduler(
    "cobalt",
    {"qsub": qsub, "qstat": qstat, "qdel": qdel, "aprun": aprun},
    limit_signals=_KILL,
    cancel_signals=_KILL,
    start=start,
    finish=finish,
    outages={"qsub": ("Failed to connect to queue manager\n", 1), "qstat": _DOWN, "qdel": _DOWN},
    refusal=("Filter /usr/bin/project-filter failed\n", 1),
)
