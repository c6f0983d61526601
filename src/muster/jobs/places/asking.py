"""The states of runs that live elsewhere: each place is asked once, all at the same time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from muster.errors import JobError
from muster.jobs.commands import UnansweredError
from muster.jobs.places.model import find_place
from muster.jobs.places.record import RunElsewhere, last_line
from muster.jobs.states import RunState
from muster.runs.folder import RunFolder
from muster.runs.status import Status, read_status

_FIELDS = {field.name for field in fields(RunState)}


def read_states_elsewhere(runs: Sequence[RunElsewhere], *, may_ask: bool = False) -> list[RunState]:
    """Return the states of runs; those of a place that does not answer are `unknown`."""
    groups: dict[tuple[str, str, str], list[RunElsewhere]] = {}
    for run in runs:
        first = run.record.first
        groups.setdefault((run.record.host, first.python, str(Path(first.folder).parent)), []).append(run)

    def ask(group: list[RunElsewhere]) -> list[RunState]:
        try:
            return _answered(group, may_ask=may_ask)
        except (UnansweredError, JobError) as error:
            return [_unknown(run, str(error)) for run in group]

    with ThreadPoolExecutor(max_workers=max(1, len(groups))) as pool:
        return [state for states in pool.map(ask, groups.values()) for state in states]


def _answered(group: Sequence[RunElsewhere], *, may_ask: bool) -> list[RunState]:
    """Ask for one run by its folder, or for all of that place."""
    place = find_place(group[0].record)
    early = [place.early_state(run) for run in group]
    states = [_early(run, *known) for run, known in zip(group, early, strict=True) if known is not None]
    group = [run for run, known in zip(group, early, strict=True) if known is None]
    if not group:
        return states
    folder = str(Path(group[0].record.first.folder).parent)
    which = [group[0].folder] if len(group) == 1 else ["--runs-dir", folder]
    answer = place.run(["status", *which, "--json"], may_ask=may_ask)
    try:
        found = json.loads(last_line(answer))
    except ValueError:
        raise UnansweredError(f"{group[0].record.host} answered what is not understood") from None
    tables = [table for table in (found if isinstance(found, list) else [found]) if isinstance(table, dict)]
    for run in group:
        own = [table for table in tables if Path(str(table.get("run"))).is_relative_to(run.folder)]
        states += [_state(run, table) for table in own] or [_unknown(run, "its folder there is gone")]
    return states


def _state(run: RunElsewhere, table: dict[str, Any]) -> RunState:
    """Return a state as it was told, under the run's name here."""
    inside = Path(table["run"]).relative_to(run.record.first.folder)
    known = {name: value for name, value in table.items() if name in _FIELDS}
    try:
        state = RunState(**known)
    except TypeError:
        return _unknown(run, f"{run.record.host} answered what is not understood")
    return replace(
        state,
        run=str(run.path / inside),
        cluster=run.record.cluster,
        scheduler=run.record.scheduler,
        place=run.record.host,
        job_id=run.record.job_id or state.job_id,
    )


def _unknown(run: RunElsewhere, reason: str) -> RunState:
    """Say what was last known, by what has been fetched."""
    return _early(run, "unknown", reason)


def _early(run: RunElsewhere, state: str, reason: str) -> RunState:
    """Return the state of a run that muster there was not asked for."""
    path = run.path / run.member
    status = read_status(RunFolder(path).status) or Status("unknown")
    return RunState(
        run=str(path),
        kind="train",
        state=state,
        reason=reason.partition("\n")[0],
        cluster=run.record.cluster,
        scheduler=run.record.scheduler,
        job_id=run.record.job_id or None,
        link=0,
        max_jobs=1,
        start="",
        iteration=status.iteration,
        steps=status.steps,
        return_mean=status.return_mean,
        updated=status.updated,
        exit_code=None,
        node_hours=0.0,
        cpu_efficiency=None,
        memory=None,
        place=run.record.host,
    )
