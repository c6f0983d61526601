"""Who started this process as one of many ranks, and which one it is: a table of the launchers' variables."""

from __future__ import annotations

from dataclasses import dataclass

from muster.clusters.allocation.model import Ranks, Sourced
from muster.clusters.allocation.variables import Environment, number, text
from muster.environment_variables import NUM_RANKS_VARIABLE, RANK_VARIABLE

SRUN = "srun"
FIRST_SPECIAL_SLURM_STEP = 0xFFFFFFF0
"""Slurm numbers the steps that are no parallel ones from here: batch script, interactive shell, external."""


@dataclass(frozen=True)
class Launcher:
    """The variables in which a launcher tells a rank about itself."""

    name: str
    rank: str
    marks: tuple[str, ...] = ()
    """Must hold something as well, for others set the same rank variable."""
    num_ranks: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    num_local_ranks: tuple[str, ...] = ()
    host_index: tuple[str, ...] = ()
    step_id: tuple[str, ...] = ()
    step_id_is_unique: bool = False
    """Whether no other launch has this id, whatever the job; else it counts launches inside a job."""


LAUNCHERS = (
    Launcher("muster", RANK_VARIABLE, num_ranks=(NUM_RANKS_VARIABLE,), host_index=(RANK_VARIABLE,)),
    Launcher(
        "jsrun",
        "JSM_NAMESPACE_RANK",
        num_ranks=("JSM_NAMESPACE_SIZE",),
        local_rank=("JSM_NAMESPACE_LOCAL_RANK",),
        num_local_ranks=("JSM_NAMESPACE_LOCAL_SIZE",),
        step_id=("PMIX_NAMESPACE",),
    ),
    Launcher(
        "open-mpi",
        "OMPI_COMM_WORLD_RANK",
        num_ranks=("OMPI_COMM_WORLD_SIZE",),
        local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
        num_local_ranks=("OMPI_COMM_WORLD_LOCAL_SIZE",),
        step_id=("OMPI_MCA_orte_precondition_transports", "PMIX_NAMESPACE"),
        step_id_is_unique=True,
    ),
    Launcher(
        "mvapich",
        "MV2_COMM_WORLD_RANK",
        num_ranks=("MV2_COMM_WORLD_SIZE",),
        local_rank=("MV2_COMM_WORLD_LOCAL_RANK",),
        num_local_ranks=("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    Launcher(
        "intel-mpi",
        "PMI_RANK",
        marks=("I_MPI_HYDRA_UUID",),
        num_ranks=("PMI_SIZE",),
        local_rank=("MPI_LOCALRANKID",),
        num_local_ranks=("MPI_LOCALNRANKS",),
        step_id=("I_MPI_HYDRA_UUID",),
        step_id_is_unique=True,
    ),
    Launcher(
        "mpich",
        "PMI_RANK",
        marks=("MPI_LOCALRANKID",),
        num_ranks=("PMI_SIZE",),
        local_rank=("MPI_LOCALRANKID",),
        num_local_ranks=("MPI_LOCALNRANKS",),
    ),
    Launcher(
        "flux",
        "FLUX_TASK_RANK",
        num_ranks=("FLUX_JOB_SIZE",),
        local_rank=("FLUX_TASK_LOCAL_ID",),
        step_id=("FLUX_JOB_ID",),
        step_id_is_unique=True,
    ),
    Launcher(
        SRUN,
        "SLURM_PROCID",
        num_ranks=("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        local_rank=("SLURM_LOCALID",),
        host_index=("SLURM_NODEID",),
        step_id=("SLURM_STEP_ID",),
    ),
    Launcher(
        "pals",
        "PALS_RANKID",
        num_ranks=("PMI_SIZE",),
        local_rank=("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"),
        num_local_ranks=("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        host_index=("PALS_NODEID",),
        step_id=("PALS_APID",),
        step_id_is_unique=True,
    ),
    Launcher("aprun", "ALPS_APP_PE", num_ranks=("PMI_SIZE",), step_id=("ALPS_APP_ID",)),
    Launcher(
        "pmi",
        "PMI_RANK",
        num_ranks=("PMI_SIZE",),
        local_rank=("PMI_LOCAL_RANK",),
        num_local_ranks=("PMI_LOCAL_SIZE",),
        step_id=("PMI_JOBID",),
    ),
    Launcher("pmix", "PMIX_RANK", step_id=("PMIX_NAMESPACE",), step_id_is_unique=True),
)
"""The innermost first. An mpirun inside a Slurm job starts its remote daemons by srun, so that its ranks have a
Slurm step's variables too; srun and Flux in turn set PMI's and PALS's variables beside their own."""


def find_ranks(environ: Environment) -> Ranks | None:
    """Return which rank this process is, and of how many; None outside a parallel step.

    Raises:
        AllocationError: if a variable holds no number where one belongs.
    """
    launcher = next((launcher for launcher in LAUNCHERS if _is_present(launcher, environ)), None)
    rank = number(environ, launcher.rank) if launcher else None
    if launcher is None or rank is None:
        return None
    return Ranks(
        Sourced(launcher.name, launcher.rank),
        rank,
        number(environ, *launcher.num_ranks),
        number(environ, *launcher.local_rank),
        number(environ, *launcher.num_local_ranks),
        number(environ, *launcher.host_index),
        text(environ, *launcher.step_id),
        launcher.step_id_is_unique,
    )


def lonely_world_doubt(ranks: Ranks | None, scheduler_tasks: Sourced[int] | None) -> str | None:
    """Say what hints at an mpirun that does not fit: it starts N processes, each alone in a world of its own."""
    if ranks is None or ranks.num_ranks is None or ranks.num_ranks.value != 1:
        return None
    if scheduler_tasks is None or scheduler_tasks.value == 1:
        return None
    return (
        f"{ranks.num_ranks.source} says this is the only rank, but {scheduler_tasks.source} speaks of "
        f"{scheduler_tasks.value}: was it started with an mpirun that does not know this scheduler?"
    )


def mpi_world_problem(ranks: Ranks | None, mpi_size: int) -> str | None:
    """Say what is wrong if an MPI library finds another number of ranks than its launcher started."""
    if ranks is None or ranks.num_ranks is None or ranks.num_ranks.value == mpi_size:
        return None
    return (
        f"{ranks.launcher.value} started {ranks.num_ranks.value} ranks ({ranks.num_ranks.source}), but the MPI "
        f"library finds {mpi_size}: mpirun and the library are of different MPIs\n"
        "    start it with the mpirun that belongs to the library mpi4py was built with"
    )


def _is_present(launcher: Launcher, environ: Environment) -> bool:
    if launcher.name == SRUN and not _in_slurm_step(environ):
        return False
    return all(text(environ, name) for name in (launcher.rank, *launcher.marks))


def _in_slurm_step(environ: Environment) -> bool:
    """Tell a parallel step from a batch script, which has a rank too, and from an interactive shell."""
    step = number(environ, "SLURM_STEP_ID")
    return step is not None and step.value < FIRST_SPECIAL_SLURM_STEP
