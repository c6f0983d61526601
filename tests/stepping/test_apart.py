"""A process of its own for a simulator: what it returns, how it ends, and that it holds up nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.errors import ExperimentError
from muster.simulators.simulator import Simulator
from muster.stepping.apart import ApartProcess, ProcessDiedError
from muster.stepping.checking import check_simulator
from muster.stepping.failures import SamplingAbandonedError, Supervision
from muster.stepping.live import FailedCallError
from muster.stepping.rules import Rules
from muster.stepping.survey import Wanted, survey, survey_apart
from tests.misbehaving import FAILS_AT

MISBEHAVING = "tests.misbehaving:Misbehaving"


def double(number: int, *, journals: Path) -> int:
    assert journals.is_dir()
    return 2 * number


def end(code: int, *, journals: Path) -> None:
    os._exit(code)


def sleep(*, journals: Path) -> None:
    time.sleep(60)


def leave_a_child(*, journals: Path) -> str:
    subprocess.Popen(["sleep", "60"], close_fds=False)
    return "left"


def test_a_process_answers_many_calls_and_comes_back_after_its_death() -> None:
    before = set(psutil.Process().children())
    process = ApartProcess(None)
    assert [process.call(double, number) for number in (1, 2)] == [2, 4]
    with pytest.raises(ProcessDiedError, match="the process exited with code 7"):
        process.call(end, 7)
    assert process.call(double, 3) == 6
    process.close()
    assert not set(psutil.Process().children()) - before


def test_a_child_that_holds_the_link_holds_up_nobody() -> None:
    process = ApartProcess(None)
    began = time.monotonic()
    assert process.call(leave_a_child) == "left"
    process.close()
    assert time.monotonic() - began < 10


def test_a_call_is_abandoned_when_there_is_no_time() -> None:
    began = time.monotonic()
    process = ApartProcess(None, Supervision(print, interrupted=lambda: time.monotonic() - began > 0.5))
    with pytest.raises(SamplingAbandonedError):
        process.call(sleep)
    assert time.monotonic() - began < 10


def test_ctrl_c_is_heeded_at_once() -> None:
    process = ApartProcess(None)
    process.call(double, 1)
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        process.call(sleep)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("os._exit", "ProcessDied: the process exited with code 7"),
        ("segfault", "ProcessDied: Segmentation fault"),
        ("kill", "ProcessDied: killed by SIGKILL"),
        ("hang deaf", "TimeoutError: step took longer than env.step_timeout = 0.5 s"),
    ],
)
def test_a_death_is_described_with_what_repeats_it(how: str, error: str) -> None:
    simulator = Simulator(MISBEHAVING, {"how": how, "every": 1})
    process = ApartProcess(0.5)
    with pytest.raises(FailedCallError) as caught:
        process.call(survey, simulator, Rules(step_timeout=0.5), Wanted(0, seconds_of_steps=0.2))
    failure = caught.value.failure
    assert (failure.error, failure.call, failure.step, failure.group) == (error, "step", FAILS_AT, None)
    assert failure.actions is not None and len(failure.actions) == FAILS_AT + 1
    process.close()


def test_a_survey_goes_on_after_a_death_with_what_it_can_know() -> None:
    simulator = Simulator(MISBEHAVING, {"how": "os._exit", "every": 1})
    process = ApartProcess(None)
    found = survey_apart(simulator, Rules(), Wanted(0, seconds_of_steps=0.2, pickling=True), process)
    process.close()
    assert (found.action_space.n, found.step_seconds) == (2, None)
    assert found.pickle_problem is not None and "code 7" in found.pickle_problem


def test_errors_keep_their_kind() -> None:
    process = ApartProcess(None)
    with pytest.raises(ExperimentError, match="no class or function"):
        process.call(check_simulator, Simulator("tests.misbehaving:Nothing"), Rules())
    process.close()


@pytest.mark.parametrize(
    "how",
    [
        "hang in build",
        *(pytest.param(how, marks=pytest.mark.long) for how in ("hang in reset", "hang in close", "hang")),
    ],
)
def test_a_check_of_what_hangs_ends(how: str) -> None:
    process = ApartProcess(0.5)
    config: dict[str, Any] = {"how": how, "every": 1}
    findings = process.call(check_simulator, Simulator(MISBEHAVING, config), Rules(step_timeout=0.5))
    process.close()
    assert any("took longer than env.step_timeout = 0.5 s" in finding.message for finding in findings)


def test_slow_steps_are_not_taken_for_one_call_that_hangs() -> None:
    simulator, rules = Simulator("tests.toys:Sleepy"), Rules(step_timeout=0.4)
    process = ApartProcess(rules.step_timeout)
    found = survey_apart(simulator, rules, Wanted(0, pickling=True), process)
    process.close()
    assert found.pickle_problem is None


def test_a_survey_is_known_even_if_closing_ends_the_process() -> None:
    process = ApartProcess(None)
    found = survey_apart(Simulator("tests.toys:EndsInClose"), Rules(), Wanted(0), process)
    process.close()
    assert found.action_space.n == 3
