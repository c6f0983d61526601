"""Fixtures: one lab for the whole test session, and the services on it, each started when first asked for.

After each test the lab is put in order again, so a test may crash hosts and cut links without mending them.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from . import gridengine as gridengine_service
from . import mpi as mpi_kinds
from . import slurm as slurm_service
from . import sshd as sshd_service
from .cluster import Lab, owned_lab
from .gridengine import GridEngine
from .mpi import Mpi
from .requirements import why_missing, why_no_lab
from .services import Services
from .slurm import Slurm
from .sshd import Sshd

NUM_NODES = 3


@pytest.fixture(scope="session")
def lab_services() -> Iterator[Services]:
    """The session's one lab; it ends with the session, or with the process if that is killed."""
    reason = why_no_lab()
    if reason:
        pytest.skip(reason)
    with owned_lab(NUM_NODES) as lab:
        yield Services(lab)


@pytest.fixture
def lab(lab_services: Services) -> Iterator[Lab]:
    """Hosts `login`, `node1`, `node2` and `node3`."""
    yield lab_services.lab
    lab_services.restore()


@pytest.fixture
def shared(lab: Lab, request: pytest.FixtureRequest) -> Path:
    """An empty folder for this test on the shared file system."""
    folder = lab.shared / re.sub(r"\W+", "-", request.node.name).strip("-")
    folder.mkdir()
    return folder


@pytest.fixture
def slurm(lab: Lab, lab_services: Services) -> Slurm:
    """A real Slurm over the nodes of `lab`, its controller on `login`."""
    _skip_without(slurm_service.PROGRAMS)
    return lab_services.slurm()


@pytest.fixture
def sshd(lab: Lab, lab_services: Services) -> Sshd:
    """A real sshd on every host of `lab`."""
    _skip_without(sshd_service.PROGRAMS)
    return lab_services.sshd()


@pytest.fixture
def gridengine(lab: Lab, lab_services: Services) -> GridEngine:
    """A real Grid Engine over the nodes of `lab`, its master on `login`."""
    _skip_without(gridengine_service.PROGRAMS)
    return lab_services.gridengine()


@pytest.fixture
def open_mpi(sshd: Sshd) -> Mpi:
    """Open MPI alone, where a test is about something else."""
    _skip_without([mpi_kinds.OPEN_MPI.program])
    return mpi_kinds.OPEN_MPI


@pytest.fixture(
    params=[mpi_kinds.OPEN_MPI, pytest.param(mpi_kinds.MPICH, marks=pytest.mark.long)], ids=lambda kind: kind.name
)
def mpi(request: pytest.FixtureRequest, sshd: Sshd) -> Mpi:
    """Each kind of MPI in turn, able to start ranks on all hosts of `lab`."""
    kind: Mpi = request.param
    _skip_without([kind.program])
    return kind


def _skip_without(programs: Sequence[str]) -> None:
    reason = why_missing(programs)
    if reason:
        pytest.skip(reason)
