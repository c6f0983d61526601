"""What a person sees at 80 columns: lines that break between words, short paths, hints that can be followed."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from muster.cli.screen import between_words, console, print_text
from muster.cli.views import LiveView, View
from muster.errors import SimulatorError
from muster.experiment import Experiment
from muster.files.shown import short_name, short_path
from muster.runs.metrics import FIRST_COLUMNS, TIME_COLUMNS
from muster.stepping.evaluation import Evaluation
from muster.training.listener import RunStart
from muster.training.progress import Progress
from tests.commands import muster, muster_here
from tests.runs.tiny import made_run

QUICK = ["--workers", "0", "--stop-iterations", "1"]
FAILING = """
import gymnasium
from gymnasium import spaces

class Failing(gymnasium.Env):
    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        raise RuntimeError("the pump broke")

gymnasium.register("Failing-v0", entry_point="failing_pump:Failing", max_episode_steps=5)
"""


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, soft_wrap=True, color_system=None)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_lines_break_between_words_and_paths_stay_whole() -> None:
    path = f"    File {'/very-long' * 9}, and then more words than fit into eighty columns of a terminal"
    text = f"{'word ' * 20}\n    {'hint ' * 20}\n{path}"
    lines = between_words(text, 80).splitlines()
    assert [line for line in lines if len(line) > 80] == [path]
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 0, 4, 4, 4]
    assert between_words(text, 80).split() == text.split()
    assert between_words("short", 80) == "short"


def test_the_header_breaks_between_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = Experiment.model_validate({"env": {"id": f"{tmp_path}/heatpump.py:HeatPump"}})
    screen = terminal()
    View(screen, verbose=False, quiet=False).started(RunStart(Path("runs/a"), experiment, 0, 8, 2048, 0))
    assert text_of(screen).splitlines() == [
        "PPO on heatpump.py:HeatPump, seed 0, in this process, 8 simulators, 2,048 steps",
        "an iteration",
        "run folder runs/a",
    ]


def test_output_that_is_no_terminal_keeps_its_lines() -> None:
    screen = Console(file=io.StringIO(), width=80, soft_wrap=True)
    print_text(screen, "word " * 40, mark="note: ")
    assert len(text_of(screen).splitlines()) == 1


def test_a_view_that_ends_before_the_first_iteration_leaves_nothing() -> None:
    screen = terminal()
    with LiveView(screen, verbose=False):
        pass
    assert not text_of(screen).rstrip().endswith("starting ...")


@pytest.mark.parametrize("width", [40, 60, 80])
def test_live_lines_leave_room_for_what_the_terminal_prints_of_a_ctrl_c(width: int) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=width, soft_wrap=True, color_system=None)
    experiment = Experiment.model_validate({"env": {"id": "CartPole-v1"}, "stop": {"steps": 5_000_000}})
    row: dict[str, Any] = dict.fromkeys((*FIRST_COLUMNS, *TIME_COLUMNS), 1.0)
    with LiveView(screen, verbose=False) as view:
        view.started(RunStart(Path("runs/a"), experiment, 0, 8, 2048, 0))
        view.evaluated(1, Evaluation(10, 500.0, 0.0, 500.0, {"energy": 123.4, "comfort": 0.123}))
        view.iterated(row, Progress(iteration=100, steps=110_592, returns=[500.0] * 100))
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in text_of(screen).splitlines()]
    live = lines[next(at for at, text in enumerate(lines) if "progress" in text) :]
    assert max(map(len, live)) <= width - 3
    assert sum("110,592 of" in line for line in live) == 1


@pytest.mark.parametrize(("verbose", "count"), [(False, 5), (True, 9)])
def test_failures_that_are_alike_are_printed_a_few_times(verbose: bool, count: int) -> None:
    screen = terminal()
    view = View(screen, verbose=verbose, quiet=False)
    for k in range(9):
        view.failed(f"ValueError: {1 + 1e-4 * k} is outside 0 to 1 (in step: episode {k})", "its traceback")
    view.failed("ValueError: the pump broke (in step: episode 9)", "")
    text = text_of(screen)
    assert (text.count("is outside"), text.count("its traceback"), text.count("the pump broke")) == (count, 1, 1)
    assert ("--verbose prints all" in text) is not verbose


def test_paths_below_the_current_folder_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_path(tmp_path / "runs/a") == "runs/a"
    assert short_path("/elsewhere/runs") == "/elsewhere/runs"
    assert short_name(f"{tmp_path}/pump.py:Pump") == "pump.py:Pump"
    assert short_name("pump:Pump") == "pump:Pump"
    assert short_name("CartPole-v1") == "CartPole-v1"


def test_quiet_prints_the_result_alone(tmp_path: Path) -> None:
    done = muster("train", "CartPole-v1", *QUICK, "--quiet", "--name", "a", cwd=tmp_path)
    assert [line.split(" ")[0] for line in done.stdout.splitlines()] == ["finished:", "2,048", "results"]
    assert done.stderr == ""
    (tmp_path / "failing_pump.py").write_text(FAILING)
    failed = muster("train", "failing_pump.py:Failing", *QUICK, "--quiet", cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (3, "")
    assert failed.stderr.count("the pump broke") == 3  # the message, the line of code, the exception


def test_a_film_is_proposed_only_where_it_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "failing_pump.py").write_text(
        FAILING.replace("raise RuntimeError", "return 0, 0.0, True, False, {}  #")
    )
    blind = muster("train", "failing_pump.py:Failing", *QUICK, cwd=tmp_path)
    assert "muster evaluate" in blind.stdout, blind.stderr
    assert "--video" not in blind.stdout
    assert "--video" in muster("train", "CartPole-v1", *QUICK, cwd=tmp_path).stdout


def test_a_traceback_begins_at_the_user_s_frame_and_breaks_no_path(tmp_path: Path) -> None:
    folder = tmp_path / ("deep-" * 15)
    folder.mkdir()
    path = folder / "failing_pump.py"
    path.write_text(FAILING)
    frames = f'Traceback (most recent call last):\n  File "{path}", line 14, in step\n'
    trained = muster("train", "failing_pump:Failing-v0", *QUICK, cwd=folder)
    assert frames in trained.stdout
    assert frames in trained.stderr
    checked = muster("check", "failing_pump:Failing-v0", cwd=folder)
    assert f'File "{path}", line 14, in step' in checked.stdout


def test_the_error_s_traceback_is_printed_once_and_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    from muster.cli.screen import show_error

    error = SimulatorError("it failed\n\nTraceback:\n  a line")
    error.traceback = "Traceback:\n  a line\n"
    show_error(error)
    assert capsys.readouterr().err == "error: it failed\n\nTraceback:\n  a line\n"


def test_a_simulator_s_name_is_never_an_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("house.py:House: ready to train")
    assert capsys.readouterr().out == "house.py:House: ready to train\n"


@pytest.mark.parametrize("command", ["show", "resume", "rm", "compare", "evaluate", "attach"])
def test_an_error_cannot_drive_the_terminal(tmp_path: Path, command: str) -> None:
    made_run(tmp_path / "runs/\x1b[2Jevil")
    refused = muster_here(
        command, "nosuch", *(["other"] if command == "compare" else []), "--runs-dir", tmp_path / "runs"
    )
    assert (refused.code, "\x1b" in refused.err) == (2, False)
    assert "\ufffd[2Jevil" in refused.err


def test_tables_fit_a_terminal_of_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "a-folder-with-a-long-name" / "runs"
    names = ["abcdefghijklmnop", "qrstuvwxyzabcdef"]
    for name in names:
        for seed in range(5):
            made_run(runs / name / f"seed-{seed}", 2 + seed)
    monkeypatch.setenv("COLUMNS", "80")
    compared = muster_here("compare", *names, "--runs-dir", runs).out.splitlines()[:3]
    pruned = muster_here("prune", "--dry-run", "--older-than", "0s", "--runs-dir", runs).out.splitlines()
    assert len(pruned) > 1
    assert max(map(len, [*compared, *pruned])) <= 80
