"""A copy of the project's own files, so that what was submitted is what runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from muster.clusters.named import home_folder
from muster.errors import InputError
from muster.experiment.schema import Experiment

LARGEST_BYTES = 100 * 1024**2
GIT_SECONDS = 60.0
_NEVER = ("__pycache__", ".git", "node_modules")


@dataclass(frozen=True)
class Project:
    """A project's folder and its own files, relative to it."""

    root: Path
    files: tuple[Path, ...]
    commit: str | None = None
    changes: str = ""
    """What differs from the commit."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size in _sizes(self.root, self.files))


def find_project(folder: Path, leave_out: Path) -> Project:
    """Find the files of the project that a folder belongs to: what git tracks or would track.

    Outside of git it is the folder itself, without what its `.gitignore` names. The runs are left out.

    Raises:
        InputError: if they cannot be listed, or are too large to be copied for every run.
    """
    folder = folder.resolve()
    top = _git(folder, "rev-parse", "--show-toplevel")
    root = Path(top.rstrip("\n")) if top else folder
    if not top and root in (Path("/"), home_folder()):
        raise InputError(
            f"{root}: all of it would be copied as the project of this run\n"
            "    put the experiment and its simulator into a folder of their own, or give --no-snapshot"
        )
    names = _listed(root) if top else _listed_without_repository(root)
    files = tuple(path for path in names if not (root / path).is_relative_to(leave_out.resolve()))
    commit = _git(root, "describe", "--always", "--dirty", "--abbrev=40") if top else None
    changes = (_git(root, "diff", "--no-ext-diff", "--no-color", "HEAD") if top else None) or ""
    readable = changes.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    project = Project(root, files, commit.strip() if commit else None, readable)
    _require_small(project)
    return project


def copy(project: Project, target: Path) -> None:
    """Copy the project's files; a link to a folder of the project leads to the copy of that folder.

    Raises:
        InputError: if a file may not be read.
    """
    for path in project.files:
        source, copied = project.root / path, target / path
        copied.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink() and source.is_dir():
            copied.symlink_to(moved(str(source.resolve()), project, target))
        elif source.is_file():
            _copy_file(source, copied)


def _copy_file(source: Path, copied: Path) -> None:
    """Copy a file, unless it was removed since the project's files were listed."""
    try:
        shutil.copy2(source, copied)
    except OSError as error:
        if not source.exists():
            return
        if os.access(source, os.R_OK):
            raise
        raise InputError(
            f"{source}: cannot be copied: {error.strerror}\n"
            "    make it readable, name it in .gitignore, or run in place with --no-snapshot"
        ) from None


def moved(path: str, project: Project, target: Path) -> str:
    """Return where a path of the project is in its copy; other paths stay as they are."""
    inside = Path(path)
    return str(target / inside.relative_to(project.root)) if inside.is_relative_to(project.root) else path


def moved_experiment(experiment: Experiment, project: Project, target: Path) -> Experiment:
    """Return the experiment with the files and folders that it imports from taken from the copy.

    Raises:
        InputError: if one of them is not copied.
    """
    env = experiment.env
    for path in env.paths:
        _require_copied(path, project)
    paths = [moved(path, project, target) for path in env.paths]
    env = env.model_copy(update={"id": _moved_name(env.id, project, target), "paths": paths})
    model = experiment.model
    if model.class_ is not None:
        model = model.model_copy(update={"class_": _moved_name(model.class_, project, target)})
    return experiment.model_copy(update={"env": env, "model": model})


def search_path(paths: Iterable[str], project: Project, target: Path) -> list[str]:
    """Return the folders of the copy to import from before installed packages: those named, then usual ones."""
    wanted = [path for path in paths if Path(path).is_relative_to(target)]
    wanted += [str(target), *([str(target / "src")] if (project.root / "src").is_dir() else [])]
    return list(dict.fromkeys(wanted))


def _moved_name(name: str, project: Project, target: Path) -> str:
    """Move the file of `path/to/file.py:Class`."""
    file, colon, attribute = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        return name
    _require_copied(file, project)
    return f"{moved(file, project, target)}:{attribute}"


def _require_copied(path: str, project: Project) -> None:
    """Refuse a file or folder of the project that the job would not find in the copy."""
    inside = Path(path)
    if not inside.is_relative_to(project.root):
        return
    relative = inside.relative_to(project.root)
    if not any(file.is_relative_to(relative) for file in project.files):
        raise InputError(
            f"{path}: is not copied with the project {project.root}, so the job would not find it\n"
            "    does .gitignore name it, or is it in the folder of all runs? --no-snapshot runs in place"
        )


def _git(folder: Path, *arguments: str, **variables: str) -> str | None:
    """Return what git says, or None if it is not installed or this is no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _listed(root: Path, **variables: str) -> list[Path]:
    """Return the files that git tracks, and those it would; those of a repository inside it too."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", **variables)
    if listed is None:
        raise InputError(
            f"{root}: git did not list its files within {GIT_SECONDS:g} s, so they cannot be copied\n"
            "    put the experiment into a smaller folder, or run in place with --no-snapshot"
        )
    files: list[Path] = []
    for name in dict.fromkeys(listed.split("\0")):
        path = Path(name)
        if not name or _is_foreign(root, path):
            continue
        if (root / path).is_dir() and not (root / path).is_symlink():
            # A submodule that was not fetched is an empty folder, for which git would list the outer repository.
            files += [path / inner for inner in _listed(root / path)] if (root / path / ".git").exists() else []
        elif (root / path).exists():
            files.append(path)
    return files


def _listed_without_repository(root: Path) -> list[Path]:
    """Let git apply `.gitignore` where there is no repository, and do without it where there is no git."""
    with tempfile.TemporaryDirectory() as scratch:
        variables = {"GIT_DIR": f"{scratch}/git", "GIT_WORK_TREE": str(root)}
        if _git(root, "init", "--quiet", **variables) is not None:
            return _listed(root, **variables)
    found = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
    return [path for path in found if not _is_foreign(root, path)]


def _is_foreign(root: Path, path: Path) -> bool:
    """Whether a file belongs to an environment or a cache rather than to the project."""
    if any(part in _NEVER for part in path.parts):
        return True
    return any((root / parent / "pyvenv.cfg").is_file() for parent in path.parents if parent != Path())


def _sizes(root: Path, files: Iterable[Path]) -> list[tuple[Path, int]]:
    return [(path, (root / path).stat().st_size) for path in files if (root / path).is_file()]


def _require_small(project: Project) -> None:
    if project.size <= LARGEST_BYTES:
        return
    largest = sorted(_sizes(project.root, project.files), key=lambda entry: -entry[1])[:5]
    lines = "".join(f"\n  {size / 1024**2:8.1f} MiB  {path}" for path, size in largest)
    raise InputError(
        f"{project.root}: the project's files are {project.size / 1024**2:.0f} MiB, more than the "
        f"{LARGEST_BYTES / 1024**2:.0f} MiB that are copied for a run; the largest:{lines}\n"
        "    name what is not code in .gitignore, or run in place with --no-snapshot"
    )
