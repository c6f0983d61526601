"""What a user asks to be submitted; it is planned here, or on a host that it was sent to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.experiment import LoadedExperiment
from muster.experiment.loading import load_experiment, parse_set
from muster.jobs.folder import JobFolder
from muster.jobs.limits import require_complete, require_possible
from muster.jobs.states import require_ended
from muster.jobs.submission import plan_again, plan_command, plan_doctor, plan_training
from muster.jobs.submission_plan import Plan, SubmitOptions


@dataclass(frozen=True)
class Request:
    """An experiment, a command, a look at the hosts, or a run to continue as it was submitted."""

    options: SubmitOptions
    target: str | None = None
    command: Sequence[str] = ()
    settings: Sequence[str] = ()
    doctor: bool = False
    again: JobFolder | None = None
    """A run to continue with the same script."""

    def load(self) -> LoadedExperiment | None:
        """Return the experiment; None for a command.

        Raises:
            InputError: with every problem of it.
        """
        if self.target is None or self.doctor:
            return None
        return load_experiment(self.target, list(map(parse_set, self.settings)))


def make_plan(request: Request) -> Plan:
    """Plan what is asked for, to be carried out on this file system.

    Raises:
        InputError: if it cannot be.
    """
    options = request.options
    if request.again is not None:
        request.again.require_own(f"submit {request.again.path.name} --resume")
        require_ended(request.again)
        return plan_again(request.again, options.max_jobs, options.part)
    scheduler = require_complete(options.cluster)
    require_possible(options.cluster, scheduler, may_ask=options.writes)
    if request.doctor:
        return plan_doctor(request.target, options)
    if request.command:
        return plan_command(request.command, options)
    loaded = request.load()
    assert loaded is not None and request.target is not None
    return plan_training(loaded, request.target, options)
