"""The one question to a PMI launcher whose environment does not name the launch, such as MPICH's mpiexec."""

from __future__ import annotations

import os
import re
import socket

from muster.clusters.allocation.model import Sourced
from muster.clusters.allocation.variables import Environment, number
from muster.errors import AllocationError

SECONDS_TO_ANSWER = 10.0
_VERSION = "pmi_version=1 pmi_subversion=1"
_NAME = re.compile(r"kvsname=(\S+)")


def ask_launch_name(environ: Environment) -> Sourced[str] | None:
    """Ask the launcher what it calls this launch; the same answer on all its ranks. None without a PMI launcher.

    Whoever asks has used up this process's part in the launch: MPI cannot be started in it any more.

    Raises:
        AllocationError: if the launcher does not answer, or not so.
    """
    descriptor = number(environ, "PMI_FD")
    if descriptor is None:
        return None
    try:
        with socket.socket(fileno=os.dup(descriptor.value)) as connection:
            connection.settimeout(SECONDS_TO_ANSWER)
            with connection.makefile("rw", encoding="ascii", newline="\n") as stream:
                answers = []
                for command in (f"init {_VERSION}", "get_my_kvsname", "finalize"):
                    stream.write(f"cmd={command}\n")
                    stream.flush()
                    answers.append(stream.readline().strip())
    except (OSError, ValueError) as error:
        raise AllocationError(f"the PMI launcher (PMI_FD={descriptor.value}) did not answer: {error}") from None
    found = _NAME.search(answers[1])
    if found is None:
        raise AllocationError(f"the PMI launcher (PMI_FD={descriptor.value}) named no launch: {answers[1]!r}")
    return Sourced(found[1], descriptor.source)
