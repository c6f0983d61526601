"""What is asked of a submission, and the plan that comes of it: all that will be written and sent, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from muster.clusters.named import FoundCluster
from muster.environment_variables import (
    HEAD_ADDRESS_VARIABLE,
    LAUNCH_ID_VARIABLE,
    LAUNCH_TOKEN_VARIABLE,
    NUM_RANKS_VARIABLE,
    RANK_VARIABLE,
)
from muster.experiment import LoadedExperiment
from muster.jobs.folder import JobFolder, Order
from muster.jobs.schedulers import SCHEDULERS
from muster.jobs.schedulers.model import Scheduler
from muster.jobs.snapshot import Project

GIVEN = "submitted.toml"
CLUSTER = "cluster.toml"
CHANGES = "changes.diff"


@dataclass(frozen=True)
class SubmitOptions:
    """What is asked of a submission besides what to run."""

    cluster: FoundCluster
    """With the flags taken in."""
    directory: Path
    """Folder of all runs."""
    name: str | None = None
    resume: bool = False
    max_jobs: int = 10
    seeds: int | None = None
    snapshot: bool = True
    writes: bool = True
    """False for a plan that is only looked at."""
    sent: Project | None = None
    """The project's files, where they were sent to this host for the run."""
    part: Part | None = None
    """What this host is in a launch over several that share no folder."""


@dataclass(frozen=True)
class Part:
    """The part of one host in a launch over several, as `muster launch` reads it from variables."""

    rank: int
    num_ranks: int
    launch_id: str
    token: str
    head_address: str

    @property
    def variables(self) -> dict[str, str]:
        """What the launch is to find in its environment."""
        return {
            RANK_VARIABLE: str(self.rank),
            NUM_RANKS_VARIABLE: str(self.num_ranks),
            LAUNCH_ID_VARIABLE: self.launch_id,
            LAUNCH_TOKEN_VARIABLE: self.token,
            HEAD_ADDRESS_VARIABLE: self.head_address,
        }


@dataclass(frozen=True)
class Plan:
    """All that will be written and sent for one run, or for the array of several."""

    job: JobFolder
    order: Order
    script: str
    arguments: list[str] = field(default_factory=list)
    """Directives, where they are arguments of the submitting command."""
    files: dict[str, str] = field(default_factory=dict)
    loaded: LoadedExperiment | None = None
    project: Project | None = None
    members: list[Plan] = field(default_factory=list)
    """The runs of an array."""
    before: list[str] = field(default_factory=list)
    """Jobs of the run when it was planned."""
    part: Part | None = None

    @property
    def scheduler(self) -> Scheduler:
        """Who it is sent to."""
        return SCHEDULERS[self.order.scheduler]

    @property
    def is_array(self) -> bool:
        """Whether one script is submitted for several runs."""
        return len(self.members) > 1 and self.scheduler.array_variable is not None

    @property
    def sent(self) -> list[Plan]:
        """The plans whose scripts are submitted: this one, or each of its members."""
        return self.members if self.members and not self.is_array else [self]
