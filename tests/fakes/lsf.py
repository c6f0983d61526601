"""LSF 10.1 as its command reference (IBM Documentation) has it: bsub, bjobs, bkill, bqueues, and jsrun."""

from __future__ import annotations

import getpass
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, SIGUSR2

from tests.fakes import launchers
from tests.fakes.core import RefusedError, Scheduler, Site
from tests.fakes.jobs import CANCELLED, DONE, HELD, LIMIT, QUEUED, RUNNING, Dependency, Job
from tests.fakes.options import Options, UnknownOptionError, directives, last, merged, parse
from tests.fakes.work import Session

SUBMIT_VALUES = (
    "-J -o -oo -e -eo -n -nnodes -q -P -G -W -We -w -wa -wt -R -M -Q -U -u -L -cwd -app -gpu -env"
    " -alloc_flags -sp -sla"
)
SUBMIT_FLAGS = "-x -r -rn -H -N -B"
REQUIREMENT = r"(\s*(select|rusage|span|order|same|affinity|cu)\[[^\]]*\]\s*)+"
STATES = {HELD: "PEND", QUEUED: "PEND", RUNNING: "RUN"}
REASONS = {
    CANCELLED: "TERM_OWNER: job killed by owner",
    LIMIT: "TERM_RUNLIMIT: job killed after reaching LSF run time limit",
}
FAILED = 255
NOT_SUBMITTED = "Job not submitted."


def bsub(site: Site, words: list[str]) -> int:
    """Submit the script on standard input, or a command."""
    options, command = _options(words)
    script = ""
    if not command:
        script = sys.stdin.read()
        options = merged(_options(directives(script, "#BSUB", to_the_end=True))[0], options)
    job = _job(site, options)
    job.command = command
    job.extra["script"] = script
    number = site.submit(job, job.extra.pop("indices"))
    kind = "queue" if "-q" in options else "default queue"
    print(f"Job <{number}> is submitted to {kind} <{job.queue}>.")
    return 0


def bjobs(site: Site, words: list[str]) -> int:
    """Tell of jobs: without ids of those that have not ended, or of all with -a."""
    options, names = _read(words, "-o -u -J -q", "-a -d -l -w -noheader -json -X", "bjobs")
    jobs, unknown = _find(site, names)
    if not names:
        jobs = [job for job in site.table.all() if "-a" in options or job.state != DONE]
    if not jobs and not unknown:
        print("No unfinished job found", file=sys.stderr)
        return 0
    fields = last(options, "-o", "jobid stat queue exec_host job_name").split()
    fields = [field.partition(":")[0] for field in fields if not field.startswith("delimiter=")]
    rows = [{field.upper(): _told(site, job).get(field.lower(), "-") for field in fields} for job in jobs]
    if "-json" in options:
        missing = [{"JOBID": name, "ERROR": f"Job <{name}> is not found"} for name in unknown]
        records = [{name: value if value != "-" else "" for name, value in row.items()} for row in rows] + missing
        print(json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=2))
    else:
        mark = re.search(r"delimiter=['\"](.+?)['\"]", last(options, "-o"))
        header = [] if "-noheader" in options or not rows else [[field.upper() for field in fields]]
        for row in [*header, *(list(row.values()) for row in rows)]:
            print((mark[1] if mark else " ").join(row))
        for name in unknown:
            print(f"Job <{name}> is not found", file=sys.stderr)
    return FAILED if unknown else 0


def bkill(site: Site, words: list[str]) -> int:
    """End jobs by INT, TERM and KILL, 10 s apart; with -s send that signal alone."""
    options, names = _read(words, "-s -J -q -u", "-r", "bkill")
    jobs, unknown = _find(site, names)
    name = last(options, "-s").upper().removeprefix("SIG")
    if name and f"SIG{name}" not in signal.Signals.__members__:
        raise RefusedError(f"bkill: {name}: Illegal signal value", FAILED)
    code = 0
    for job in jobs:
        if job.state == DONE:
            print(f"Job <{_id(job)}>: Job has already finished", file=sys.stderr)
            code = FAILED
        elif name and name != "KILL" and job.state == RUNNING:
            site.table.request(job, f"SIG{name}")
            print(f"Job <{_id(job)}> is being signaled")
        else:
            site.cancel(job)
            print(f"Job <{_id(job)}> is being terminated")
    for missing in unknown:
        print(f"Job <{missing}>: No matching job found", file=sys.stderr)
    return FAILED if unknown else code


def bqueues(site: Site, words: list[str]) -> int:
    """Tell of the queues."""
    options, names = _read(words, "-o", "-l -w -noheader", "bqueues")
    if unknown := [name for name in names if name not in site.configuration.queues]:
        raise RefusedError(f"{unknown[0]}: No such queue", FAILED)
    if "-l" not in options:
        print("QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP")
    for name, queue in site.configuration.queues.items():
        if names and name not in names:
            continue
        if "-l" in options:
            minutes = "" if queue.max_wall_time is None else f" RUNLIMIT\n {queue.max_wall_time / 60:.1f} min\n"
            print(f"QUEUE: {name}\n\nMAXIMUM LIMITS:\n{minutes}")
        else:
            print(f"{name:15}  30  Open:Active       -    -    -    -     0     0     0     0")
    return 0


def jsrun(site: Site, words: list[str]) -> int:
    """IBM's launcher."""
    if "LSB_JOBID" not in os.environ:
        raise RefusedError("Error: Not within an LSF allocation: LSB_JOBID is not set")
    index = os.environ["LSB_JOBINDEX"]
    key = os.environ["LSB_JOBID"] + (f"_{index}" if index != "0" else "")
    return launchers.run(launchers.JSRUN, site, site.table.load(key), words)


def start(site: Site, job: Job) -> Session:
    """The script under the shell of its first line, in the folder and environment of its submission."""
    folder = site.table.folder(job)
    slots = [host for host in job.hosts for _ in range(job.cpus)]
    (folder / "hosts").write_text("".join(f"{host}\n" for host in slots))
    own = {
        "LSB_JOBID": str(job.number),
        "LSB_BATCH_JID": _id(job),
        "LSB_JOBINDEX": str(job.index or 0),
        "LSB_JOBNAME": job.name,
        "LSB_QUEUE": job.queue,
        "LSB_HOSTS": " ".join(slots),
        "LSB_MCPU_HOSTS": " ".join(f"{host} {job.cpus}" for host in job.hosts),
        "LSB_DJOB_HOSTFILE": str(folder / "hosts"),
        "LSB_DJOB_NUMPROC": str(len(slots)),
        "LSB_MAX_NUM_PROCESSORS": str(len(slots)),
        "LSB_SUB_HOST": socket.gethostname(),
        "LS_SUBCWD": job.folder,
    }
    command = job.command
    if not command:
        script = folder / "script"
        script.write_text(job.extra["script"])
        first = job.extra["script"].partition("\n")[0]
        command = [*(first[2:].split() if first.startswith("#!") else ["/bin/sh"]), str(script)]
    live = job.environment.get("LSB_STDOUT_DIRECT", "").lower() == "y"
    stdout = Path(_named(job, job.stdout)) if live and job.stdout else folder / "stdout"
    stderr = Path(_named(job, job.stderr)) if live and job.stderr else folder / "stderr"
    return Session(
        command,
        env={**job.environment, **own},
        cwd=job.folder,
        stdin=subprocess.DEVNULL,
        stdout=stdout.open("a"),
        stderr=stderr.open("a") if job.stderr else subprocess.STDOUT,
    )


def finish(site: Site, job: Job) -> None:
    """Append the report, then the output if it was not written live (LSB_STDOUT_DIRECT)."""
    folder = site.table.folder(job)
    told = _told(site, job)
    code = "Successfully completed." if job.code == 0 else f"Exited with exit code {told['exit_code']}."
    subject = f"Subject: Job {_id(job)}: <{job.name}> in cluster <fake> {'Done' if job.code == 0 else 'Exited'}"
    report = f"Sender: LSF System <lsf@{socket.gethostname()}>\n{subject}\n\n{told['exit_reason']}\n{code}\n"
    for name, target in (("stdout", job.stdout), ("stderr", job.stderr)):
        if target:
            with Path(_named(job, target)).open("a") as file:
                file.write(f"{report}\nThe output (if any) follows:\n\n" if name == "stdout" else "")
                file.write((folder / name).read_text() if (folder / name).exists() else "")
        (folder / name).unlink(missing_ok=True)


def _read(words: list[str], with_value: str, without: str, command: str) -> tuple[Options, list[str]]:
    try:
        return parse(words, with_value, without)
    except UnknownOptionError as error:
        raise RefusedError(f"{command}: Illegal option -- {error.option}", FAILED) from None


def _options(words: list[str]) -> tuple[Options, list[str]]:
    try:
        return parse(words, SUBMIT_VALUES, SUBMIT_FLAGS)
    except UnknownOptionError as error:
        raise RefusedError(f"bsub: Illegal option -- {error.option}. {NOT_SUBMITTED}", FAILED) from None


def _job(site: Site, options: Options) -> Job:
    queue = last(options, "-q", site.default_queue())
    if queue not in site.configuration.queues:
        raise RefusedError(f"{queue}: No such queue. {NOT_SUBMITTED}", FAILED)
    name, indices, limit = _array(last(options, "-J", "STDIN"))
    nodes, cpus = _shape(site, options)
    job = Job(
        0,
        array_limit=limit,
        name=name,
        queue=queue,
        nodes=nodes,
        cpus=cpus,
        wall_time=_limit(site, options, "-W"),
        environment=dict(os.environ),
        folder=last(options, "-cwd", str(Path.cwd())),
        stdout=last(options, "-oo", last(options, "-o")),
        stderr=last(options, "-eo", last(options, "-e")),
        dependencies=_dependencies(site, last(options, "-w")),
        state=HELD if "-H" in options else QUEUED,
    )
    longest = site.configuration.queues[queue].max_wall_time
    if longest is not None and job.wall_time is not None and job.wall_time > longest:
        raise RefusedError(f"RUNLIMIT: Cannot exceed queue's hard limit(s). {NOT_SUBMITTED}", FAILED)
    codes = last(options, "-Q")
    if codes and not re.fullmatch(r"(all|\d+)( +\d+)*", codes):
        raise RefusedError(f"{codes}: Bad requeue exit values. {NOT_SUBMITTED}", FAILED)
    job.extra = {
        "indices": indices,
        "user_hold": "-H" in options,
        "waits_forever": True,
        "requeue_codes": [int(code) for code in codes.split() if code.isdigit()],
    }
    if "-wa" in options and (before := _limit(site, options, "-wt")) is not None:
        job.extra["warning"] = [f"SIG{last(options, '-wa').upper().removeprefix('SIG')}", before]
    return job


def _array(text: str) -> tuple[str, range | None, int | None]:
    found = re.fullmatch(r"([^\[\]]*)(?:\[(\d+)-(\d+)(?::(\d+))?\](?:%(\d+))?)?", text)
    if not found:
        raise RefusedError(f"{text}: Bad job name. {NOT_SUBMITTED}", FAILED)
    name, low, high, step, limit = found.groups()
    indices = range(int(low), int(high) + 1, int(step or 1)) if low else None
    return name, indices, int(limit) if limit else None


def _shape(site: Site, options: Options) -> tuple[int, int]:
    """Hosts and slots on each, of `-nnodes 2` or `-n 8 -R "span[ptile=4]"`."""
    for requirement in options.get("-R", []):
        if not re.fullmatch(REQUIREMENT, requirement):
            raise RefusedError(f"Bad resource requirement syntax. {NOT_SUBMITTED}", FAILED)
    for name in ("-n", "-nnodes"):
        if name in options and not re.fullmatch(r"\d+", last(options, name)):
            raise RefusedError(f"{last(options, name)}: Bad argument for option {name}. {NOT_SUBMITTED}", FAILED)
    if "-nnodes" in options:
        return int(last(options, "-nnodes")), min(host.cpus for host in site.configuration.hosts)
    slots = int(last(options, "-n", "1"))
    per_host = re.search(r"ptile=(\d+)", " ".join(options.get("-R", [])))
    cpus = int(per_host[1]) if per_host else slots
    nodes = -(-slots // cpus)
    if slots > sum(host.cpus for host in site.configuration.hosts):
        raise RefusedError(f"Too many processors requested. {NOT_SUBMITTED}", FAILED)
    return nodes, cpus


def _limit(site: Site, options: Options, name: str) -> float | None:
    """Seconds of `[HH:]MM`."""
    if name not in options:
        return None
    found = re.fullmatch(r"(?:(\d+):)?(\d+)", last(options, name))
    if not found:
        raise RefusedError(f"{last(options, name)}: Bad run limit. {NOT_SUBMITTED}", FAILED)
    return (int(found[1] or 0) * 60 + int(found[2])) * site.configuration.minute


def _dependencies(site: Site, text: str) -> list[Dependency]:
    if not text:
        return []
    found = []
    for condition in text.split("&&"):
        match = re.fullmatch(r"\s*(ended|done|exit)\(\s*\"?(\w+)\"?\s*\)\s*", condition)
        if not match:
            raise RefusedError(f"{text}: Bad dependency condition syntax. {NOT_SUBMITTED}", FAILED)
        numbers = [job.number for job in site.table.all() if match[2] in (str(job.number), job.name)]
        if not numbers:
            raise RefusedError(f"{match[2]}: No matching job found. {NOT_SUBMITTED}", FAILED)
        found.append(Dependency(numbers[-1], {"ended": "any", "done": "ok", "exit": "notok"}[match[1]]))
    return found


def _id(job: Job) -> str:
    return str(job.number) if job.index is None else f"{job.number}[{job.index}]"


def _find(site: Site, names: list[str]) -> tuple[list[Job], list[str]]:
    jobs: list[Job] = []
    unknown = []
    for name in names:
        match = re.fullmatch(r"(\d+)(?:\[(\d+)\])?", name)
        if not match:
            raise RefusedError(f"{name}: Illegal job ID.", FAILED)
        found = site.table.of(int(match[1]), int(match[2]) if match[2] else None)
        jobs += found
        unknown += [] if found else [name]
    return jobs, unknown


def _told(site: Site, job: Job) -> dict[str, str]:
    code = job.code if job.code is None or job.code >= 0 else 128 - job.code
    ended = "DONE" if job.ok else "EXIT"
    return {
        "jobid": str(job.number),
        "jobindex": str(job.index or 0),
        "stat": "PSUSP" if job.extra["user_hold"] else STATES.get(job.state, ended),
        "user": getpass.getuser(),
        "queue": job.queue,
        "job_name": job.name if job.index is None else f"{job.name}[{job.index}]",
        "exit_code": str(code) if job.state == DONE and code else "-",
        "exit_reason": REASONS.get(job.reason, "-") if job.state == DONE else "-",
        "exec_host": ":".join(f"{job.cpus}*{host}" for host in job.hosts) or "-",
        "submit_time": _when(job.submitted),
        "start_time": _when(job.started),
        "finish_time": _when(job.ended),
        "run_time": f"{(job.ended or time.time()) - job.started:.0f} second(s)" if job.started else "-",
        "runtimelimit": f"{job.wall_time / site.configuration.minute:.1f}" if job.wall_time else "-",
        "slots": str(job.nodes * job.cpus),
        "sub_cwd": job.folder,
        "output_file": _named(job, job.stdout) or "-",
        "pend_reason": "Job dependency condition not satisfied" if job.state == HELD else "-",
    }


def _when(moment: float | None) -> str:
    return "-" if moment is None else time.strftime("%b %e %H:%M", time.localtime(moment))


def _named(job: Job, path: str) -> str:
    plain = path.replace("%J", str(job.number)).replace("%I", str(job.index or 0))
    return str(Path(job.folder, plain)) if plain else ""


_DOWN = "Failed in an LSF library call: Slave LIM configuration is not ready yet\n"

LSF = Scheduler(
    "lsf",
    {"bsub": bsub, "bjobs": bjobs, "bkill": bkill, "bqueues": bqueues, "jsrun": jsrun},
    limit_signals=((SIGUSR2, 600.0), (SIGINT, 10.0), (SIGTERM, 10.0), (SIGKILL, 0.0)),
    cancel_signals=((SIGINT, 10.0), (SIGTERM, 10.0), (SIGKILL, 0.0)),
    start=start,
    finish=finish,
    outages=dict.fromkeys(("bsub", "bjobs", "bkill", "bqueues"), (_DOWN, FAILED)),
    refusal=(f"User not in the specified user group. {NOT_SUBMITTED}\n", FAILED),
)
