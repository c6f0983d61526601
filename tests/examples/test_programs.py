"""The examples whose simulator is another program: it is heeded, replaced when it fails, and gone at the end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import psutil
import pytest

from tests.commands import ROOT, last_json, muster, start_muster, wait_until

EXAMPLES = ROOT / "examples"
GNUGO = shutil.which("gnugo") or shutil.which("gnugo", path="/usr/games")
needs_gnugo = pytest.mark.skipif(GNUGO is None, reason="needs GNU Go")
QUICK = ("--mode", "gtp", "--level", "0", "--chinese-rules")


def processes_with(text: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if text in " ".join(process.info["cmdline"] or []) and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES / "go"))
    import go_env

    return go_env


@pytest.fixture
def reactor(tmp_path: Path) -> Path:
    """The folder of the reactor, with its program built as the README says."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    ignored = shutil.ignore_patterns("reactor", "runs")
    folder = shutil.copytree(EXAMPLES / "c_program", tmp_path / "c_program", ignore=ignored)
    build = next(line for line in (folder / "README.md").read_text().splitlines() if line.startswith("$ cc "))
    subprocess.run(build.removeprefix("$ "), shell=True, cwd=folder, check=True)
    return folder


def test_a_program_that_crashes_and_hangs_is_replaced_and_training_continues(reactor: Path) -> None:
    hot = "action_space = gymnasium.spaces.Box(318, 320"
    source = (reactor / "reactor_env.py").read_text()
    (reactor / "reactor_env.py").write_text(source.replace("action_space = gymnasium.spaces.Box(280, 320", hot))
    flags = ["--workers", "0", "--stop-iterations", "2", "--set", "algorithm.train_batch_size=1600", "--json"]
    flags += ["--set", "env.step_timeout=0.3s", "--set", "evaluation.every=0"]
    done = muster("train", "reactor.toml", *flags, cwd=reactor)
    assert done.returncode == 0, done.stderr
    errors = [json.loads(path.read_text())["error"] for path in (reactor / "runs/reactor/failures").iterdir()]
    assert any("ended with code -6: reactor:" in error for error in errors), errors
    assert any("env.step_timeout" in error for error in errors), errors
    assert last_json(done)["steps"] == 3200
    assert processes_with(str(reactor / "reactor")) == []


def test_the_rule_holds_the_reactor(reactor: Path) -> None:
    flags = ["--workers", "0", "--stop-iterations", "1", "--set", "evaluation.every=0", "--name", "short"]
    assert muster("train", "reactor.toml", *flags, cwd=reactor).returncode == 0
    rule = ["--baseline", "reactor_env.py:proportional", "--episodes", "3", "--json"]
    found = last_json(muster("evaluate", "short", *rule, cwd=reactor))
    assert -8 < found["baseline"]["return_mean"] < -4


def test_a_ladder_of_captures_a_ko_and_the_area(go: ModuleType) -> None:
    board = go.Board(3)
    for point, colour in ((1, go.BLACK), (0, go.WHITE), (3, go.BLACK)):
        board.play(point, colour)
    assert board.stones[0] == 0, "the corner is captured"
    assert not board.legal(go.WHITE)[0], "suicide"
    assert board.area() == 9, "all that White has is gone"

    ko = go.Board(4)
    for point, colour in ((1, 1), (2, -1), (4, 1), (7, -1), (9, 1), (10, -1), (6, 1), (5, -1)):
        ko.play(point, colour)
    assert ko.stones[6] == 0, "White has captured one stone"
    assert not ko.legal(go.BLACK)[6], "Black may not repeat the position at once"
    assert ko.legal(go.BLACK)[15]


@needs_gnugo
def test_legal_moves_are_gnu_go_s(go: ModuleType) -> None:
    program = go.GoProgram(f"{GNUGO} {' '.join(QUICK)}")
    rng = np.random.default_rng(0)
    try:
        for _ in range(3):
            program.ask("boardsize 7")
            program.ask("clear_board")
            board, colour = go.Board(7), go.BLACK
            for _ in range(70):
                name = "black" if colour == go.BLACK else "white"
                theirs = {go.point_of(one, 7) for one in program.ask(f"all_legal {name}").split()}
                ours = set(np.flatnonzero(board.legal(colour)).tolist())
                # Positional superko forbids a little more than GNU Go's simple ko does.
                assert ours <= theirs and len(theirs - ours) <= 1
                if ours:
                    point = int(rng.choice(sorted(ours)))
                    board.play(point, colour)
                    program.ask(f"play {name} {go.vertex(point, 7)}")
                colour = -colour
    finally:
        program.close()


@needs_gnugo
def test_go_trains_against_a_program_and_its_processes_end_with_the_run(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "go", tmp_path / "go", ignore=shutil.ignore_patterns("pachi", "runs"))
    shutil.copy(str(GNUGO), folder / "opponent")
    program = f"{folder / 'opponent'} {' '.join(QUICK)}"
    flags = ["--workers", "0", "--set", f"env.config.program='{program}'", "--set", "env.config.size=5"]
    flags += ["--set", "env.config.komi=0.5", "--set", "resources.env_groups=2", "--set", "evaluation.every=0"]
    flags += ["--set", "algorithm.train_batch_size=40"]
    done = muster("train", "go.toml", *flags, "--stop-iterations", "2", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert last_json(done)["steps"] == 80
    assert not (folder / "runs/go/failures").exists(), "no illegal move"
    assert processes_with(str(folder / "opponent")) == []

    training = start_muster("train", "go.toml", *flags, "--name", "killed", cwd=folder)
    try:
        wait_until(lambda: len(processes_with(str(folder / "opponent"))) >= 2, "the programs")
        training.send_signal(signal.SIGKILL)
        training.wait(10)
        wait_until(lambda: not processes_with(str(folder / "opponent")), "the programs' end", 20)
    finally:
        training.kill()
        training.communicate()


def test_the_script_that_uses_ray_itself_runs_under_launch(tmp_path: Path) -> None:
    script = EXAMPLES / "own_ray_script" / "random_search.py"
    done = muster("launch", "--", sys.executable, script, "--policies", "20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "20 policies on" in done.stdout and "of 1 host(s)" in done.stdout
