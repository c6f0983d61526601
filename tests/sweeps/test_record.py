"""What a sweep's record says: which trial is best, what is left to do, and the exit code that follows."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from muster.errors import InputError
from muster.experiment import Override, load_experiment
from muster.sweeps import SweepOptions, sweep
from muster.sweeps.folder import SweepFolder
from muster.sweeps.record import SweepRecord, Trial
from muster.sweeps.summary import verdict
from muster.training.interruption import Interruption

INTERRUPTED = Interruption("interrupted by SIGINT", 130)


def record(*trials: Trial, mode: str = "max") -> SweepRecord:
    return SweepRecord(SweepFolder(Path("nowhere")), "return/mean", mode, list(trials))


def trial(state: str, metric: float | None = None, exit_code: int = 0) -> Trial:
    return Trial("trial-001", {}, state, metric=metric, exit_code=exit_code)


def test_the_best_is_by_mode_and_never_one_that_failed() -> None:
    trials = [trial("finished", 1.0), trial("stopped", -3.0), trial("failed", 9.0), trial("queued")]
    assert record(*trials).best() is trials[0]
    assert record(*trials, mode="min").best() is trials[1]
    assert record(trials[3]).best() is None


@pytest.mark.parametrize(
    ("trials", "is_complete", "interruption", "code"),
    [
        ([trial("finished"), trial("stopped")], True, None, 0),
        ([trial("finished"), trial("stopped")], True, INTERRUPTED, 0),
        ([trial("finished"), trial("stopped", exit_code=130)], True, INTERRUPTED, 130),
        ([trial("finished")], False, INTERRUPTED, 130),
        ([trial("finished"), trial("lost")], True, None, 75),
        ([trial("finished"), trial("failed", exit_code=3)], True, None, 0),
        ([trial("failed", exit_code=3), trial("failed", exit_code=3)], True, None, 3),
        ([trial("failed", exit_code=3), trial("failed", exit_code=1)], True, None, 1),
        ([trial("failed", exit_code=3)], False, INTERRUPTED, 130),
    ],
)
def test_the_exit_code(
    trials: list[Trial], is_complete: bool, interruption: Interruption | None, code: int
) -> None:
    assert verdict(record(*trials), is_complete, interruption)[1] == code


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["the wall time is about to end"] * 2, "the wall time is about to end"),
        (["the wall time is about to end", "lost"], "not done: 2 trials"),
        (["", ""], "not done: 2 trials"),
    ],
)
def test_a_reason_that_all_trials_share_is_the_sweep_s(reasons: list[str], expected: str) -> None:
    trials = [Trial("trial-001", {}, "stopped", reason=reason, exit_code=75) for reason in reasons]
    assert verdict(record(*trials), True, None) == (expected, 75)


def test_without_the_extra_the_message_has_the_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def without_optuna(name: str, *rest: Any) -> Any:
        return None if name == "optuna" else find(name, *rest)

    monkeypatch.setattr(importlib.import_module("muster.sweeps.sweep"), "find_spec", without_optuna)
    section = {"parameters": {"algorithm.lr": {"uniform": [0.1, 1.0]}}, "search": "optuna"}
    loaded = load_experiment("CartPole-v1", [Override("sweep", section, "test")])
    expected = r"a sweep needs optuna\n    in the folder of muster's source: pip install '\.\[sweep\]'"
    with pytest.raises(InputError, match=expected):
        sweep(loaded, SweepOptions(tmp_path), None)  # type: ignore[arg-type]
