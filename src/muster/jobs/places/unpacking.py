"""Writing files here that another machine has packed: inside one folder, and nothing that could lead out of it."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

from muster.errors import JobError
from muster.runs.checkpoints import POINTERS
from muster.runs.files import explained
from muster.runs.folder import ELSEWHERE


def unpack(archive: Path, target: Path, source: str) -> None:
    """Write what is in an archive below a folder; what names a checkpoint is written if the checkpoint is here.

    Raises:
        JobError: if anything in it does not belong there, naming the source; what came before it is written.
    """
    try:
        with tarfile.open(archive) as tar, explained(target):
            for member in tar:
                _write(tar, _checked(member, target, source), target)
    except tarfile.TarError as error:
        raise JobError(f"{source}: sent an archive that cannot be read: {error}\n    fetch again") from None


def _checked(member: tarfile.TarInfo, target: Path, source: str) -> tarfile.TarInfo:
    """Return a member that is harmless: a file, a folder, or a link that stays inside."""
    path = target / member.name
    try:
        member = tarfile.data_filter(member, str(target))
        outer = [parent for parent in path.parents if parent.is_relative_to(target) and parent.is_symlink()]
        is_own = path.relative_to(target) == Path(ELSEWHERE) or ".." in Path(member.name).parts
        if outer or is_own or not (member.isreg() or member.isdir() or member.issym()):
            raise tarfile.FilterError("is not for it to write")
    except (tarfile.FilterError, ValueError) as error:
        raise JobError(
            f"{source}: wants to write {member.name!r}, which a run's folder does not hold: {error}\n"
            "    it was not written; whoever runs that Ray may mean harm"
        ) from None
    return member


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write beside, then rename, so that a fetch that is interrupted leaves no half of a file."""
    path = target / member.name
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    if member.issym():
        if path.name in POINTERS and not (path.parent / member.linkname).exists():
            return
        beside.symlink_to(member.linkname)
    else:
        content = tar.extractfile(member)
        assert content is not None
        with content, beside.open("wb") as file:
            shutil.copyfileobj(content, file)
        beside.chmod((member.mode or 0o644) & 0o755)
        os.utime(beside, (member.mtime, member.mtime))
    beside.replace(path)
