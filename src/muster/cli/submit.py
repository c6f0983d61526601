"""`muster submit`: train on a scheduler's hosts, past the wall time if need be; or detached on this machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.help import GroupedOptions
from muster.cli.options import AsJson, RunsDir, Settings, whole_number
from muster.cli.screen import console, print_json, show_notice
from muster.cli.submitted import send, show_shipment, show_submitted
from muster.errors import InputError
from muster.files.regular import is_there
from muster.runs.folder import ELSEWHERE
from muster.runs.folder import runs_dir as folder_of_runs

if TYPE_CHECKING:
    from muster.clusters.named import FoundCluster
    from muster.jobs.folder import JobFolder
    from muster.jobs.submission_plan import Plan

MOST_JOBS = 1000
COMMAND = "muster.command"
DOCTOR_WALL_TIME = "5m"


class CommandAfterDashes(GroupedOptions):
    """A command line that keeps apart what comes after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words after the first `--` away before the others are read."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


COMMAND_CLASS = CommandAfterDashes


def submit(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|ID] [-- COMMAND ...]", help="Experiment, simulator's id, or any command."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Cluster or scheduler; local: this machine; ray:ADDRESS: a Ray that exists."
        ),
    ] = None,
    remote: Annotated[
        str | None, typer.Option(metavar="USER@LOGIN", help="Login node of the cluster, to be reached by ssh.")
    ] = None,
    nodes: Annotated[str | None, typer.Option(help="Hosts of a job.")] = None,
    min_nodes: Annotated[
        str | None, typer.Option(help="Run with so many hosts if others fail; default: all.")
    ] = None,
    cpus: Annotated[str | None, typer.Option(help="CPUs of each host; default: whole hosts.")] = None,
    gpus: Annotated[str | None, typer.Option(help="GPUs of each host.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of each host, such as 64G.")] = None,
    wall_time: Annotated[str | None, typer.Option(help="How long a job may run, such as 2h.")] = None,
    account: Annotated[str | None, typer.Option(help="Account to charge.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "--partition", help="Queue or partition.")] = None,
    qos: Annotated[str | None, typer.Option(help="Quality of service.")] = None,
    constraint: Annotated[str | None, typer.Option(help="Features that hosts must have.")] = None,
    reservation: Annotated[str | None, typer.Option(help="Reservation to run in.")] = None,
    directive: Annotated[
        list[str] | None, typer.Option(help="Further directive, verbatim; may be repeated.")
    ] = None,
    chain: Annotated[
        str | None, typer.Option(help="How to continue past the wall time: requeue, dependency, ahead or none.")
    ] = None,
    max_jobs: Annotated[
        int, typer.Option(min=1, max=MOST_JOBS, help="Most jobs of a run, one after another.")
    ] = 10,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=MOST_JOBS, help="Train this many seeds, as a job array.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run and its folder.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run of that name with new jobs.")] = False,
    doctor: Annotated[bool, typer.Option("--doctor", help="Check the cluster's hosts with a short job.")] = False,
    no_snapshot: Annotated[
        bool, typer.Option("--no-snapshot", help="Run the project's files in place instead of a copy.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be submitted; needs no scheduler.")
    ] = False,
    render: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the job script and submit nothing.")
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Start Ray's dashboard too, for `muster dashboard` (extra ray).")
    ] = False,
    settings: Settings = None,
    runs_dir: RunsDir = None,
    as_json: AsJson = False,
) -> None:
    """Submit a run to a cluster's scheduler. Where one job's wall time is too short, further jobs continue it.
    With --on local it runs on this machine and outlives the terminal.

    The job runs a copy of the project's files, made now: later edits do not change it.
    """
    from muster.jobs.delivery import carry_out
    from muster.jobs.request import Request, make_plan
    from muster.jobs.submission_plan import SubmitOptions

    given = {
        "remote": remote,
        "nodes": nodes,
        "min_nodes": min_nodes,
        "cpus": cpus,
        "gpus": gpus,
        "memory": memory,
        "wall_time": wall_time or (DOCTOR_WALL_TIME if doctor else None),
        "account": account,
        "queue": queue,
        "qos": qos,
        "constraint": constraint,
        "reservation": reservation,
        "chain": chain,
        "dashboard": "true" if dashboard else None,
    }
    command: list[str] = context.meta.get(COMMAND, [])
    _require_one_thing(target, command, doctor=doctor)
    if (doctor or command) and (seeds is not None or settings):
        flag = "--seeds" if seeds is not None else "--set"
        raise InputError(f"{flag}: only for an experiment, not for {'--doctor' if doctor else 'a command'}")
    directory = folder_of_runs(runs_dir)
    flags = {key: value for key, value in given.items() if value is not None}
    again = _earlier(target, directory) if resume and target and not doctor else None
    if again is not None:
        others = {"on": on, "directive": directive, "seeds": seeds, "name": name, "no_snapshot": no_snapshot}
        _require_no_flags(again, {**flags, **others, "set": settings})
        cluster = _cluster_again(again)
    else:
        cluster = _cluster(on, target, flags, directive or [])
    _require_dashboard(cluster)
    options = SubmitOptions(
        cluster=cluster,
        directory=directory,
        name=name,
        resume=resume,
        max_jobs=max_jobs,
        seeds=seeds,
        snapshot=not no_snapshot,
        writes=not (dry_run or render),
    )
    request = Request(options, target, command, settings or (), doctor=doctor, again=again)
    if cluster.cluster.is_elsewhere:
        if render is not None:
            raise InputError(f"--render {render}: the script is made on the hosts; --dry-run shows what is sent")
        show_shipment(request) if dry_run else send(request, as_json=as_json)
        return
    plan = make_plan(request)
    if dry_run or render is not None:
        _show_plan(plan, render)
        return
    jobs = carry_out(plan)
    if as_json:
        print_json({"run": str(plan.job.path), "scheduler": plan.order.scheduler, "jobs": jobs})
    else:
        show_submitted(plan, jobs)


def _require_one_thing(target: str | None, command: list[str], *, doctor: bool) -> None:
    if doctor and command:
        raise InputError("submit: give --doctor or a command, not both")
    if not doctor and bool(target) == bool(command):
        raise InputError(
            "submit: give an experiment (muster submit exp.toml --on NAME) "
            "or a command (muster submit --on NAME -- python train.py)"
        )


def _require_no_flags(job: JobFolder, flags: dict[str, Any]) -> None:
    """Refuse flags that would not be heeded when a run's own script is sent again."""
    names = [f"--{key.replace('_', '-')}" for key, value in flags.items() if value]
    if names:
        raise InputError(
            f"{', '.join(names)}: {job.path.name} would be submitted with the same script again, without them\n"
            f"    to change anything, give the experiment: muster submit FILE --name {job.path.name} --resume ..."
        )


def _cluster(on: str | None, target: str | None, given: dict[str, str], directives: list[str]) -> FoundCluster:
    """Find the cluster, with the flags taken in."""
    from muster.clusters.named import find_cluster, with_flags

    if on is None:
        raise InputError(
            "--on: which cluster? A name of [clusters.NAME], or slurm, pbs, cobalt, lsf, sge, flux, local, "
            "ray:ADDRESS"
        )
    experiment = Path(target) if target and target.endswith(".toml") else None
    found = find_cluster(on, "--on", experiment)
    values: dict[str, Any] = {key: _value(text) for key, text in given.items()}
    if directives:
        values["directives"] = [*found.cluster.directives, *directives]
    return with_flags(found, values, "submit")


def _require_dashboard(cluster: FoundCluster) -> None:
    """Refuse a dashboard that the launch would refuse, before a job waits in the queue for that."""
    from muster.clusters.launching.launch import require_dashboard

    settings = cluster.cluster
    if settings.dashboard and not settings.is_elsewhere and not settings.container:
        require_dashboard()


def _cluster_again(job: JobFolder) -> FoundCluster:
    """Return the cluster that a run was submitted to."""
    from muster.clusters.named import FoundCluster, find_cluster
    from muster.jobs.places.record import read_record

    if not is_there(job.path / ELSEWHERE):
        return find_cluster(str(job.folder / "cluster.toml"), "--on")
    record = read_record(job.path)
    return FoundCluster(record.cluster, record.settings, str(job.path / ELSEWHERE))


def _value(text: str) -> Any:
    """Return what a flag says: a number, `true`, `false` to leave a directive out, or text."""
    number = whole_number(text)
    return text == "true" if text in ("true", "false") else text if number is None else number


def _earlier(target: str, directory: Path) -> JobFolder | None:
    """Return the submitted run that a target names, if it names one rather than an experiment."""
    from muster.jobs.folder import JobFolder

    paths = (directory / target, Path(target)) if not target.endswith(".toml") else ()
    found = [JobFolder(path.resolve()) for path in paths]
    return next((job for job in found if job.exists() or is_there(job.path / ELSEWHERE)), None)


def _show_plan(plan: Plan, render: Path | None) -> None:
    from muster.jobs.sending import submit_command

    if render is not None:
        _write_script(plan, render)
        return
    for one in plan.sent:
        command = submit_command(one.scheduler, one.arguments, None, one.job.script.name)
        show_notice(f"in {one.job.folder}: {shlex.join(command)}, with this {one.job.script.name}:\n")
        print(one.script, end="", flush=True)


def _write_script(plan: Plan, path: Path) -> None:
    from muster.files.regular import odd_kind
    from muster.runs.files import explained, write_text

    if len(plan.sent) > 1:
        raise InputError(f"--render {path}: there are {len(plan.sent)} scripts; --dry-run prints them all")
    if (what := odd_kind(path)) is not None:
        raise InputError(f"--render {path}: is {what}, expected a file")
    if not path.parent.is_dir():
        raise InputError(f"--render {path}: there is no folder {path.parent}")
    with explained(path, afterwards=""):
        write_text(path, plan.sent[0].script)
    console().print(f"{path}: written; nothing was submitted")
