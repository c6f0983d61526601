"""Starting ranks: with a launcher that the user names, and inside containers."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from muster.clusters.launching.containers import RUNTIMES, parse_container
from muster.errors import InputError
from tests.clusters.containers import charliecloud_flags
from tests.clusters.recordings import put_on_path
from tests.commands import ROOT, muster, start_muster, wait_until

SLURM = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2"}
RECORD = 'for word in "$@"; do echo "$word"; done >>{folder}/{name}.words\n'
STEP = RECORD + 'shift 3\nMUSTER_RANK=0 MUSTER_NUM_RANKS=1 exec "$@"'
INSIDE = (
    RECORD + 'echo "$MUSTER_END_TIME" >{folder}/{name}.end\nwhile [ "$1" != "{first}" ]; do shift; done\nexec "$@"'
)


def words(folder: Path, name: str) -> list[str]:
    """Return the arguments that a command on PATH was called with."""
    return (folder / f"{name}.words").read_text().splitlines()


def path_with(folder: Path, name: str, script: str) -> str:
    """Put a command on PATH; return that PATH."""
    put_on_path(folder, name, script.format(folder=folder, name=name, first=sys.executable))
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def test_a_launcher_of_the_user_s_and_a_signal_to_the_whole_job(tmp_path: Path) -> None:
    path = path_with(tmp_path, "step", STEP)
    saves = "trap 'touch saved; exit 9' TERM; touch running; sleep 300 & wait"
    process = start_muster(
        *("launch", "--launcher", "step --mpi=none -N {nodes}", "--", "sh", "-c", saves),
        cwd=tmp_path,
        new_session=True,
        PATH=path,
        MUSTER_LAUNCH_TOKEN="a-secret",
        **SLURM,
    )
    wait_until((tmp_path / "running").exists, "the command")
    os.killpg(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 9, stderr
    assert (tmp_path / "saved").exists()
    started = words(tmp_path, "step")
    assert started[:4] == ["--mpi=none", "-N", "2", "env"]
    assert not any("a-secret" in word for word in started)


def test_a_launcher_whose_ranks_do_not_know_who_they_are_is_named(tmp_path: Path) -> None:
    done = muster("launch", "--launcher", "env", "--", "true", cwd=tmp_path, **SLURM)
    assert done.returncode == 4
    assert "the launcher does not tell the ranks that it has started who they are" in done.stderr


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ("apptainer", "apptainer exec --bind={here} --bind={runs} --pwd={here} image python3 -m muster launch"),
        ("apptainer --nv", "apptainer exec --nv --bind={here} --bind={runs} --pwd={here} image python3"),
        ("shifter", "shifter --workdir={here} --image=image python3 -m muster launch"),
        ("charliecloud", "ch-run --bind={here} --bind={runs} --cd={here} image -- python3 -m muster launch"),
        ("podman", "podman run --rm --interactive --network=host --pid=host --ipc=host --volume={here}:{here}"),
        ("podman-hpc", "podman-hpc run --rm --interactive --network=host --pid=host --ipc=host"),
    ],
)
def test_how_each_runtime_is_called(
    runtime: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, runs = tmp_path / "here", tmp_path / "runs"
    here.mkdir()
    runs.mkdir()
    monkeypatch.chdir(here)
    container = parse_container("image", runtime, None)
    assert container is not None
    line = " ".join(container.line(["launch", "--", "true"], [runs, here, tmp_path / "not-there"]))
    assert line.startswith(expected.format(here=here, runs=runs))
    assert line.endswith("python3 -m muster launch -- true")
    assert ("--env=MUSTER_*" in line) == runtime.startswith("podman")


def test_a_runtime_that_is_not_known_and_one_without_an_image() -> None:
    with pytest.raises(InputError, match="--runtime docker: no such runtime; known: apptainer, shifter"):
        parse_container("image", "docker", None)
    with pytest.raises(InputError, match="need an image"):
        parse_container(None, "podman", None)
    assert parse_container(None, None, None) is None


@pytest.mark.parametrize(
    ("launcher", "rank"),
    [
        (["--launcher", "step -a -N {nodes}"], {}),
        ([], {"MUSTER_RANK": "0", "MUSTER_NUM_RANKS": "1", "MUSTER_LAUNCH_ID": "x"}),
    ],
)
def test_each_rank_enters_its_container_once(launcher: list[str], rank: dict[str, str], tmp_path: Path) -> None:
    path_with(tmp_path, "step", STEP)
    path = path_with(tmp_path, "apptainer", INSIDE)
    (tmp_path / "image.sif").touch()
    flags = ["--container", "image.sif", "--python", sys.executable, "--interface", "nosuch0"]
    job = {"COBALT_JOBID": "1", "COBALT_ENDTIME": "2000000000", "PATH": path}
    done = muster("launch", *launcher, *flags, "--", "true", cwd=tmp_path, **job, **rank)
    assert done.returncode == 4
    assert "no such interface or subnet" in done.stderr
    assert words(tmp_path, "apptainer").count("exec") == 1
    assert str(tmp_path / "image.sif") in words(tmp_path, "apptainer")
    assert (tmp_path / "apptainer.end").read_text() == "2000000000.0\n", "read before the container is entered"


def test_a_runtime_that_is_not_here_is_named(tmp_path: Path) -> None:
    done = muster(
        "launch", "--container", "x", "--runtime", "shifter", "--", "true", cwd=tmp_path, PATH="/nowhere"
    )
    assert done.returncode == 4
    assert "shifter: cannot be started: No such file or directory" in done.stderr


@pytest.mark.long
@pytest.mark.skipif(shutil.which("ch-run") is None, reason="Charliecloud is not installed")
def test_a_launch_inside_charliecloud(tmp_path: Path) -> None:
    flags = charliecloud_flags(tmp_path)
    tell = "echo in $MUSTER_LAUNCH_CPUS; ls -d /boot; exit 6"
    done = muster("launch", *flags, "--", "sh", "-c", tell, cwd=tmp_path, USER="root")
    assert done.returncode == 6, done.stderr
    assert "in " in done.stdout
    assert "/boot" not in done.stdout, "the host's root is not seen"


def test_every_runtime_is_documented() -> None:
    documented = (ROOT / "docs" / "launch.md").read_text()
    assert [name for name in RUNTIMES if f"`{name}`" not in documented] == []
