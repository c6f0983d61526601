"""Whatever is damaged in a run folder, the run is listed, shown with its problems, and resumed if it can be."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import muster
from tests.commands import Ended, muster_here, timeless_metrics
from tests.runs.tiny import train_tiny

pytestmark = pytest.mark.timeout(60)

SMALL_FILES = [
    "experiment.toml",
    "sources.json",
    "versions.json",
    "status.json",
    "metrics.csv",
    "evaluations.jsonl",
    "events.jsonl",
    "lock",
    "tensorboard",
    "checkpoints/latest",
    "checkpoints/best",
]


def put(content: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        remove(path)
        path.write_bytes(content)

    return damage


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def put_folder(path: Path) -> None:
    remove(path)
    (path / "inside").mkdir(parents=True)


def put_fifo(path: Path) -> None:
    remove(path)
    os.mkfifo(path)


def put_loop(path: Path) -> None:
    remove(path)
    path.symlink_to(path.name)


def put_dangling(path: Path) -> None:
    remove(path)
    path.symlink_to("nowhere")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "missing": remove,
    "empty": put(b""),
    "binary": put(bytes(range(256)) * 20),
    "nul": put(b"\0" * 4096),
    "null": put(b"null\n"),
    "list": put(b"[1, null, {}]\n[]\n3\n"),
    "nested": put(b"[" * 100_000 + b"\n"),
    "text": put(b"iteration\n\xc2\xb2,1\n1,2,3,4\n"),
    "folder": put_folder,
    "fifo": put_fifo,
    "loop": put_loop,
    "dangling": put_dangling,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints 1 and 2 and two evaluations."""
    overrides = {"checkpoint.every": 1, "evaluation.every": 1, "evaluation.episodes": 1}
    return train_tiny(tmp_path_factory.mktemp("runs"), "run", **overrides)


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "run", symlinks=True)
    shutil.copytree(original, tmp_path / "other", symlinks=True)
    return tmp_path / "run"


def resume(run: Path, *flags: str) -> Ended:
    command = ["train", "CartPole-v1", "--name", run.name, "--resume", "--runs-dir", str(run.parent)]
    return muster_here(*command, "--workers", "0", "--stop-iterations", "3", *flags)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_all_small_files_at_once_stops_nothing(run: Path, damage: str) -> None:
    for name in SMALL_FILES:
        DAMAGES[damage](run / name)
    expect_all_to_work(run)


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", SMALL_FILES)
def test_a_damaged_file_stops_nothing(run: Path, name: str, damage: str) -> None:
    DAMAGES[damage](run / name)
    expect_all_to_work(run)


def expect_all_to_work(run: Path) -> None:
    listed = muster_here("runs", "--runs-dir", run.parent)
    assert listed.code == 0
    assert {"run", "other"} <= {line.split()[0] for line in listed.out.splitlines()[1:]}
    assert len(json.loads(muster_here("runs", "--runs-dir", run.parent, "--json").out)) == 2
    assert muster_here("show", run).code == 0
    assert json.loads(muster_here("show", run, "--json").out)["checkpoints"] == ["00000001", "00000002"]
    resumed = resume(run)
    assert resumed.code == 0, resumed.err
    assert "resumed at iteration 2" in resumed.out
    evaluated = muster_here("evaluate", run, "--episodes", "1")
    assert evaluated.code == 0, evaluated.err


STATUS = {
    "state": "finished",
    "iteration": 10**400,
    "steps": "many",
    "return_mean": [1],
    "updated": None,
    "reason": "\x1b[2J \ud800",
    "host": 5,
    "pid": True,
}


@pytest.mark.parametrize("key", STATUS)
def test_wrong_values_in_the_status_are_named(run: Path, key: str) -> None:
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**status, key: STATUS[key]}))
    shown, listed = muster_here("show", run), muster_here("runs", "--runs-dir", run.parent)
    assert (shown.code, listed.code) == (0, 0)
    if key not in ("state", "reason"):
        assert f"status.json: {key}" in shown.out
    assert "\x1b" not in shown.out


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1e999"])
def test_numbers_that_are_none_are_not_shown(run: Path, number: str) -> None:
    text = (run / "status.json").read_text()
    mean = json.loads(text)["return_mean"]
    (run / "status.json").write_text(text.replace(str(mean), number))
    assert muster_here("show", run).code == 0
    listed = json.loads(muster_here("runs", "--runs-dir", run.parent, "--json").out, parse_constant=pytest.fail)
    assert listed


def test_what_is_wrong_is_listed_and_shown(run: Path) -> None:
    put(b"null")(run / "status.json")
    put_fifo(run / "metrics.csv")
    put(b"[env\n")(run / "experiment.toml")
    listed = muster_here("runs", "--runs-dir", run.parent)
    assert "status.json: expected a table" in listed.out
    shown = muster_here("show", run)
    for expected in ("status.json: expected", "metrics.csv: is a fifo", "experiment.toml: not valid TOML"):
        assert expected in shown.out
    assert json.loads(muster_here("show", run, "--json").out)["state"] == "unknown"


def test_a_damaged_checkpoint_gives_way_to_the_one_before(run: Path, original: Path) -> None:
    (run / "checkpoints/00000002/learner.npz").write_bytes(b"x")
    resumed = resume(run, "--stop-iterations", "2")
    assert resumed.code == 0, resumed.err
    assert "00000002: learner.npz: damaged" in resumed.out
    assert "resumed at iteration 1" in resumed.out
    assert timeless_metrics(run) == timeless_metrics(original)
    assert muster_here("evaluate", run, "--checkpoint", "latest", "--episodes", "1").code == 0


def test_without_a_whole_checkpoint_the_damage_is_named(run: Path) -> None:
    for folder in (run / "checkpoints").glob("0*"):
        put_fifo(folder / "manifest.json")
    refused = resume(run)
    assert refused.code == 2
    assert "manifest.json: damaged: is a fifo" in refused.err


@pytest.mark.parametrize("command", [["evaluate", "--episodes", "1"], ["play"]], ids=["evaluate", "play"])
def test_a_whole_checkpoint_acts_without_the_rest_of_the_run(run: Path, command: list[str]) -> None:
    for path in run.iterdir():
        if path.name != "checkpoints":
            put(b"null")(path)
    put_loop(run / "checkpoints/best")
    ended = muster_here(*command, run)
    assert ended.code == 0, ended.err
    assert muster.load_policy(run)


def test_a_heartbeat_of_the_future_is_not_waited_for(run: Path) -> None:
    (run / "lock").write_text('{"host": "elsewhere", "pid": 1}\n')
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**status, "state": "running", "updated": 1e15}))
    assert resume(run).code == 0


UNPRIVILEGED = 12345


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_files_without_permission_stop_nothing(run: Path) -> None:
    expect_all_to_work(run)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(shutil.copytree(run, Path(name) / "run", symlinks=True))
        for path in (copy.parent, copy, *copy.rglob("*")):
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)
        for small in SMALL_FILES[:8]:
            (copy / small).chmod(0)
        if (child := os.fork()) == 0:
            os.chdir(name)
            os.setuid(UNPRIVILEGED)
            commands = (["runs", "--runs-dir", name], ["show", name + "/run"])
            codes = [muster_here(*command).code for command in commands]
            os._exit(sum(codes) + resume(copy).code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_damaged_records_are_kept_aside(run: Path) -> None:
    put(b"no header\n")(run / "metrics.csv")
    put_folder(run / "events.jsonl")
    resumed = resume(run)
    assert "metrics.csv: " in resumed.out
    assert (run / "metrics.csv.damaged").read_bytes() == b"no header\n"
    assert (run / "events.jsonl.damaged/inside").is_dir()
    assert (run / "metrics.csv").read_text().count("\n") == 2


def edit(run: Path, old: str, new: str) -> None:
    text = (run / "experiment.toml").read_text()
    assert old in text
    (run / "experiment.toml").write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("seed = 0", "seed = 1", "seed"),
        ("env_groups = 8", "env_groups = 4", "resources.env_groups"),
        ("lr = 0.0003", "lr = 0.5", "algorithm.lr"),
        ("CartPole-v1", "Acrobot-v1", "env.id"),
        ('activation = "tanh"', 'activation = "relu"', "model.activation"),
        ("observations = true", "observations = false", "normalize.observations"),
    ],
)
def test_an_edit_that_makes_another_run_is_refused_by_its_key(run: Path, old: str, new: str, key: str) -> None:
    edit(run, old, new)
    command = ["train", str(run / "experiment.toml"), "--resume", "--name", "run", "--runs-dir", str(run.parent)]
    for refused in (resume(run), muster_here(*command)):
        assert refused.code == 2
        assert re.search(rf"experiment.toml:\d+: {key}: is", refused.err)


def test_a_file_that_was_cut_off_between_its_lines_takes_the_rest_from_the_checkpoint(tmp_path: Path) -> None:
    overrides = {"algorithm.lr": 0.01, "model.hidden": [8], "stop.iterations": 2}
    run = train_tiny(tmp_path, "run", **overrides)
    whole = (run / "experiment.toml").read_text()
    for section in ("[algorithm]", "[model]", "[stop]", "[env]"):
        (run / "experiment.toml").write_text(whole.partition(f"{section}\n")[0] + f"{section}\n")
        resumed = resume(run)
        assert resumed.code == 0, resumed.err
    assert "lr = 0.01" in (run / "experiment.toml").read_text()


def test_an_edit_that_leaves_it_the_same_run_is_taken(run: Path) -> None:
    edit(run, "iterations = 2", "iterations = 4")
    edit(run, "episodes = 1", "episodes = 2")
    command = ["train", "CartPole-v1", "--name", "run", "--resume", "--runs-dir", str(run.parent)]
    resumed = muster_here(*command)
    assert resumed.code == 0, resumed.err
    assert "over 2 episodes" in resumed.out
    assert timeless_metrics(run).count("\n") == 4


def test_records_that_block_are_not_waited_for(run: Path) -> None:
    shutil.rmtree(run / "journals", ignore_errors=True)
    (run / "journals").mkdir()
    os.mkfifo(run / "journals/0000.calls")
    (run / "journals/0001.calls").write_bytes(b"12345")
    assert resume(run).code == 0
