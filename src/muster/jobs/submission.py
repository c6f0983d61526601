"""From an experiment or a command to the plan of its submission."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import tomli_w

from muster.clusters.launching.containers import DEFAULT_PYTHON
from muster.clusters.named import NamedCluster
from muster.errors import InputError
from muster.experiment import LoadedExperiment
from muster.experiment.quantities import LARGEST_SEED
from muster.experiment.schema import Experiment
from muster.files.regular import read_text
from muster.jobs.folder import JobFolder, Order, members
from muster.jobs.schedulers import SCHEDULERS
from muster.jobs.schedulers.model import Job
from muster.jobs.script import PYTHON, Script, job_directives, render
from muster.jobs.snapshot import Project, find_project, moved, moved_experiment, search_path
from muster.jobs.submission_plan import CHANGES, CLUSTER, GIVEN, Part, Plan, SubmitOptions
from muster.jobs.submitted_folder import chosen_folder
from muster.runs.folder import default_name
from muster.simulators.lookup import find_simulator


def plan_training(loaded: LoadedExperiment, target: str, options: SubmitOptions) -> Plan:
    """Plan the training of an experiment: one run, a sweep if it has one, or an array of seeds."""
    experiment = loaded.experiment
    require_trainable(loaded, target, options)
    kind, _ = _kind_and_name(experiment, options)
    with chosen_folder(*run_base((), loaded, options)) as job:
        project = project_of(target, loaded, options)
        if project is not None:
            loaded = replace(loaded, experiment=moved_experiment(experiment, project, job.code))
        if options.seeds:
            return _plan_seeds(job, loaded, project, options)
        return _plan_run(job, kind, loaded, project, options)


def require_trainable(loaded: LoadedExperiment, target: str, options: SubmitOptions) -> None:
    """Refuse an experiment that no job could train.

    Raises:
        InputError: saying why.
    """
    experiment = loaded.experiment
    if options.seeds and experiment.sweep is not None:
        raise InputError(
            f"--seeds {options.seeds}: {target} has a [sweep], which is one job\n"
            "    leave out --seeds, or the [sweep]"
        )
    # A simulator of the user's own is not imported here: what it needs may be on the compute hosts alone.
    if ":" not in experiment.env.id and not options.cluster.cluster.container:
        find_simulator(experiment.env.id)


def _kind_and_name(experiment: Experiment, options: SubmitOptions) -> tuple[str, str]:
    """Return what kind of run an experiment gives, and what it is called unless it has a name."""
    kind = "seeds" if options.seeds else "sweep" if experiment.sweep is not None else "train"
    return kind, default_name(experiment.env.id, experiment.algorithm.name) + {"train": ""}.get(kind, f"-{kind}")


def run_base(
    command: Sequence[str], loaded: LoadedExperiment | None, options: SubmitOptions
) -> tuple[str, SubmitOptions]:
    """Return what a run is called unless it is given a name, and the options with that of its experiment."""
    if loaded is None:
        return default_name(Path(command[0]).name, "command") if command else "doctor", options
    name = loaded.experiment.name if options.name is None else options.name
    return _kind_and_name(loaded.experiment, options)[1], replace(options, name=name)


def plan_command(command: Sequence[str], options: SubmitOptions) -> Plan:
    """Plan any command; its scripts are taken from the copy of the project."""
    with chosen_folder(*run_base(command, None, options)) as job:
        project = project_of(None, None, options)
        words, paths = list(command), []
        if project is not None:
            copied = {str(path) for path in project.files if path.suffix in (".py", ".sh")}
            words = [_copied_script(word, project, job.code, copied) for word in words]
            paths = search_path([moved(str(Path.cwd()), project, job.code)], project, job.code)
        order = _order("command", _launched(job, words, options), options, project)
        return _plan(job, order, paths, project, None, options)


def plan_doctor(target: str | None, options: SubmitOptions) -> Plan:
    """Plan a short job that looks whether the hosts are fit for training."""
    with chosen_folder("doctor", options) as job:
        file = Path(target) if target else None
        words = [str(file.resolve()) if file.exists() else str(target)] if file else []
        order = _order("doctor", [*PYTHON, "doctor", *words], replace(options, max_jobs=1), None)
        return _plan(job, order, [], None, None, options)


def plan_again(job: JobFolder, max_jobs: int, part: Part | None = None) -> Plan:
    """Plan to continue a run, or all runs of an array, with the same script and the same copy of the code."""
    order = replace(job.order(), links_before=len(job.links()), max_jobs=max_jobs)
    inner = [plan_again(member, max_jobs) for member in members(job)] if order.kind == "seeds" else []
    try:
        script = read_text(job.script)
    except OSError as error:
        raise InputError(
            f"{job.script}: cannot be read: {error.strerror or error}\n    submit the experiment again"
        ) from None
    return Plan(job, order, script, members=inner, before=job.submitted(), part=part)


def _plan_seeds(job: JobFolder, loaded: LoadedExperiment, project: Project | None, options: SubmitOptions) -> Plan:
    first, count = loaded.experiment.seed, options.seeds or 1
    if first + count - 1 > LARGEST_SEED:
        raise InputError(f"--seeds {count}: the last seed is too large; expected at most {LARGEST_SEED}")
    members = []
    for seed in range(first, first + count):
        member = JobFolder(job.path / f"seed-{seed}")
        one = loaded.replace("seed", seed, "--seeds").replace("name", member.path.name, "--seeds")
        members.append(replace(_plan_run(member, "train", one, project, options, job.code), project=None))
    order = replace(members[0].order, kind="seeds", command=[])
    plan = Plan(job, order, "", project=project, members=members)
    if not plan.is_array:
        return plan
    script = Script(
        Job(_job_name(job.path.name), options.cluster.cluster, count),
        job.path,
        _work_folder(job.code, options),
        members[0].order.command,
        search_path(loaded.experiment.env.paths, project, job.code) if project else [],
        first,
        programs=_programs(options),
    )
    return _sealed(plan, script, options)


def _plan_run(
    job: JobFolder,
    kind: str,
    loaded: LoadedExperiment,
    project: Project | None,
    options: SubmitOptions,
    code: Path | None = None,
) -> Plan:
    """Plan one run; the code of several seeds is copied once."""
    given = job.folder / GIVEN
    command = "sweep" if kind == "sweep" else "train"
    place = ["--name", job.path.name, "--runs-dir", str(job.path.parent), "--resume"]
    inside = _python_inside(options.cluster.cluster)
    order = _order(kind, _launched(job, [*inside, command, str(given), *place], options), options, project)
    paths = search_path(loaded.experiment.env.paths, project, code or job.code) if project else []
    plan = _plan(job, order, paths, project, loaded, options, code)
    return replace(plan, files={**plan.files, GIVEN: tomli_w.dumps(loaded.given())})


def _plan(
    job: JobFolder,
    order: Order,
    paths: list[str],
    project: Project | None,
    loaded: LoadedExperiment | None,
    options: SubmitOptions,
    code: Path | None = None,
) -> Plan:
    script = Script(
        Job(_job_name(job.path.name), options.cluster.cluster),
        job.path,
        _work_folder(code or job.code, options),
        order.command,
        paths,
        programs=_programs(options),
    )
    return _sealed(Plan(job, order, "", loaded=loaded, project=project, part=options.part), script, options)


def _work_folder(code: Path, options: SubmitOptions) -> Path:
    """Return where the job runs: in the folder that it was submitted from, or in the copy of one that was sent."""
    return Path(moved(str(Path.cwd()), options.sent, code)) if options.sent else Path.cwd()


def _programs(options: SubmitOptions) -> str | None:
    """Return the folder of this Python's programs, which a host that the run was sent to does not know."""
    return str(Path(sys.executable).parent) if options.sent or options.part else None


def _sealed(plan: Plan, script: Script, options: SubmitOptions) -> Plan:
    """Add the script and the files beside it."""
    scheduler, found = plan.scheduler, options.cluster
    files = {CLUSTER: found.cluster.as_file(found.name)}
    if plan.project is not None and plan.project.changes:
        files[CHANGES] = plan.project.changes
    arguments = job_directives(script.job, scheduler) if scheduler.prefix is None else []
    order = replace(plan.order, links_before=len(plan.job.links()))
    plan = replace(plan, order=order, before=plan.job.submitted())
    return replace(plan, script=render(script, scheduler), arguments=arguments, files=files)


def _order(kind: str, command: list[str], options: SubmitOptions, project: Project | None) -> Order:
    cluster = options.cluster.cluster
    scheduler = SCHEDULERS[str(cluster.scheduler)]
    chain = cluster.chain or scheduler.chain
    if chain == "requeue" and scheduler.requeue is None and scheduler.requeue_code is None:
        raise InputError(
            f'chain = "requeue" ({options.cluster.source}): {scheduler.name} cannot queue a job again\n'
            '    use "dependency", or "ahead" where jobs must not submit jobs'
        )
    is_member = options.part is not None and options.part.rank > 0
    return Order(
        kind="command" if is_member else kind,
        cluster=options.cluster.name,
        scheduler=scheduler.name,
        command=command,
        chain=chain,
        max_jobs=options.max_jobs if chain != "none" else 1,
        nodes=cluster.nodes or 1,
        cpus=cluster.cpus or None,
        wall_time=cluster.wall_time or None,
        commit=project.commit if project else None,
    )


def _python_inside(cluster: NamedCluster) -> list[str]:
    """Return how muster is called where the command runs: in the container, if there is one."""
    return [cluster.python or DEFAULT_PYTHON, *PYTHON[1:]] if cluster.container else PYTHON


def is_launched(cluster: NamedCluster) -> bool:
    """Whether a command runs under `muster launch`: always, but on this machine alone, which it uses by itself."""
    needs_launch = cluster.hosts or cluster.container or cluster.dashboard
    return SCHEDULERS[str(cluster.scheduler)].is_launched or bool(needs_launch)


def _launched(job: JobFolder, command: Sequence[str], options: SubmitOptions) -> list[str]:
    if not is_launched(options.cluster.cluster):
        return list(command)
    return [*PYTHON, "launch", "--cluster", str(job.folder / CLUSTER), "--", *command]


def project_of(target: str | None, loaded: LoadedExperiment | None, options: SubmitOptions) -> Project | None:
    """Find the project of an experiment, its simulator or a command; None for a simulator of Gymnasium's own.

    Raises:
        InputError: if its files cannot be listed, or are too large to be copied.
    """
    if options.sent is not None or not options.snapshot:
        return options.sent
    if target is None or loaded is None:
        return find_project(Path.cwd(), options.directory)
    path = Path(target)
    if path.suffix == ".toml":
        return find_project(path.resolve().parent, options.directory)
    source, colon, _ = loaded.experiment.env.id.rpartition(":")
    if not colon:
        return None
    folder = Path(source).parent if source.endswith(".py") else Path.cwd()
    return find_project(folder, options.directory)


def _copied_script(word: str, project: Project, code: Path, copied: set[str]) -> str:
    """Return the copy of a script that an argument names, or the argument itself."""
    with suppress(OSError, ValueError):
        path = Path(word).resolve()
        if path.is_relative_to(project.root) and str(path.relative_to(project.root)) in copied:
            return moved(str(path), project, code)
    return word


def _job_name(name: str) -> str:
    """Return a name that every scheduler takes: it begins with a letter, and has few other signs."""
    kept = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in name)[:60]
    return kept if kept[:1].isalpha() else f"m{kept}"
