"""`muster track` into real trackers: every value of the run folder once, whatever ended it before."""

from __future__ import annotations

import csv
import json
import math
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from muster.errors import RunLockedError, TrackerError
from muster.runs.folder import RunFolder
from muster.tracking.followed_run import FollowedRun
from muster.tracking.points import EVALUATION, ITERATION, Point, read_tracked_run
from muster.tracking.tensorboard_tracker import TensorboardTracker
from muster.tracking.tracker import Lacking
from tests.commands import MUSTER, ROOT, environment, muster, muster_here, start_muster, wait_until
from tests.runs.test_damage import DAMAGES, SMALL_FILES
from tests.runs.tiny import train_tiny

ROWS = 450
KINDS = [
    pytest.param(kind, marks=pytest.mark.skipif(find_spec(kind) is None, reason=f"no {kind} here"))
    for kind in ("mlflow", "tensorboard", "trackio", "wandb")
]
BETWEEN = """
import os, signal, sys
from muster.tracking.tracker import Lacking
noted = []
def note(self, points, note=Lacking.note):
    noted.append(1)
    if len(noted) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    note(self, points)
Lacking.note = note
from muster.cli.main import run
run()
"""
"""Ends the process after the second request has been answered, and before that is noted."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of many iterations and two evaluations."""
    run = train_tiny(tmp_path_factory.mktemp("runs"), "one", **{"evaluation.every": 1, "evaluation.episodes": 1})
    with (run / "metrics.csv").open() as file:
        header, *rows = csv.reader(file)
    lines = [[str(at), str(64 * at), *rows[at % 2][2:]] for at in range(1, ROWS + 1)]
    with (run / "metrics.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])
    return run


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the locks of senders out of the user's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "runs/one", symlinks=True)
    return tmp_path / "runs/one"


def variables(folder: Path) -> dict[str, str]:
    here = {"TRACKIO_DIR": str(folder / "trackio"), "WANDB_MODE": "offline", "WANDB_DIR": str(folder)}
    return {**here, "WANDB_ERROR_REPORTING": "false", "HF_HUB_OFFLINE": "1"}


def command(kind: str, folder: Path) -> list[str]:
    at = {"mlflow": f"sqlite:///{folder}/mlflow.db", "tensorboard": str(folder / "events")}.get(kind)
    return ["track", "one", "--to", kind, *(["--at", at] if at else [])]


def stored(kind: str, folder: Path) -> dict[tuple[str, int], float]:
    """Return what a tracker has, after a look that nothing is there twice."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.tracking.stores", kind, str(folder)],
        env=environment(**variables(folder)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert max(Counter((name, step) for name, step, _ in found).values()) == 1
    return {(name, step): value for name, step, value in found}


def recorded(run: Path) -> dict[tuple[str, int], float]:
    """Return what a run folder has."""
    found: dict[tuple[str, int], float] = {}
    with (run / "metrics.csv").open() as file:
        for row in csv.DictReader(file):
            found |= {
                (name, int(row["steps"])): float(cell) for name, cell in row.items() if cell and name != "steps"
            }
    for text in (run / "evaluations.jsonl").read_text().splitlines():
        line = json.loads(text)
        found |= {(f"evaluation/{name}", line["steps"]): value for name, value in line.items() if name != "steps"}
    return found


def require_same(found: dict[tuple[str, int], float], expected: dict[tuple[str, int], float]) -> None:
    assert found.keys() == expected.keys()
    assert all(math.isclose(found[key], expected[key], rel_tol=1e-5, abs_tol=1e-7) for key in expected)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_between_sending_and_noting_no_value_is_twice_or_missing(
    kind: str, run: Path, tmp_path: Path
) -> None:
    env = environment(**variables(tmp_path))
    killed = subprocess.run(
        [sys.executable, "-c", BETWEEN, *command(kind, tmp_path)],
        cwd=tmp_path,
        env=env,
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = muster(*command(kind, tmp_path), "--json", cwd=tmp_path, **variables(tmp_path))
    assert done.returncode == 0, done.stderr
    [sent] = last_json_list(done.stdout)
    # W&B's own process takes rows in its own time, and loses some when ours is killed; the others store at once.
    assert sent["sent"] == ROWS + 2 - 400 or kind == "wandb"
    require_same(stored(kind, tmp_path), recorded(run))
    if kind == "tensorboard":
        again = muster(*command(kind, tmp_path), "--json", cwd=tmp_path, **variables(tmp_path))
        assert last_json_list(again.stdout)[0]["sent"] == 0


def last_json_list(text: str) -> list[dict[str, object]]:
    value: list[dict[str, object]] = json.loads(text.splitlines()[-1])
    return value


def test_a_run_is_followed_until_it_has_ended(tmp_path: Path) -> None:
    arguments = (
        "--set",
        "resources.workers=0",
        "--set",
        "stop.iterations=60",
        "--set",
        "algorithm.train_batch_size=64",
    )
    process = start_muster("train", "CartPole-v1", "--name", "one", *arguments, "--quiet", cwd=tmp_path)
    try:
        metrics = tmp_path / "runs/one/metrics.csv"
        wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") > 2, "an iteration")
        done = muster(*command("tensorboard", tmp_path), "--watch", cwd=tmp_path)
    finally:
        process.communicate()
    assert done.returncode == 0, done.stderr
    require_same(stored("tensorboard", tmp_path), recorded(tmp_path / "runs/one"))


class Unreliable(TensorboardTracker):
    """Fails after it has stored what it was sent the second time."""

    failures = 0

    def send(self, points: Sequence[Point]) -> None:
        super().send(points)
        Unreliable.failures += 1
        if Unreliable.failures == 2:
            raise TrackerError("the connection was lost")


def test_after_a_failure_the_tracker_is_asked_what_it_has(run: Path, tmp_path: Path) -> None:
    followed = FollowedRun(RunFolder(run), "one", lambda: Unreliable(tmp_path / "events"))
    with pytest.raises(TrackerError):
        followed.send_new()
    followed.send_new()
    followed.end()
    require_same(stored("tensorboard", tmp_path), recorded(run))


def test_a_run_has_one_sender_at_a_time(run: Path, tmp_path: Path) -> None:
    first, second, elsewhere = (
        FollowedRun(RunFolder(run), "one", lambda: TensorboardTracker(tmp_path / "events"), place)
        for place in ("here", "here", "there")
    )
    first.send_new()
    with pytest.raises(RunLockedError, match="another `muster track` is sending this run"):
        second.send_new()
    elsewhere.send_new()
    first.end()
    second.send_new()
    second.end()


def test_a_run_is_the_same_by_whatever_path(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "linked").symlink_to(run)
    sent = []
    for folder, path in ((tmp_path, "runs/one"), (run, "."), (run / "checkpoints", ".."), (tmp_path, "linked")):
        monkeypatch.chdir(folder)
        done = muster_here("track", path, "--to", "tensorboard", "--at", tmp_path / "events", "--json")
        sent.append(last_json_list(done.out)[0]["sent"])
    assert sent == [ROWS + 2, 0, 0, 0]


def test_metrics_of_one_s_own_are_sent_with_evaluations(run: Path) -> None:
    own = {"energy": 12.5, "steps": 3.0, "a(b)": None}
    line = {"iteration": 1, "steps": 64, "return_mean": 1.0, "metrics": own}
    (run / "evaluations.jsonl").write_text(json.dumps(line) + "\n")
    *_, sent = read_tracked_run(RunFolder(run), "one").points()
    assert sent.step == 64
    assert sent.values == {
        "evaluation/iteration": 1.0,
        "evaluation/return_mean": 1.0,
        "evaluation/metrics/energy": 12.5,
        "evaluation/metrics/steps": 3.0,
    }


@pytest.mark.skipif(find_spec("wandb") is None, reason="no wandb here")
def test_offline_files_of_another_project_do_not_count(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "metrics.csv").write_text("".join((run / "metrics.csv").read_text().splitlines(keepends=True)[:3]))
    for name, value in variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    for project, expected in (("first", 4), ("second", 4), ("second", 0)):
        done = muster_here("track", run, "--to", "wandb", "--project", project, "--json")
        assert last_json_list(done.out)[0]["sent"] == expected, project


@pytest.mark.skipif(find_spec("mlflow") is None, reason="no mlflow here")
def test_keys_that_mlflow_refuses_are_renamed(run: Path, tmp_path: Path) -> None:
    experiment = run / "experiment.toml"
    changed = experiment.read_text().replace("[env.config]\n", '[env.config]\n"50%" = 1\n"a(b)" = 2\n')
    experiment.write_text(changed)
    tracked = read_tracked_run(RunFolder(run), "one")
    assert {"env.config.50_", "env.config.a_b_"} < tracked.settings.keys()


@pytest.mark.skipif(find_spec("mlflow") is None, reason="no mlflow here")
def test_a_database_that_is_none_is_explained(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(bytes(range(256)) * 20)
    refused = muster_here("track", run, "--to", "mlflow", "--at", f"sqlite:///{tmp_path}/mlflow.db")
    assert refused.code == 1
    assert "file is not a database" in refused.err
    assert "look at --at, or MLFLOW_TRACKING_URI" in refused.err


@pytest.mark.skipif(find_spec("wandb") is None, reason="no wandb here")
def test_what_is_no_server_of_wandb_is_refused(run: Path) -> None:
    refused = muster_here("track", run, "--to", "wandb", "--at", "foo")
    assert refused.code == 2
    assert "--at foo: expected the address of a W&B server" in refused.err


def test_a_full_disk_is_said_without_a_traceback(run: Path, tmp_path: Path) -> None:
    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        [MUSTER, *command("tensorboard", tmp_path)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit_files,
    )
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr


def test_a_run_that_has_not_begun_is_left_alone(run: Path, tmp_path: Path) -> None:
    (run / "metrics.csv").write_text("")
    (run / "evaluations.jsonl").write_text("")
    done = muster_here("track", run, "--to", "tensorboard", "--at", tmp_path / "events")
    assert (done.code, "no iteration is recorded yet" in done.out) == (0, True), done.err
    assert not (tmp_path / "events").exists()


def point(number: int, step: int, counter: str = ITERATION) -> Point:
    return Point(counter, number, step, 0.0, {counter: float(number), "return/mean": 1.0})


def test_what_is_cut_on_resume_and_trained_again_is_not_sent_again() -> None:
    lacking = Lacking({ITERATION: {100: 1.0, 200: 2.0, 300: 3.0}, "return/mean": {100: 0.5, 200: 0.5}})
    assert [one.step for one in lacking.of([point(1, 100), point(2, 200)])] == []
    assert lacking.of([point(3, 300)])[0].values == {"return/mean": 1.0}, "what was cut off within a point"
    assert [one.number for one in lacking.of([point(2, 210), point(3, 310), point(4, 410)])] == [4]
    assert lacking.repeated == {(ITERATION, 2), (ITERATION, 3)}
    assert [one.counter for one in lacking.of([point(2, 200, EVALUATION)])] == [EVALUATION]
    lacking.note([point(4, 410)])
    assert lacking.of([point(4, 410), point(4, 415)]) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_sends_what_can_be_read(run: Path, tmp_path: Path, damage: str) -> None:
    for name in SMALL_FILES:
        if name != "metrics.csv":
            DAMAGES[damage](run / name)
    done = muster_here("track", run, "--to", "tensorboard", "--at", tmp_path / "events", "--json")
    assert done.code == 0, done.err
    assert last_json_list(done.out)[0]["sent"] == ROWS


def test_what_cannot_be_tracked_is_said(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, expected in (
        (["--to", "nothing"], "expected one of mlflow, tensorboard, trackio, wandb"),
        (["--to", "tensorboard"], "expected a folder for its files: --at FOLDER"),
    ):
        refused = muster_here("track", run, *arguments)
        assert (refused.code, expected in refused.err) == (2, True), refused.err
    (tmp_path / "file").write_text("")
    refused = muster_here("track", run, "--to", "tensorboard", "--at", tmp_path / "file")
    assert (refused.code, "choose another --at" in refused.err) == (1, True)
    monkeypatch.delitem(sys.modules, "muster.tracking.wandb_tracker", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", None)
    refused = muster_here("track", run, "--to", "wandb")
    assert (refused.code, "pip install '.[track]'" in refused.err) == (2, True)


@pytest.mark.skipif(find_spec("mlflow") is None, reason="no mlflow here")
def test_a_server_that_does_not_answer_is_named(run: Path, tmp_path: Path) -> None:
    address = "http://127.0.0.1:9"
    done = muster(
        "track", run, "--to", "mlflow", "--at", address, cwd=tmp_path, MLFLOW_HTTP_REQUEST_MAX_RETRIES="0"
    )
    assert done.returncode == 1
    assert "look at --at, or MLFLOW_TRACKING_URI" in done.stderr
    assert "Traceback" not in done.stderr
