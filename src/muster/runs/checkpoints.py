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
from muster.runs.files import explained, sync_folder

MANIFEST = "manifest.json"
LATEST, BEST = "latest", "best"
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
            self.path.mkdir(exist_ok=True)
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
            beside.mkdir()
            write(beside)
            _write_manifest(beside)
            sync_folder(beside)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise

    def adopt(self, folder: Path, iteration: int) -> None:
        """Make a copy of another run's checkpoint the newest one; those of the same iteration or later go."""
        target = self.path / f"{iteration:08d}"
        beside = self.path / f".{target.name}.{os.getpid()}"
        with explained(self.path):
            self.path.mkdir(exist_ok=True)
            self._remove_leftovers()
            for path in self._saved():
                if path.name >= target.name:
                    shutil.rmtree(path.rename(path.with_name(f".{path.name}.{os.getpid()}")))
            shutil.copytree(folder, beside)
            sync_folder(beside)
            beside.rename(target)
            sync_folder(self.path)
            self._point(LATEST, target)
            if not self.has_best:
                self._point(BEST, target)

    @property
    def has_best(self) -> bool:
        """Whether it is known which checkpoint is the best."""
        return (self.path / BEST).exists()

    def latest(self) -> Path | None:
        """Return the newest checkpoint, or None if there is none."""
        saved = self._saved()
        return saved[-1] if saved else None

    def find(self, which: str) -> Path:
        """Return a checkpoint by `latest`, `best` or its iteration.

        Raises:
            InputError: naming those there are.
        """
        names = [path.name for path in self._saved()]
        wanted = f"{int(which):08d}" if which.isdecimal() else which
        if wanted in names or (wanted in (LATEST, BEST) and (self.path / wanted).exists()):
            return (self.path / wanted).resolve()
        raise InputError(f"{self.path}: no checkpoint {which!r}\n    there are: {', '.join(names) or 'none yet'}")

    def _saved(self) -> list[Path]:
        return sorted(path for path in self.path.glob("[0-9]*") if path.name.isdigit())

    def _point(self, name: str, target: Path) -> None:
        beside = self.path / f".{name}.{os.getpid()}"
        beside.unlink(missing_ok=True)
        beside.symlink_to(target.name)
        beside.replace(self.path / name)

    def _thin_out(self, keep: int) -> None:
        pointed = {(self.path / name).resolve() for name in (LATEST, BEST)}
        for path in self._saved()[:-keep]:
            if path.resolve() not in pointed:
                hidden = path.rename(path.with_name(f".{path.name}.{os.getpid()}"))
                shutil.rmtree(hidden)

    def _remove_leftovers(self) -> None:
        for path in self.path.glob(".*"):
            if _BESIDE.fullmatch(path.name) is None:
                continue
            if path.is_symlink():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)


def verify(folder: Path) -> None:
    """Compare a checkpoint's files with its manifest.

    Raises:
        CheckpointError: naming the file that is damaged or missing, and the way on.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, digest in manifest["sha256"].items():
            if _digest(folder / name) != digest:
                raise CheckpointError(f"{folder / name}: damaged: not the bytes that were saved{_WAY_ON}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        name = getattr(error, "filename", None) or folder / MANIFEST
        reason = getattr(error, "strerror", None) or "not readable"
        raise CheckpointError(f"{name}: damaged: {reason}{_WAY_ON}") from None


_WAY_ON = "\n    remove this checkpoint's folder to go on from the one before it"


def _write_manifest(folder: Path) -> None:
    digests = {}
    for path in sorted(folder.iterdir()):
        digests[path.name] = _digest(path)
        _sync(path)
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({"sha256": digests}, indent=2) + "\n", encoding="utf-8")
    _sync(manifest)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
