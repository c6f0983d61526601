"""A disk that is nearly full: an error that names the path, and a run that resumes when there is room."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import last_json, muster

SMALL = ["train", "CartPole-v1", "--name", "run", "--quiet", "--json", "--set", "checkpoint.every=1"]
KIB = 1024


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of two megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="d") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=1777", "none", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("no tmpfs can be mounted here")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def _fill(disk: Path, left: int) -> Path:
    """Fill a disk but for so many bytes."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
    filler = disk / "filler"
    filler.write_bytes(bytes(free - left))
    return filler


@pytest.mark.parametrize("left", [0, 4 * KIB, 40 * KIB, 120 * KIB])
def test_a_run_in_one_process(left: int, small_disk: Path, tmp_path: Path) -> None:
    filler = _fill(small_disk, left)
    command = [*SMALL, "--workers", "0", "--runs-dir", str(small_disk / "runs"), "--stop-iterations", "40"]
    done = muster(*command, "--resume", cwd=tmp_path)
    assert done.returncode in (1, 2), done.stderr
    assert "No space left on device" in done.stderr
    assert str(small_disk) in done.stderr
    assert "Traceback" not in done.stderr
    filler.unlink()
    done = muster(*command, "--resume", "--stop-iterations", "3", cwd=tmp_path)
    assert (done.returncode, last_json(done)["state"]) == (0, "finished"), done.stderr


def test_workers_whose_journals_have_no_room(small_disk: Path, tmp_path: Path) -> None:
    """Ray's own files and the workers' journals are in the temporary folder."""
    _fill(small_disk, 500 * KIB)
    command = [*SMALL, "--workers", "2", "--set", "resources.envs_per_group=64", "--stop-iterations", "3"]
    done = muster(*command, cwd=tmp_path, TMPDIR=str(small_disk))
    assert done.returncode in (0, 4), done.stderr
    assert "Traceback" not in done.stderr
