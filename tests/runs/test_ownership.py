"""A run that another user can change is not resumed, played or evaluated unless it is trusted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import muster
from muster.errors import OwnershipError
from tests.commands import muster_here
from tests.runs.tiny import train_tiny

ANOTHER_USER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("runs"), "run")


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "run", symlinks=True)
    return tmp_path / "run"


def give_away(path: Path) -> None:
    os.chown(path, ANOTHER_USER, ANOTHER_USER, follow_symlinks=False)


def make_writable(path: Path) -> None:
    path.chmod(0o666)


PLACES = ["", "experiment.toml", "checkpoints/00000002", "checkpoints/00000002/simulators.npz"]
RESUME = ["train", "CartPole-v1", "--name", "run", "--resume", "--workers", "0", "--stop-iterations", "3"]
USES = [
    RESUME,
    ["evaluate", "run", "--episodes", "1"],
    ["play", "run"],
    ["export", "run", "--format", "torchscript"],
    ["train", "CartPole-v1", "--name", "new", "--from", "run", "--workers", "0", "--stop-iterations", "1"],
]


@needs_root
@pytest.mark.parametrize("place", PLACES)
def test_resuming_a_run_of_another_user_is_refused(run: Path, place: str) -> None:
    give_away(run / place)
    refused = muster_here(*RESUME, "--runs-dir", run.parent)
    assert refused.code == 2
    assert f"{run / place}: belongs to user {ANOTHER_USER}" in refused.err.replace("run/:", "run:")
    assert "--trust" in refused.err
    trusted = muster_here(*RESUME, "--runs-dir", run.parent, "--trust")
    assert trusted.code == 0, trusted.err


@pytest.mark.parametrize("command", USES, ids=lambda command: command[0])
def test_a_run_that_others_may_write_is_refused(run: Path, command: list[str]) -> None:
    make_writable(run / "experiment.toml")
    make_writable(run / "checkpoints/00000002/policy.json")
    refused = muster_here(*command, "--runs-dir", run.parent)
    assert refused.code == 2
    assert "can be changed by others" in refused.err
    assert "chmod" in refused.err
    assert muster_here(*command, "--runs-dir", run.parent, "--trust").code == 0


@needs_root
def test_a_link_to_another_user_s_checkpoint_is_refused(run: Path) -> None:
    elsewhere = run.parent / "elsewhere"
    (run / "checkpoints/00000002").rename(elsewhere)
    (run / "checkpoints/00000002").symlink_to(elsewhere)
    give_away(elsewhere / "learner.npz")
    assert muster_here(*RESUME, "--runs-dir", run.parent).code == 2


@needs_root
def test_a_policy_that_imports_code_is_loaded_from_own_files_only(run: Path) -> None:
    policy = run / "checkpoints/00000002/policy.json"
    give_away(policy)
    muster.load_policy(run)
    policy.write_text(policy.read_text().replace('"mlp"', '"torch"'))
    with pytest.raises(OwnershipError, match="belongs to user"):
        muster.load_policy(run)
    with pytest.raises(muster.errors.CheckpointError):
        muster.load_policy(run, trust=True)


def test_a_new_run_is_writable_by_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = train_tiny(tmp_path, "open")
    finally:
        os.umask(before)
    paths = [run, run / "experiment.toml", run / "checkpoints", *(run / "checkpoints/00000002").iterdir()]
    assert [path for path in paths if path.stat().st_mode & 0o022] == []
    assert muster_here(*RESUME[:2], "--name", "open", *RESUME[4:], "--runs-dir", tmp_path).code == 0


@pytest.mark.parametrize("command", [["show", "run"], ["runs"]], ids=["show", "runs"])
def test_looking_at_a_run_imports_nothing_that_it_names(run: Path, command: list[str]) -> None:
    (run / "evil.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    experiment = f'seed = -1\n[env]\nid = "evil:Simulator"\npaths = ["{run}"]\n'
    (run / "experiment.toml").write_text(experiment)
    ended = muster_here(*command, "--runs-dir", run.parent)
    assert ended.code == 0
    assert not (run / "ran").exists()


def test_a_failure_of_another_user_is_not_replayed(tmp_path: Path) -> None:
    file = tmp_path / "0001.json"
    file.write_text("{}")
    make_writable(file)
    assert "can be changed by others" in muster_here("play", "--replay", file).err
    assert "holds no failure" in muster_here("play", "--replay", file, "--trust").err
