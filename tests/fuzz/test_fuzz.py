"""No file, flag or damaged folder ends in a traceback or a hang."""

from __future__ import annotations

import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.commands import muster_here
from tests.fuzz.damages import damage
from tests.fuzz.inputs import command_line
from tests.runs.tiny import train_tiny

SECONDS = 20
BAD_INPUT = 2


class HangError(Exception):
    """A command took too long."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise an error in this thread when something takes too long."""

    def ring(_: int, __: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def explain(seed: int, what: object, error: BaseException) -> str:
    return f"case {seed}: {type(error).__name__}: {error!r:.300} from {what!r:.600}"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints 1 and 2."""
    overrides = {"checkpoint.every": 1, "evaluation.every": 1, "evaluation.episodes": 1}
    return train_tiny(tmp_path_factory.mktemp("runs"), "run", **overrides)


@pytest.fixture
def without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands end where their work would begin: after all input was checked."""

    def nothing(*_: Any, **__: Any) -> None:
        raise SystemExit(0)

    for name in (
        "muster.training.train:execute",
        "muster.sweeps.sweep:ray_for_trials",
        "muster.training.scaling_runs:measure_scaling",
        "muster.training.scaling_runs:measure_hosts",
        "muster.training.checking:check_experiment",
        "muster.stepping.evaluation:EvaluationTask",
        "muster.stepping.episodes:play",
        "muster.training.policy_export:export",
        "muster.clusters.launching.launch:launch",
        "muster.clusters.doctor.examination:Examination",
    ):
        module, _, function = name.partition(":")
        home = import_module(module)
        monkeypatch.setattr(home._Run if function == "execute" else home, function, nothing)


@pytest.mark.parametrize("cases", [100, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
@pytest.mark.usefixtures("without_work")
def test_files_and_flags(cases: int, tmp_path: Path, original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(original, tmp_path / "runs" / "run", symlinks=True)

    def check(rng: random.Random) -> None:
        arguments = command_line(rng, tmp_path)
        ended = muster_here(*arguments)
        assert ended.code in (0, BAD_INPUT), (arguments, ended)
        assert "Traceback" not in ended.err, (arguments, ended)

    report(cases, check)


@pytest.mark.parametrize("cases", [6, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_damaged_run_folders(cases: int, tmp_path: Path, original: Path) -> None:
    resume = ["train", "CartPole-v1", "--name", "run", "--resume", "--workers", "0", "--stop-iterations", "4"]

    def check(rng: random.Random) -> None:
        runs = tmp_path / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        shutil.copytree(original, runs / "run", symlinks=True)
        shutil.copytree(original, runs / "other", symlinks=True)
        done = damage(rng, runs / "run")
        for command in (
            ["runs"],
            ["show", "run"],
            resume,
            ["evaluate", "run", "--episodes", "1"],
            ["show", "run"],
        ):
            ended = muster_here(*command, "--runs-dir", runs)
            is_edit = "experiment.toml" in done and "but the run was trained with" in ended.err
            allowed = (0, BAD_INPUT) if command[0] == "evaluate" or is_edit else (0,)
            assert ended.code in allowed, (done, command, ended)
            assert command[0] != "runs" or "other" in ended.out, (done, ended)

    report(cases, check)


def report(cases: int, check: Callable[[random.Random], None]) -> None:
    """Run cases by their seeds; fail with all that went wrong, so that each can be repeated."""
    failures: list[str] = []
    kinds: Counter[str] = Counter()
    for seed in range(cases):
        try:
            with limited(SECONDS):
                check(random.Random(seed))
        except (Exception, HangError) as error:
            kinds[type(error).__name__] += 1
            failures.append(explain(seed, "", error))
    print(f"{cases} cases, {dict(kinds) or 'none failed'}")
    assert not failures, "\n".join(failures[:20])
