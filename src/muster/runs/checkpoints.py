"""Checkpoints on disk: written beside and renamed, `latest` and `best` never broken, damage noticed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.errors import CheckpointError, InputError
from muster.files.ownership import OWN_FILE, OWN_FOLDER
from muster.files.regular import is_there, open_regular, read_bytes
from muster.runs.files import explained, sync_folder
from muster.runs.folder import saved_checkpoints
from muster.runs.repair import Notice, remove, set_aside

EXPERIMENT = "experiment.toml"
MANIFEST = "manifest.json"
LATEST, BEST = POINTERS = "latest", "best"
"""What names a checkpoint, beside the checkpoints."""
_BESIDE = re.compile(r"\.(\d{8}|latest|best)\.\d+")


@dataclass(frozen=True)
class Checkpoints:
    """The `checkpoints` folder of a run."""

    path: Path

    def save(self, iteration: int, write: Callable[[Path], None], *, keep: int, is_best: bool) -> Path:
        """Save a checkpoint as a whole or not at all; then point `latest` (and `best`) to it and thin out.

        `write` puts the files into the folder that it is given. An iteration that is saved already stays as it is.
        """
        target = self.path / f"{iteration:08d}"
        beside = self.path / f".{target.name}.{os.getpid()}"
        with explained(self.path):
            self.path.mkdir(OWN_FOLDER, exist_ok=True)
            self._remove_leftovers()
            if not target.exists():
                self._write(beside, write)
                beside.rename(target)
                sync_folder(self.path)
            self._point(LATEST, target)
            if is_best:
                self._point(BEST, target)
            self._thin_out(keep)
        return target

    def _write(self, beside: Path, write: Callable[[Path], None]) -> None:
        try:
            beside.mkdir(OWN_FOLDER)
            write(beside)
            _write_manifest(beside)
            sync_folder(beside)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise

    def adopt(self, folder: Path, iteration: int, experiment: str) -> None:
        """Make a copy of another run's checkpoint the newest one, with the experiment that it is to go on with.

        Checkpoints of the same iteration or later go.
        """
        target = self.path / f"{iteration:08d}"
        beside = self.path / f".{target.name}.{os.getpid()}"
        with explained(self.path):
            self.path.mkdir(OWN_FOLDER, exist_ok=True)
            self._remove_leftovers()
            for path in self.saved():
                if path.name >= target.name:
                    remove(path.rename(path.with_name(f".{path.name}.{os.getpid()}")))
            shutil.copytree(folder, beside)
            (beside / EXPERIMENT).write_text(experiment, encoding="utf-8")
            (beside / MANIFEST).unlink(missing_ok=True)
            _write_manifest(beside)
            sync_folder(beside)
            beside.rename(target)
            sync_folder(self.path)
            self._point(LATEST, target)
            if self.best() is None:
                self._point(BEST, target)

    def saved(self) -> list[Path]:
        """Return all checkpoints, the oldest first."""
        return saved_checkpoints(self.path)

    def best(self) -> Path | None:
        """Return the best checkpoint, or None if it is not known."""
        return self._pointed(BEST)

    def latest(self) -> Path | None:
        """Return the newest checkpoint, or None if there is none."""
        saved = self.saved()
        return saved[-1] if saved else None

    def latest_whole(self, notice: Notice) -> Path | None:
        """Return the newest checkpoint that is not damaged, or None if there is none at all.

        Damaged ones that are newer are renamed, with a notice.

        Raises:
            CheckpointError: if all are damaged; naming how the newest is.
        """
        saved = self.saved()
        damaged: list[tuple[Path, CheckpointError]] = []
        for path in reversed(saved):
            try:
                verify(path)
            except CheckpointError as error:
                damaged.append((path, error))
                continue
            for other, reason in damaged:
                problem = str(reason).partition("\n")[0].removeprefix(f"{other}/")
                set_aside(other, problem, notice)
            return path
        if damaged:
            raise damaged[0][1]
        return None

    def find(self, which: str) -> Path:
        """Return a checkpoint by `latest`, `best` or its iteration.

        Raises:
            InputError: naming those there are.
        """
        found = {path.name: path for path in self.saved()}
        names = list(found)
        found |= {name: path for name, path in ((LATEST, self.latest()), (BEST, self.best())) if path}
        wanted = which.zfill(8) if which.isascii() and which.isdecimal() else which
        if wanted in found:
            return found[wanted].absolute()
        raise InputError(f"{self.path}: no checkpoint {which!r}\n    there are: {', '.join(names) or 'none yet'}")

    def _pointed(self, name: str) -> Path | None:
        """Return the checkpoint that a link names; None if it names none that is there."""
        try:
            target = (self.path / name).readlink().name
        except (OSError, ValueError):
            return None
        return next((path for path in self.saved() if path.name == target), None)

    def _point(self, name: str, target: Path) -> None:
        link = self.path / name
        if is_there(link) and not link.is_symlink():
            set_aside(link, "is no link", lambda _: None)
        beside = self.path / f".{name}.{os.getpid()}"
        beside.unlink(missing_ok=True)
        beside.symlink_to(target.name)
        beside.replace(link)

    def _thin_out(self, keep: int) -> None:
        pointed = {self._pointed(name) for name in (LATEST, BEST)}
        for path in self.saved()[:-keep]:
            if path not in pointed:
                remove(path.rename(path.with_name(f".{path.name}.{os.getpid()}")))

    def _remove_leftovers(self) -> None:
        for path in self.path.glob(".*"):
            if _BESIDE.fullmatch(path.name) is not None:
                remove(path)


def verify(folder: Path) -> None:
    """Compare a checkpoint's files with its manifest.

    Raises:
        CheckpointError: naming the file that is damaged or missing, and the way on.
    """
    try:
        manifest = json.loads(read_bytes(folder / MANIFEST))
        for name, digest in manifest["sha256"].items():
            if _digest(folder / name) != digest:
                raise CheckpointError(f"{folder / name}: damaged: not the bytes that were saved{_WAY_ON}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        name = getattr(error, "filename", None) or folder / MANIFEST
        reason = getattr(error, "strerror", None) or "not readable"
        raise CheckpointError(f"{name}: damaged: {reason}{_WAY_ON}") from None


_WAY_ON = "\n    use another checkpoint of the run, if it has one"


def _write_manifest(folder: Path) -> None:
    digests = {}
    for path in sorted(folder.iterdir()):
        path.chmod(OWN_FILE)
        digests[path.name] = _digest(path)
        _sync(path)
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({"sha256": digests}, indent=2) + "\n", encoding="utf-8")
    manifest.chmod(OWN_FILE)
    _sync(manifest)


def _digest(path: Path) -> str:
    with os.fdopen(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
