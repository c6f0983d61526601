"""The commands as a user runs them: what they print, their JSON, their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.cli.screen import Pace
from tests.commands import ROOT, environment, last_json, muster, muster_here

QUICK = ["--workers", "0", "--stop-iterations", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run."""
    path = tmp_path_factory.mktemp("user")
    done = muster("train", "CartPole-v1", *QUICK, "--name", "first", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['muster', '--help']\n"
        "from muster.cli.main import run\n"
        "try:\n    run()\nexcept SystemExit as exit:\n    assert not exit.code\n"
        "heavy = {'ray', 'gymnasium', 'matplotlib', 'torch', 'tensorboard'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Train an agent in a simulator." in done.stdout


def test_train_prints_plain_lines_and_what_to_do_next(folder: Path) -> None:
    done = muster("train", "CartPole-v1", *QUICK, "--name", "plain", "--verbose", cwd=folder)
    assert done.returncode == 0
    for expected in (
        "PPO on CartPole-v1, seed 0, in this process",
        "iteration     2",
        "policy/kl",
        "muster evaluate",
    ):
        assert expected in done.stdout
    assert "\x1b" not in done.stdout


def test_train_json_is_the_last_line_and_the_only_one(folder: Path) -> None:
    done = muster("train", "CartPole-v1", *QUICK, "--name", "json", "--json", cwd=folder)
    assert len(done.stdout.splitlines()) == 1
    result = last_json(done)
    assert list(result) == [
        "run",
        "state",
        "reason",
        "steps",
        "iterations",
        "return_mean",
        "checkpoint",
        "exit_code",
    ]
    assert (result["state"], result["iterations"], result["exit_code"]) == ("finished", 2, 0)


def test_evaluate(folder: Path) -> None:
    done = muster("evaluate", "first", "--episodes", "3", "--json", cwd=folder)
    result = last_json(done)
    assert list(result) == ["run", "checkpoint", "episodes", "return_mean", "return_std", "length_mean"]
    assert result["episodes"] == 3
    again = muster("evaluate", folder / "runs/first/checkpoints/latest", "--episodes", "3", cwd=folder.parent)
    assert "over 3 episodes" in again.stdout, again.stderr


def test_evaluate_says_how_the_best_was_chosen_and_averages_checkpoints(folder: Path) -> None:
    flags = ["--name", "kept", "--set", "checkpoint.every=1", "--set", "evaluation.every=0"]
    flags += ["--stop-iterations", "3"]
    assert muster("train", "CartPole-v1", *QUICK, *flags, cwd=folder).returncode == 0
    best = muster("evaluate", "kept", "--episodes", "2", cwd=folder).stdout
    assert "(best by the mean return of the last 100 training episodes): return" in " ".join(best.split())
    done = muster("evaluate", "kept", "--episodes", "2", "--last", "2", cwd=folder)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "kept, checkpoint 00000002",
        "kept, checkpoint 00000003",
        "mean of the last 2 checkpoints",
    ]
    result = last_json(muster("evaluate", "kept", "--episodes", "2", "--last", "2", "--json", cwd=folder))
    assert [Path(one["checkpoint"]).name for one in result["checkpoints"]] == ["00000002", "00000003"]
    mean = sum(one["return_mean"] for one in result["checkpoints"]) / 2
    assert (result["return_mean"], result["return_std_between"]) == (
        mean,
        pytest.approx(result["return_std_between"]),
    )
    both = muster("evaluate", "kept", "--last", "2", "--checkpoint", "latest", cwd=folder)
    assert (both.returncode, "--checkpoint latest and --last 2 exclude each other" in both.stderr) == (2, True)
    one = muster("evaluate", "runs/kept/checkpoints/latest", "--last", "2", cwd=folder)
    assert (one.returncode, "--last 2: runs/kept/checkpoints/latest is a checkpoint" in one.stderr) == (2, True)
    too_many = muster("evaluate", "kept", "--last", "9", cwd=folder)
    assert (too_many.returncode, "--last 9: kept has 3 checkpoints" in too_many.stderr) == (2, True)


def test_the_latest_policy_acts_until_the_best_is_known(folder: Path) -> None:
    flags = ["--name", "unevaluated", "--set", "evaluation.every=10"]
    assert muster("train", "CartPole-v1", *QUICK, *flags, cwd=folder).returncode == 0
    done = muster("evaluate", "unevaluated", "--episodes", "1", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "unevaluated: not known yet which checkpoint is the best; taking the latest, 00000002\n"
    assert last_json(done)["checkpoint"].endswith("00000002")


def test_runs_and_show(folder: Path) -> None:
    listed = muster("runs", cwd=folder)
    assert "first" in listed.stdout
    assert "finished" in listed.stdout
    shown = muster("show", "first", cwd=folder)
    assert "PPO on CartPole-v1, seed 0" in shown.stdout
    assert "00000002 (best: 00000002)" in shown.stdout
    assert last_json(muster("show", "first", "--json", cwd=folder))["iteration"] == 2
    assert json.loads(muster("runs", "--json", cwd=folder).stdout)[0]["state"] == "finished"
    empty = muster("runs", cwd=folder.parent)
    assert "start one: muster train CartPole-v1" in empty.stdout


def test_play_a_run_and_an_id_with_video(folder: Path) -> None:
    played = muster("play", "first", "--episodes", "2", cwd=folder)
    assert "episode 2: return" in played.stdout, played.stderr
    at_random = muster("play", "CartPole-v1", "--video", "v.gif", cwd=folder, SDL_VIDEODRIVER="dummy")
    assert "wrote v.gif" in at_random.stdout, at_random.stderr
    assert (folder / "v.gif").read_bytes()[:4] == b"GIF8"
    film = muster("play", "first", "--video", "v.mp4", cwd=folder, SDL_VIDEODRIVER="dummy")
    assert "wrote v.mp4" in film.stdout, film.stderr
    assert (folder / "v.mp4").read_bytes()[4:8] == b"ftyp"


def test_init_check_and_train_a_file(folder: Path) -> None:
    assert muster("init", "Acrobot-v1", "-o", "acrobot.toml", cwd=folder).returncode == 0
    assert "exists already" in muster("init", "-o", "acrobot.toml", cwd=folder).stderr
    checked = muster("check", "acrobot.toml", cwd=folder)
    assert checked.returncode == 0
    assert "ready to train" in checked.stdout
    done = muster("train", "acrobot.toml", *QUICK, "--quiet", cwd=folder)
    assert done.returncode == 0, done.stderr
    broken = muster("check", "tests.toys:Drifting", "--json", cwd=folder)
    assert broken.returncode == 2
    assert last_json(broken)["problems"] == 1


def test_seeds_train_one_run_each_and_end_with_mean_and_interval(folder: Path) -> None:
    command = ["train", "CartPole-v1", *QUICK, "--seeds", "3", "--seed", "5", "--name", "many"]
    done = muster(*command, "--json", cwd=folder)
    result = last_json(done)
    assert [Path(run["run"]).name for run in result["runs"]] == ["seed-5", "seed-6", "seed-7"]
    assert result["interval"][0] < result["return_mean"] < result["interval"][1]
    text = muster(*command, "--resume", "--quiet", cwd=folder).stdout
    assert "3 seeds, the best policy of each in the same 10 episodes: mean return" in text
    assert "95 % interval" in text


def test_schema_is_json(folder: Path) -> None:
    assert json.loads(muster("schema", cwd=folder).stdout)["title"] == "Experiment"


BAD_FILE = """
sede = 1
[env]
id = "CartPole-v1"
[algorithm]
lr = "fast"
[stop]
steps = -5
[resources]
workers = 1.5
[models]
"""

MISTAKES = [
    (["train", "nosuch-v0"], 2, "no simulator 'nosuch-v0' is registered with Gymnasium"),
    (["train", "bad.toml"], 2, "bad.toml: 5 problems"),
    (["train", "CartPole-v1", "--runs-dir", "/proc/none"], 2, "choose another place with --runs-dir"),
    (["train", "CartPole-v1", "--algorithm", "A3C"], 2, "no algorithm 'A3C'; expected one of PPO, TRPO, A2C"),
    (["train", "CartPole-v1", "--name", "first"], 2, "use --resume to continue it"),
    (
        ["train", "CartPole-v1", "--name", "damaged", "--resume", "--stop-iterations", "3"],
        2,
        "learner.npz: damaged",
    ),
    (["train", "tests.toys:TextObservations"], 2, "observation space Text"),
    (["train", "tests.toys:BrokenConstructor"], 3, "licence server not reachable"),
    (["train", "CartPole-v1", "--resume", "--from", "first"], 2, "give one of them"),
    (["evaluate", "nosuch"], 2, "no run 'nosuch' in runs"),
    (["evaluate", "first", "--checkpoint", "7"], 2, "no checkpoint '7'"),
    (["play", "CartPole-v1", "--video", "v.avi"], 2, ".mp4 or .gif"),
    (["train", "missing.toml"], 2, "no such file"),
]


@pytest.mark.parametrize(("command", "code", "message"), MISTAKES, ids=[" ".join(m[0]) for m in MISTAKES])
def test_mistakes_are_explained(command: list[str], code: int, message: str, folder: Path) -> None:
    (folder / "bad.toml").write_text(BAD_FILE)
    if "damaged" in command and not (folder / "runs" / "damaged").exists():
        muster("train", "CartPole-v1", *QUICK, "--name", "damaged", cwd=folder)
        (folder / "runs/damaged/checkpoints/latest/learner.npz").write_bytes(b"x")
    done = muster(*command, cwd=folder, SDL_VIDEODRIVER="dummy")
    assert done.returncode == code
    assert message in done.stderr
    own = [line for line in done.stderr.splitlines() if "src/muster/cli" in line]
    assert not own, "a traceback of muster's own"


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.long)])
def test_a_simulator_s_own_traceback_is_shown(workers: str, folder: Path) -> None:
    command = ["train", "tests.toys:Failing", "--set", "env.config.at=1", "--workers", workers, "--json"]
    done = muster(*command, "--name", f"failing-{workers}", cwd=folder)
    assert done.returncode == 3
    assert 'raise RuntimeError("the pump broke")' in done.stderr
    assert last_json(done)["exit_code"] == 3
    assert list((folder / "runs" / f"failing-{workers}" / "failures").glob("*.json"))


def test_ray_leaves_nothing_behind_and_tells_nobody_its_token(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    temporary = Path("/tmp") / f"m{os.getpid()}"
    temporary.mkdir()
    try:
        arguments = ["train", "CartPole-v1", "--workers", "1", "--stop-iterations", "2", "--name", "ray"]
        done = muster(*arguments, cwd=folder, HOME=str(home), TMPDIR=str(temporary))
        assert done.returncode == 0, done.stderr
        assert not list(temporary.iterdir())
        assert not (home / ".ray").exists()
    finally:
        temporary.rmdir()


def test_every_command_and_flag_is_documented() -> None:
    from typer.main import get_command

    from muster.cli.main import app

    page = (ROOT / "docs" / "commands.md").read_text()
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        if command.hidden:
            continue
        assert f"## `muster {name}" in page, name
        for parameter in command.params:
            for flag in parameter.opts:
                if flag.startswith("--"):
                    assert f"`{flag}" in page, (name, flag)


def test_the_environment_s_runs_folder_is_used(tmp_path: Path) -> None:
    runs = tmp_path / "elsewhere"
    done = muster("train", "CartPole-v1", *QUICK, "--quiet", cwd=tmp_path, MUSTER_RUNS_DIR=str(runs))
    assert done.returncode == 0
    assert (runs / "cartpole-v1-ppo" / "metrics.csv").exists()
    assert "MUSTER_RUNS_DIR" not in environment()


def test_a_long_run_prints_fewer_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pace, lines = Pace(), []
    while now < 24 * 3600:
        if pace.is_due():
            lines.append(now)
        now += 1.0
    assert len([line for line in lines if line < 10]) == 10
    assert 300 < len(lines) < 600


@pytest.mark.parametrize(("flags", "module"), [(["--video", "v.mp4"], "imageio_ffmpeg"), (["--render"], "pygame")])
def test_what_drawing_needs_is_named(
    flags: list[str], module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    refused = muster_here("play", "CartPole-v1", *flags)
    assert refused.code == 2
    assert "pip install '.[video]'" in refused.err
    assert "Traceback" not in refused.err
