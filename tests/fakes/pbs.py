"""PBS as OpenPBS 23.06 behaves: qsub, qstat, qdel, qsig, qrls, qrerun, pbsnodes, pbs_tmrsh, and PALS's mpiexec."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

from tests.fakes import launchers
from tests.fakes.core import RefusedError, Scheduler, Site
from tests.fakes.jobs import CANCELLED, DONE, HELD, LIMIT, NEVER, QUEUED, RUNNING, Job
from tests.fakes.options import (
    directives,
    last,
    merged,
)
from tests.fakes.pbs_submission import (
    array_indices,
    make_job,
    read_options,
    script_text,
    split_program,
    submit_options,
)
from tests.fakes.work import Ranks, Session

SERVER = "pn0"
UNAUTHORIZED, BAD_STATE = 159, 168
UNKNOWN_JOB, FINISHED = 153, 35
LETTERS = {HELD: "H", QUEUED: "Q", RUNNING: "R", DONE: "F"}
SUBSTATES = {HELD: 22, QUEUED: 10, RUNNING: 42, DONE: 93}
ENDED_SUBSTATES = {CANCELLED: 91, NEVER: 92}


def job_id(job: Job) -> str:
    """The id as PBS writes it."""
    return f"{job.number}.{SERVER}" if job.index is None else f"{job.number}[{job.index}].{SERVER}"


def qsub(site: Site, words: list[str]) -> int:
    """Submit a script, given as a file or on standard input, or a program after `--`."""
    arguments, program = split_program(words)
    options, rest = submit_options(arguments, "qsub")
    if len(rest) > 1:
        raise RefusedError("usage: qsub [-a date_time] ... [-- executable [args]] | [script]", 2)
    script = ""
    if not program:
        script = script_text(rest)
        options = merged(submit_options(directives(script, "#PBS"), "qsub")[0], options)
    job = make_job(site, options, Path(rest[0]).name if rest else Path(program[0]).name if program else "STDIN")
    job.command = program
    job.extra["script"] = script
    indices = array_indices(job, last(options, "-J"))
    number = site.submit(job, indices)
    print(f"{number}{'[]' if indices else ''}.{SERVER}")
    return 0


def qstat(site: Site, words: list[str]) -> int:
    """Tell of jobs or queues; with several ids and -f only the first one is printed."""
    options, names = read_options(words, "-F -u", "-f -x -Q -t -w -a -n -s -1", "qstat")
    as_json = last(options, "-F") == "json"
    if last(options, "-F", "json") not in ("json", "dsv"):
        raise RefusedError("qstat: illegal -F value", 2)
    if "-Q" in options:
        return _queues(site, as_json)
    found = [_find(site, name, "qstat", with_history="-x" in options) for name in names]
    jobs = [job for group in found for job in group] if names else _listed(site, "-x" in options)
    if "-f" in options and names:
        jobs = found[0]
    entries = _entries(site, jobs, expand="-t" in options)
    if "-f" not in options:
        _print_table(entries)
    elif as_json:
        print(
            json.dumps({"timestamp": int(time.time()), "pbs_server": SERVER, **_under("Jobs", entries)}, indent=4)
        )
    else:
        for name, entry in entries.items():
            lines = [f"    {key} = {value}" for key, value in entry.items() if not isinstance(value, dict)]
            print("\n".join([f"Job Id: {name}", *lines, ""]))
    return 0


def qdel(site: Site, words: list[str]) -> int:
    """Delete jobs."""
    _, names = read_options(words, "-W", "-x", "qdel")
    for name in names:
        for job in _find(site, name, "qdel", with_history=False):
            site.cancel(job)
    return 0


def qsig(site: Site, words: list[str]) -> int:
    """Signal a running job's session; the login shell is in it, and does not survive USR2."""
    options, names = read_options(words, "-s", "", "qsig")
    name = last(options, "-s", "SIGTERM")
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in signal.Signals.__members__:
        raise RefusedError("qsig: Unknown/illegal signal name", 2)
    return _request(site, names, name, "qsig")


def qrls(site: Site, words: list[str]) -> int:
    """Release jobs that were submitted with -h."""
    _, names = read_options(words, "-h", "", "qrls")
    with site.locked() as table:
        for name in names:
            for job in _find(site, name, "qrls", with_history=False):
                job.extra["user_hold"] = False
                table.save(job)
    site.schedule()
    return 0


def qrerun(site: Site, words: list[str]) -> int:
    """Only an operator may."""
    raise RefusedError(f"qrerun: Unauthorized Request  {words[-1]}", UNAUTHORIZED)


def pbsnodes(site: Site, words: list[str]) -> int:
    """Tell of the hosts."""
    options, _ = read_options(words, "-F", "-a -v -S -j", "pbsnodes")
    nodes = {
        host.name: {
            "state": "free",
            "pcpus": host.cpus,
            "resources_available": {"ncpus": host.cpus, "mem": f"{host.memory_mib * 1024}kb"},
        }
        for host in site.configuration.hosts
    }
    if last(options, "-F") == "json":
        print(json.dumps({"pbs_server": SERVER, "nodes": nodes}, indent=4))
    else:
        print(
            "\n".join(f"{name}\n     state = free\n     pcpus = {node['pcpus']}\n" for name, node in nodes.items())
        )
    return 0


def pbs_tmrsh(site: Site, words: list[str]) -> int:
    """Run a program on another host of the job: exit codes pass, no standard input, no TERM, cwd is HOME."""
    if "PBS_JOBID" not in os.environ or len(words) < 2:
        raise RefusedError("usage: pbs_tmrsh [-n][-l username] host command", 255)
    job, host = _current(site), words[0]
    if host not in job.hosts:
        raise RefusedError(f'pbs_tmrsh: host "{host}" not found', 255)
    signal.signal(SIGTERM, signal.SIG_IGN)
    if shutil.which(words[1], path="/bin:/usr/bin") is None:
        raise RefusedError(f"pbs_tmrsh: {words[1]}: No such file or directory", 254)
    environment = {**_variables(site, job), "PATH": "/bin:/usr/bin", "PBS_NODENUM": str(job.hosts.index(host))}
    ranks = Ranks()
    ranks.start(site, host, words[1:], environment, job.environment["HOME"])
    while (code := ranks.code()) is None:
        time.sleep(0.05)
    return code - 128 if code > 128 else code


def mpiexec(site: Site, words: list[str]) -> int:
    """PALS's, as on Polaris."""
    return launchers.run(launchers.PALS_MPIEXEC, site, _current(site), words)


def start(site: Site, job: Job) -> Session:
    """A login shell that is told the script's path, in HOME with umask 0077; a profile puts PBS on PATH."""
    folder = site.table.folder(job)
    (folder / "nodes").write_text("".join(f"{host}\n" * job.extra["mpiprocs"] for host in job.hosts))
    top = ["bash", "-l"]
    profile = f'PATH="{site.programs}:$PATH"'
    if job.command:
        top, line = job.command, ""
    else:
        script = folder / f"{job_id(job)}.SC"
        script.write_text(job.extra["script"])
        script.chmod(0o700)
        line = f"{profile}\n'{script}'\n"
    (folder / "stdin").write_text(line)
    os.umask(0o077)
    streams = [_live(site, job, name) for name in ("stdout", "stderr")]
    return Session(
        top,
        env=_variables(site, job),
        cwd=job.environment["HOME"],
        stdin=(folder / "stdin").open(),
        stdout=streams[0].open("a"),
        stderr=subprocess.STDOUT if not job.stderr else streams[1].open("a"),
    )


def finish(site: Site, job: Job) -> None:
    """Copy the output; into a folder that is not there it is lost to the mom."""
    folder = site.table.folder(job)
    for name, target in (("stdout", job.stdout), ("stderr", job.stderr)):
        if target and (folder / name).exists():
            with suppress(OSError):
                Path(_named(job, target)).write_bytes((folder / name).read_bytes())


def _variables(site: Site, job: Job) -> dict[str, str]:
    home = job.environment["HOME"]
    own = {
        "HOME": home,
        "LOGNAME": getpass.getuser(),
        "USER": getpass.getuser(),
        "SHELL": "/bin/bash",
        "PATH": "/bin:/usr/bin",
        "LANG": "C.UTF-8",
        "NCPUS": str(job.cpus),
        "OMP_NUM_THREADS": str(job.cpus),
        "TMPDIR": str(site.table.folder(job)),
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_JOBID": job_id(job),
        "PBS_JOBNAME": job.name,
        "PBS_QUEUE": job.queue,
        "PBS_NODEFILE": str(site.table.folder(job) / "nodes"),
        "PBS_NODENUM": "0",
        "PBS_O_WORKDIR": job.folder,
        "PBS_O_HOME": home,
        "PBS_O_HOST": socket.gethostname(),
        "PBS_O_PATH": job.environment.get("PATH", ""),
    }
    if job.index is not None:
        own |= {"PBS_ARRAY_INDEX": str(job.index), "PBS_ARRAY_ID": f"{job.number}[].{SERVER}"}
    return {**job.extra["variables"], **own}


def _live(site: Site, job: Job, name: str) -> Path:
    """Where output goes while the job runs: with -k and `d` where it belongs, else to the mom's spool."""
    target = getattr(job, name)
    letter = "o" if name == "stdout" else "e"
    if target and "d" in job.extra["keep"] and letter in job.extra["keep"]:
        return Path(_named(job, target))
    return site.table.folder(job) / name


def _named(job: Job, target: str) -> str:
    if target.endswith("/") or Path(target).is_dir():
        return str(Path(target) / f"{job_id(job)}.{'OU' if target == job.stdout else 'ER'}")
    return target.replace("^array_index^", str(job.index)).replace("{number}", str(job.number))


def _find(site: Site, name: str, command: str, *, with_history: bool) -> list[Job]:
    found = re.fullmatch(rf"(\d+)(\[(\d*)\])?(\.{SERVER})?", name)
    full = name if "." in name else f"{name}.{SERVER}"
    jobs = site.table.of(int(found[1]), int(found[3]) if found[3] else None) if found else []
    if not jobs:
        raise RefusedError(f"{command}: Unknown Job Id {full}", UNKNOWN_JOB)
    if all(job.state == DONE for job in jobs) and not (with_history and site.configuration.keeps_history):
        if not site.configuration.keeps_history:
            raise RefusedError(f"{command}: Unknown Job Id {full}", UNKNOWN_JOB)
        hint = " Job has finished, use -x or -H to obtain historical job information"
        raise RefusedError(f"{command}: {full}{hint}", FINISHED)
    return jobs


def _listed(site: Site, with_history: bool) -> list[Job]:
    keep = with_history and site.configuration.keeps_history
    return [job for job in site.table.all() if keep or job.state != DONE]


def _request(site: Site, names: list[str], what: str, command: str) -> int:
    for name in names:
        for job in _find(site, name, command, with_history=False):
            if job.state != RUNNING:
                raise RefusedError(f"{command}: Request invalid for state of job {job_id(job)}", BAD_STATE)
            site.table.request(job, what)
    return 0


def _entries(site: Site, jobs: list[Job], *, expand: bool) -> dict[str, dict[str, Any]]:
    """What is told of each job by its id; the elements of an array as one job, unless it is expanded."""
    entries: dict[str, dict[str, Any]] = {}
    for job in jobs:
        elements = site.table.of(job.number)
        if job.index is None or expand or len(jobs) < len(elements):
            entries[job_id(job)] = _entry(site, job)
        else:
            entry = _entry(site, elements[0])
            done = all(element.state == DONE for element in elements)
            begun = any(element.started for element in elements)
            entry |= {"job_state": "F" if done else "B" if begun else "Q", "array": "True"}
            entries[f"{job.number}[].{SERVER}"] = entry
    return entries


def _entry(site: Site, job: Job) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Job_Name": job.name,
        "Job_Owner": f"{getpass.getuser()}@{socket.gethostname()}",
        "job_state": LETTERS[job.state],
        "queue": job.queue,
        "server": SERVER,
        "substate": ENDED_SUBSTATES.get(job.reason, SUBSTATES[job.state]),
        "Resource_List": {**job.extra["resources"], "nodect": job.nodes, "ncpus": job.nodes * job.cpus},
        "run_count": job.runs,
        "Output_Path": f"{socket.gethostname()}:{_named(job, job.stdout)}",
        "ctime": _when(job.submitted),
    }
    if job.wall_time is not None:
        minutes, seconds = divmod(int(job.wall_time), 60)
        entry["Resource_List"]["walltime"] = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    if job.hosts:
        memory = f":mem={job.memory_mib * 1024}kb" if job.memory_mib else ""
        entry["exec_host"] = "+".join(f"{host}/0*{job.cpus}" for host in job.hosts)
        entry["exec_vnode"] = "+".join(f"({host}:ncpus={job.cpus}{memory})" for host in job.hosts)
    if job.started is not None:
        entry["stime"] = _when(job.started)
    if job.extra.get("impossible"):
        entry["comment"] = "Can Never Run: Insufficient amount of resource: ncpus"
    if job.state == DONE and job.code is not None:
        signalled = -29 if job.reason == LIMIT else 256 - job.code
        entry["Exit_status"] = job.code if job.code >= 0 and job.reason != LIMIT else signalled
    return entry


def _when(moment: float) -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(moment))


def _under(name: str, entries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: entries} if entries else {}


def _print_table(entries: dict[str, dict[str, Any]]) -> None:
    if entries:
        print("Job id            Name             User              Time Use S Queue")
        print("----------------  ---------------- ----------------  -------- - -----")
    for name, entry in entries.items():
        owner = entry["Job_Owner"].partition("@")[0]
        print(f"{name:17} {entry['Job_Name'][:15]:16} {owner:16}  00:00:00 {entry['job_state']} {entry['queue']}")


def _queues(site: Site, as_json: bool) -> int:
    queues: dict[str, dict[str, Any]] = {}
    for name, queue in site.configuration.queues.items():
        limits = {"nodect": queue.max_nodes, "ncpus": queue.max_cpus, "walltime": queue.max_wall_time}
        queues[name] = {
            "queue_type": "Execution",
            "resources_max": {key: value for key, value in limits.items() if value is not None},
            "enabled": "True",
            "started": "True",
        }
    if as_json:
        print(json.dumps({"pbs_server": SERVER, **_under("Queue", queues)}, indent=4))
        return 0
    print("Queue              Max   Tot Ena Str   Que   Run   Hld   Wat   Trn   Ext Type\n" + "-" * 72)
    for name in queues:
        print(f"{name:16}     0     0 yes yes     0     0     0     0     0     0 Exec")
    return 0


def _current(site: Site) -> Job:
    found = re.match(r"(\d+)(\[(\d+)\])?", os.environ.get("PBS_JOBID", ""))
    if not found:
        raise RefusedError("not in a job: PBS_JOBID is not set")
    return site.table.load(f"{found[1]}_{found[3]}" if found[3] else found[1])


_KILL = ((SIGTERM, 10.0), (SIGKILL, 0.0))
_DOWN = "Connection refused\n{command}: cannot connect to server pn0 (errno=111)\n"

PBS = Scheduler(
    "pbs",
    {
        "qsub": qsub,
        "qstat": qstat,
        "qdel": qdel,
        "qsig": qsig,
        "qrls": qrls,
        "qrerun": qrerun,
        "pbsnodes": pbsnodes,
        "pbs_tmrsh": pbs_tmrsh,
        "mpiexec": mpiexec,
    },
    limit_signals=_KILL,
    cancel_signals=_KILL,
    start=start,
    finish=finish,
    outages={name: (_DOWN.format(command=name), 111) for name in ("qsub", "qstat", "qdel", "qsig")},
    refusal=("qsub: Unauthorized Request\n", UNAUTHORIZED),
)
