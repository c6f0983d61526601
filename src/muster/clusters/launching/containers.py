"""Ranks inside containers: how each runtime is called, as a table."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.environment_variables import IN_CONTAINER_VARIABLE, PREFIX
from muster.errors import ClusterError, InputError

DEFAULT_RUNTIME, DEFAULT_PYTHON = "apptainer", "python3"
PASSED_VARIABLES = (
    *(PREFIX, "SLURM", "PBS_", "LSB_", "JSM_", "CSM_", "COBALT_", "FLUX_", "SGE_", "PE_", "JOB_ID", "NSLOTS"),
    *("OMPI_", "PMIX_", "PMI_", "PMI2_", "PRTE_", "MPI_", "MV2_", "HYDRA_", "HYDI_", "I_MPI_", "PALS_", "ALPS_"),
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "NCPUS", "TMPDIR", "RAY_"),
)
"""Beginnings of the variables that a rank reads."""


@dataclass(frozen=True)
class Runtime:
    """How a container runtime is called; all keep the host's network and processes."""

    command: tuple[str, ...]
    folder: tuple[str, ...]
    """Flags for the working folder."""
    bind: tuple[str, ...] = ()
    """Flags for a folder of the host that is to be seen inside; none where the site decides."""
    variables: tuple[str, ...] = ()
    """Flags for variables of the host, by the beginning of their names; none where all are passed."""
    image: tuple[str, ...] = ("{image}",)


_PODMAN = Runtime(
    ("podman", "run", "--rm", "--interactive", "--network=host", "--pid=host", "--ipc=host"),
    folder=("--workdir={folder}",),
    bind=("--volume={folder}:{folder}",),
    variables=("--env={name}*",),
)
RUNTIMES = {
    "apptainer": Runtime(("apptainer", "exec"), folder=("--pwd={folder}",), bind=("--bind={folder}",)),
    "shifter": Runtime(("shifter",), folder=("--workdir={folder}",), image=("--image={image}",)),
    "podman": _PODMAN,
    "podman-hpc": Runtime(("podman-hpc", *_PODMAN.command[1:]), _PODMAN.folder, _PODMAN.bind, _PODMAN.variables),
    "charliecloud": Runtime(
        ("ch-run",), folder=("--cd={folder}",), bind=("--bind={folder}",), image=("{image}", "--")
    ),
}


@dataclass(frozen=True)
class Container:
    """An image to run the ranks in."""

    image: str
    runtime: Runtime
    flags: tuple[str, ...] = ()
    """Further flags of the runtime, such as --nv."""
    python: str = DEFAULT_PYTHON
    """The interpreter inside."""

    def line(self, arguments: Sequence[str], folders: Iterable[Path]) -> list[str]:
        """Return the command that runs `muster` with these arguments inside, where the folders are seen."""
        runtime, here = self.runtime, Path.cwd()
        image = str(Path(self.image).resolve()) if Path(self.image).exists() else self.image
        seen = dict.fromkeys(str(folder) for folder in (here, *folders) if folder.is_dir())
        return [
            *runtime.command,
            *self.flags,
            *(flag.format(folder=folder) for folder in seen for flag in runtime.bind),
            *(flag.format(name=name) for name in PASSED_VARIABLES for flag in runtime.variables),
            *(flag.format(folder=here) for flag in runtime.folder),
            *(part.format(image=image) for part in runtime.image),
            *(self.python, "-m", "muster", *arguments),
        ]

    def enter(self, arguments: Sequence[str], folders: Iterable[Path]) -> None:
        """Become `muster` with these arguments inside the container, unless this is inside already.

        Raises:
            ClusterError: if the runtime is not here.
        """
        if IN_CONTAINER_VARIABLE in os.environ:
            return
        os.environ[IN_CONTAINER_VARIABLE] = "1"
        line = self.line(arguments, folders)
        try:
            os.execvp(line[0], line)
        except OSError as error:
            raise ClusterError(
                f"{line[0]}: cannot be started: {error.strerror}\n    load its module, or name another --runtime"
            ) from None


def parse_container(image: str | None, runtime: str | None, python: str | None) -> Container | None:
    """Return the container of these flags; `runtime` may have flags of its own behind its name.

    Raises:
        InputError: if there is no such runtime, or no image for it.
    """
    if image is None:
        if runtime is not None or python is not None:
            raise InputError("--runtime and --python: need an image, such as --container image.sif")
        return None
    name, *flags = shlex.split(runtime or DEFAULT_RUNTIME) or [DEFAULT_RUNTIME]
    if name not in RUNTIMES:
        raise InputError(f"--runtime {name}: no such runtime; known: {', '.join(RUNTIMES)}")
    return Container(image, RUNTIMES[name], tuple(flags), python or DEFAULT_PYTHON)
