"""What must be installed on a host to run there what runs here: muster's own needs, and the project's."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import muster
from muster.errors import InputError
from muster.experiment.schema import Experiment

PACKAGE = "muster-rl"
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
_NAME = re.compile(r"([A-Za-z0-9._-]+)(\[[^\]]*\])?")
DEEPEST = 8
_REFERENCE = re.compile(r"(?:-r|--requirement)[ =]\s*(\S+)")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


@dataclass(frozen=True)
class Requirements:
    """The lines of a requirements file, and the name of the environment that they give."""

    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """As pip reads it."""
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def id(self) -> str:
        """The same for the same lines and the same Python."""
        return _digest([MINOR, *self.lines])


def required(extras: Iterable[str], project: Path | None, given: Sequence[str]) -> Requirements:
    """Return what a run needs: what muster needs, in the versions that are here, and what the project asks for.

    Raises:
        InputError: if a file of requirements cannot be read.
    """
    asked_for = _of_project(project, given)
    own = [line for line in asked_for if _is_muster(line)]
    wanted = set(extras).union(*(_extras(line) for line in own))
    return Requirements((*_own(wanted), *(line for line in asked_for if line not in own)))


def extras_of(experiment: Experiment | None, *, dashboard: bool) -> set[str]:
    """Return the extras of muster that an experiment needs; what a command needs is for the project to say."""
    extras = {"ray"} if dashboard else set()
    if experiment is not None:
        extras |= {"rllib"} if experiment.algorithm.engine == "rllib" else set()
        extras |= {"torch"} if experiment.model.class_ is not None else set()
        extras |= {"sweep"} if experiment.sweep is not None else set()
    return extras


@cache
def muster_id() -> str:
    """Return a name for this very muster: the same only for the same files."""
    digest = hashlib.sha256()
    for path in package_files():
        digest.update(str(path.relative_to(package_folder())).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{muster.__version__}-{digest.hexdigest()[:12]}"


def package_folder() -> Path:
    """Return where muster's own files are."""
    return Path(muster.__file__).parent


def package_files() -> list[Path]:
    """Return muster's own files."""
    files = (path for path in package_folder().rglob("*") if path.is_file())
    return sorted(path for path in files if "__pycache__" not in path.parts)


def _own(extras: set[str]) -> Iterator[str]:
    lines: dict[str, str] = {}
    for line in requires(PACKAGE) or []:
        found, extra = _NAME.match(line), _EXTRA.search(line)
        if found is None or (extra is not None and extra[1] not in extras):
            continue
        name, inner = found[1], found[2] or ""
        lines[f"{name}{inner}"] = f"{name}{inner}=={public_version(name)}"
    yield from lines.values()


def public_version(name: str) -> str:
    """Return the version that is installed here, without what marks a build of it.

    Raises:
        InputError: if it is not installed.
    """
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        raise InputError(
            f"{name}: the run needs it, and it is not installed here\n    pip install {name}"
        ) from None


def _is_muster(line: str) -> bool:
    """Whether a line asks for muster itself, which is sent as it is here."""
    found = _NAME.match(line.strip())
    return found is not None and found[1].lower().replace("_", "-") == PACKAGE


def _extras(line: str) -> list[str]:
    """Return the extras in `muster-rl[torch,sweep]`."""
    found = _NAME.match(line.strip())
    return [extra.strip() for extra in found[2][1:-1].split(",")] if found and found[2] else []


def _of_project(project: Path | None, given: Sequence[str]) -> list[str]:
    """Return the lines that the cluster's table gives, or else those of the project itself."""
    if given:
        return list(given)
    if project is None:
        return []
    try:
        if (listed := project / "requirements.txt").is_file():
            return _lines(listed)
        if (described := project / "pyproject.toml").is_file():
            table = tomllib.loads(described.read_text(encoding="utf-8")).get("project", {})
            return [str(line) for line in table.get("dependencies", [])]
    except (OSError, ValueError) as error:
        raise InputError(f"{project}: its requirements cannot be read: {error}") from None
    return []


def _lines(listed: Path, depth: int = 0) -> list[str]:
    """Return the lines of a file of requirements, with those of the files that it refers to."""
    lines = []
    for line in listed.read_text(encoding="utf-8").splitlines():
        found = _REFERENCE.match(line)
        if found is not None and depth < DEEPEST:
            lines += _lines(listed.parent / found[1], depth + 1)
        elif line.strip():
            lines.append(line)
    return lines


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(words)).encode()).hexdigest()[:16]
