"""What a misbehaving simulator leads to: its message, its record, and a run that goes on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from muster import train
from muster.errors import SimulatorError
from muster.runs.metrics import read_metrics
from muster.stepping.process_state import ProcessState
from muster.stepping.replay import read_recorded, replay
from muster.training import TrainOptions, TrainResult
from muster.training.listener import Silence
from muster.training.progress import Progress
from tests.commands import MUSTER, environment, last_json, muster, start_muster, wait_until
from tests.misbehaving import FAILS_AT, LINE, Heeded, Misbehaving, misuse_process

RAISED = {
    "raise": "RuntimeError: the pump broke (in step: group ",
    "reset": "RuntimeError: no restart file (in reset: group ",
    "build": "OSError: no licence left (in build: group 0, simulator 1, episode 0, seed ",
    "close": "RuntimeError: the socket is gone (in close: group ",
    "memory": "MemoryError: no room for the mesh (in step: group ",
    "sys.exit": "SystemExit: goodbye (in step: group ",
    "NaN": "ValueError: observation is not finite (in step: group ",
    "NaN at reset": "ValueError: observation is not finite (in reset: group ",
    "infinite reward": "ValueError: reward is inf (in step: group ",
    "reward of a wrong type": "TypeError: reward is None, expected a number (in step: group ",
    "wrong shape": "ValueError: observation has shape (3,), its space says (2,) (in step: group ",
    "wrong type": "ValueError: observation has shape (), its space says (2,) (in step: group ",
    "outside": "ValueError: observation lies outside its space: entry ",
    "three values": "step must return observation, reward, terminated, truncated, info: it returned 3 values",
    "hang": "TimeoutError: step took longer than env.step_timeout = 1 s (in step: group ",
}
ODDLY_RAISED = {
    "KeyboardInterrupt": "KeyboardInterrupt: not the user's (in step: group ",
    "BaseException": "OwnError: of no known kind (in step: group ",
    "GeneratorExit": "GeneratorExit: out of here (in step: group ",
    "failing __str__": "SpeechlessError: (its message cannot be shown: __str__ raised RuntimeError) (in step: ",
    "megabytes": "xxx [... 4,996,000 characters ...] xxx",
    "surrogates": "ValueError: caf\\udce9 (in step: group ",
    "None": "step must return observation, reward, terminated, truncated, info: it returned a NoneType (in step: ",
    "strange truth": "ValueError: The truth value of an array with more than one element is ambiguous",
}
PROCESS_ENDED = {
    "os._exit": "ProcessDied: the process exited without a traceback: os._exit, a kill, or the host's",
    "segfault": "ProcessDied: Segmentation fault (in step: group ",
    "kill": "ProcessDied: the process exited without a traceback: os._exit, a kill, or the host's",
    "hang in C": "TimeoutError: step took longer than env.step_timeout",
    "os._exit with a forked child": "ProcessDied: the process exited without a traceback: os._exit, a kill, or",
}
WITH_A_FRAME = {"raise", "reset", "build", "close", "memory", "sys.exit", "hang", "segfault", "hang in C"}


class Heard(Silence):
    """Keeps what a run tells of failures."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []

    def failed(self, error: str, traceback: str) -> None:
        self.failures.append((error, traceback))


def overrides(how: str, workers: int) -> dict[str, Any]:
    return {
        "name": "run",
        # One with which no simulator fails three times in a row.
        "seed": 4,
        "env.config": {
            "how": how,
            "every": 17 if how in PROCESS_ENDED or how == "hang" else 5,
            "index": "{index}",
        },
        "env.step_timeout": 1 if "hang" in how else None,
        "env.restart_every": 2 if how == "close" else 0,
        "resources.workers": workers,
        "evaluation.every": 0,
        "resources.env_groups": 2,
        "resources.envs_per_group": 2,
        "algorithm.train_batch_size": 160,
        "algorithm.minibatch_size": 40,
        "model.hidden": [8],
        "stop.iterations": 3,
        "checkpoint.simulators": False,
    }


def run(how: str, workers: int, folder: Path, **changes: Any) -> tuple[TrainResult, Heard]:
    Misbehaving.failed_to_build = workers > 0 and how != "build"
    heard = Heard()
    settings = {**overrides(how, workers), **{key.replace("__", "."): value for key, value in changes.items()}}
    options = TrainOptions(runs_dir=folder)
    return train("tests.misbehaving:Misbehaving", overrides=settings, options=options, listener=heard), heard


def recorded(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "run" / "failures").glob("*.json"))]


def check(how: str, message: str, folder: Path, heard: Heard) -> None:
    files, last = recorded(folder), read_metrics(folder / "run" / "metrics.csv")[-1]
    assert files
    assert len(heard.failures) == len(files)
    assert int(last["failures/simulator"]) == sum(file["call"] != "close" for file in files) or how == "close"
    assert {message in error for error, _ in heard.failures} == {True}
    for file, (error, traceback) in zip(files, heard.failures, strict=True):
        assert f"seed {file['seed']}, step {file['step']})" in error
        assert f"failures/{files.index(file) + 1:04d}.json" in error
        assert "misbehaving.py" in traceback or how not in WITH_A_FRAME
        if file["call"] == "step":
            assert file["step"] == FAILS_AT == len(file["actions"]) - 1


IN_WORKERS = {"raise", "build", "hang in C", "os._exit with a forked child"}
"""Those that are tried in workers, too, when there is little time."""


@pytest.mark.parametrize(
    ("how", "workers"),
    [
        *((how, 0) for how in RAISED),
        *(pytest.param(how, 2, marks=[] if how in IN_WORKERS else pytest.mark.long) for how in RAISED),
    ],
)
def test_the_simulator_is_rebuilt_and_the_run_goes_on(
    how: str, workers: int, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    result, heard = run(how, workers, tmp_path)
    assert (result.state, result.steps) == ("finished", 480)
    check(how, RAISED[how], tmp_path, heard)


@pytest.mark.parametrize("how", ODDLY_RAISED)
def test_whatever_is_raised_is_a_failure(how: str, tmp_path: Path) -> None:
    result, heard = run(how, 0, tmp_path)
    assert (result.state, result.steps) == ("finished", 480)
    check(how, ODDLY_RAISED[how], tmp_path, heard)
    assert all(path.stat().st_size < 200_000 for path in (tmp_path / "run" / "failures").iterdir())


@pytest.mark.long
@pytest.mark.parametrize("how", ODDLY_RAISED)
def test_whatever_is_raised_in_a_worker_is_a_failure(how: str, tmp_path: Path, ray_with_four_cpus: None) -> None:
    result, heard = run(how, 2, tmp_path)
    assert result.state == "finished"
    check(how, ODDLY_RAISED[how], tmp_path, heard)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_constructor_that_hangs_ends_the_start_at_once(workers: int, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(SimulatorError, match="could not be built: TimeoutError: build took longer"):
        run("hang in build", workers, tmp_path)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "how", ["chdir", "signal handlers", "environment", "socket time-out", "numpy.seterr", "stdout"]
)
def test_what_a_simulator_does_to_its_process_is_undone(how: str, tmp_path: Path) -> None:
    before = Path.cwd(), dict(os.environ), signal.getsignal(signal.SIGINT), sys.stdout, socket.getdefaulttimeout()
    result, heard = run(how, 0, tmp_path)
    after = Path.cwd(), dict(os.environ), signal.getsignal(signal.SIGINT), sys.stdout, socket.getdefaulttimeout()
    assert (result.state, heard.failures) == ("finished", [])
    assert before == after
    assert np.geterr()["over"] == "warn"


def test_an_alarm_that_a_simulator_leaves_behind_does_not_interrupt_the_run() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    with ProcessState().installed():
        misuse_process("alarm")
    time.sleep(0.5)
    assert signal.getsignal(signal.SIGALRM) is handler


def test_a_simulator_s_own_handler_of_alarms_is_there_when_it_is_called_again() -> None:
    state, rung = ProcessState(), []
    with state.installed():
        signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    with state.installed():
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(0.2)
    assert rung == [signal.SIGALRM]


def test_a_periodic_alarm_of_the_caller_s_is_not_disturbed() -> None:
    code = (
        "import signal, time; from muster.stepping.process_state import ProcessState; rung = []\n"
        "signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic() - began))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2, 1.0); began = time.monotonic()\n"
        "with ProcessState().installed(): time.sleep(0.5)\n"
        "time.sleep(0.5)\n"
        "assert len(rung) == 1, rung\n"
        "time.sleep(0.5)\n"
        "assert len(rung) == 2, rung\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


@pytest.mark.parametrize("how", ["closed streams", "closed descriptors", "children", "threads"])
def test_what_a_simulator_leaves_behind_holds_up_nothing(how: str, tmp_path: Path) -> None:
    flags = [f"--set={key}={json.dumps(value)}" for key, value in overrides(how, 0).items() if value is not None]
    flags = [flag for flag in flags if "env.config" not in flag] + [f"--set=env.config.how={how}", "--json"]
    command = [str(MUSTER), "train", "tests.misbehaving:Misbehaving", *flags]
    # A file, since what the simulator starts would hold a pipe open.
    with (tmp_path / "output").open("w") as output:
        done = subprocess.run(command, cwd=tmp_path, env=environment(), stdout=output, timeout=30, check=False)
    assert done.returncode == 0
    assert json.loads((tmp_path / "output").read_text().splitlines()[-1])["state"] == "finished"
    assert len(read_metrics(tmp_path / "runs" / "run" / "metrics.csv")) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failure_is_told_before_the_iteration_ends(
    workers: int, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    file = tmp_path / "heard"

    class Maker(Heard):
        def failed(self, error: str, traceback: str) -> None:
            super().failed(error, traceback)
            file.touch()

    settings = {**overrides("raise", workers), "env.config": {"heard": str(file)}}
    heard, options = Maker(), TrainOptions(runs_dir=tmp_path)
    Heeded.has_failed = False
    train("tests.misbehaving:Heeded", overrides=settings, options=options, listener=heard)
    check("raise", RAISED["raise"], tmp_path, heard)


def test_failures_of_a_worker_that_is_lost_later_are_not_counted_again(
    tmp_path: Path, ray_with_four_cpus: None
) -> None:
    class Killer(Heard):
        def iterated(self, row: dict[str, Any], progress: Progress) -> None:
            if progress.iteration == 1:
                for child in psutil.Process().children(recursive=True):
                    if child.name().startswith("ray::Worker"):
                        child.kill()

    heard, options = Killer(), TrainOptions(runs_dir=tmp_path)
    settings = {**overrides("raise", 2), "env.config": {"how": "raise", "every": 4}}
    train("tests.misbehaving:Misbehaving", overrides=settings, options=options, listener=heard)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert int(rows[0]["failures/simulator"]) > 0
    assert rows[-1]["failures/worker"] == "2"
    episodes = [(file["group"], file["env"], file["episode"]) for file in recorded(tmp_path)]
    assert len(set(episodes)) == len(episodes) == len(heard.failures)


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[] if how in IN_WORKERS else pytest.mark.long) for how in PROCESS_ENDED]
)
def test_a_worker_that_the_simulator_ends_is_replaced(how: str, tmp_path: Path, ray_with_four_cpus: None) -> None:
    result, heard = run(how, 2, tmp_path)
    assert (result.state, result.steps) == ("finished", 480)
    check(how, PROCESS_ENDED[how], tmp_path, heard)
    last = read_metrics(tmp_path / "run" / "metrics.csv")[-1]
    assert int(last["failures/worker"]) == int(last["failures/simulator"]) > 0


@pytest.mark.parametrize("how", ["os._exit", "segfault", "kill"])
def test_without_workers_the_next_start_tells_where_the_process_ended(how: str, tmp_path: Path) -> None:
    flags = [f"--set={key}={json.dumps(value)}" for key, value in overrides(how, 0).items() if value is not None]
    flags = [flag for flag in flags if "env.config" not in flag] + [f"--set=env.config.how={how}"]
    flags += ["--set=env.config.every=11", "--set=checkpoint.every=1"]
    done = muster("train", "tests.misbehaving:Misbehaving", *flags, cwd=tmp_path)
    assert done.returncode == {"os._exit": 7, "segfault": -11, "kill": -9}[how]
    assert ("misbehaving.py" in done.stderr) == (how == "segfault")
    again = muster("train", "tests.misbehaving:Misbehaving", *flags, "--resume", cwd=tmp_path)
    assert "ProcessDied: the previous process ended during this call" in again.stdout
    assert "step 4)\n    muster play --replay runs/run/failures/0001.json" in again.stdout


@pytest.mark.parametrize(
    ("how", "code", "cause"), [("os._exit", 7, "ProcessDied"), ("hang deaf", 3, "TimeoutError")]
)
def test_where_an_evaluation_ended_the_process_is_reported_once(
    how: str, code: int, cause: str, tmp_path: Path
) -> None:
    settings = {**overrides(how, 0), "evaluation.every": 2, "checkpoint.every": 1}
    settings["env.config"] = {"how": how, "index": "{index}"}
    flags = [
        f"--set={key}={json.dumps(value)}"
        for key, value in settings.items()
        if value is not None and key not in ("env.config", "stop.iterations")
    ]
    flags += [f"--set=env.config.how={how}", "--set=env.config.index={index}"]
    done = muster("train", "tests.misbehaving:Spare", *flags, "--stop-iterations", "3", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    more = ["--resume", "--stop-iterations", "1"]
    again = muster("train", "tests.misbehaving:Spare", *flags, *more, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    [failure] = recorded(tmp_path / "runs")
    assert failure["error"].startswith(cause)
    assert (failure["group"], failure["index"], failure["call"], failure["step"]) == (None, None, "step", FAILS_AT)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_what_a_worker_prints_goes_to_no_one_s_terminal(workers: int, tmp_path: Path) -> None:
    settings = {**overrides("print", workers), "env.step_timeout": 60, "env.config": {"how": "print"}}
    flags = [f"--set={key}={json.dumps(value)}" for key, value in settings.items() if key != "env.config"]
    flags += ["--set=env.config.how=print", "--json"]
    done = muster("train", "tests.misbehaving:Misbehaving", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert last_json(done)["state"] == "finished"
    assert (LINE in done.stdout) == (workers == 0)


_FIRST, *_OTHERS = sorted({*RAISED} - {"close", "hang", "build"})


@pytest.mark.parametrize("how", [_FIRST, *(pytest.param(how, marks=pytest.mark.long) for how in _OTHERS)])
def test_a_replay_fails_in_the_same_way(how: str, tmp_path: Path) -> None:
    run(how, 0, tmp_path)
    Misbehaving.failed_to_build = False
    path = tmp_path / "run" / "failures" / "0001.json"
    lines: list[str] = []
    with pytest.raises(SimulatorError, match="the same failure again"):
        lines.extend(replay(read_recorded(path)))


@pytest.mark.parametrize("bounds", ["clip", "squash"])
def test_a_replay_gives_the_same_numbers_for_actions(bounds: str, tmp_path: Path) -> None:
    settings = {**overrides("not", 0), "env.config": {}, "algorithm.action_bounds": bounds, "stop.iterations": 1}
    train("tests.misbehaving:Steered", overrides=settings, options=TrainOptions(runs_dir=tmp_path))
    with pytest.raises(SimulatorError, match=r"the rudder broke at .* \(the same failure again\)"):
        list(replay(read_recorded(tmp_path / "run" / "failures" / "0001.json")))


@pytest.mark.parametrize("how", ["raise", "reset", "infinite reward", "wrong shape", "three values"])
def test_a_failure_of_an_evaluation_is_recorded_and_repeats(how: str, tmp_path: Path) -> None:
    result, heard = run(how, 0, tmp_path, evaluation__every=1, evaluation__episodes=30)
    assert result.state == "finished"
    paths = sorted((tmp_path / "run" / "failures").glob("*.json"))
    files = {
        path: values for path, values in zip(paths, recorded(tmp_path), strict=True) if values["group"] is None
    }
    assert len(files) == 3
    assert int(read_metrics(tmp_path / "run" / "metrics.csv")[-1]["failures/simulator"]) == len(paths) - 1
    path, values = next(iter(files.items()))
    place = f"episode {values['episode']}, seed {values['seed']}, step {values['step']})"
    assert [error for error, _ in heard.failures if f": {place}\n    muster play --replay {path}" in error]
    with pytest.raises(SimulatorError, match="the same failure again"):
        list(replay(read_recorded(path)))


def test_a_failure_of_the_command_evaluate_is_recorded_and_repeats(tmp_path: Path) -> None:
    run("raise", 0, tmp_path / "runs", env__config={"how": "raise", "every": 2**31})
    experiment = tmp_path / "runs" / "run" / "experiment.toml"
    experiment.write_text(experiment.read_text().replace(str(2**31), "5"))
    done = muster("evaluate", "run", "--episodes", "30", cwd=tmp_path)
    assert done.returncode == 3
    (path,) = (tmp_path / "runs" / "run" / "failures").glob("*.json")
    values = json.loads(path.read_text())
    assert values["step"] == FAILS_AT == len(values["actions"]) - 1
    assert f"seed {values['seed']}, step {FAILS_AT})\n    muster play --replay runs/run/failures/" in done.stderr
    assert 'raise RuntimeError("the pump broke")' in done.stderr
    again = muster("play", "--replay", path, cwd=tmp_path)
    assert again.returncode == 3
    assert "RuntimeError: the pump broke (the same failure again)" in again.stderr


@pytest.mark.long
@pytest.mark.parametrize(("how", "code"), [("os._exit", 7), ("segfault", -11), ("hang", 3)])
def test_a_replay_repeats_what_ended_a_worker(
    how: str, code: int, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    run(how, 2, tmp_path)
    process = start_muster("play", "--replay", tmp_path / "run" / "failures" / "0001.json", cwd=tmp_path)
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if how == "hang" and line.startswith(f"step {FAILS_AT}:"):
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code, errors
    assert seen[-1].startswith(f"step {FAILS_AT}: action ")
    assert "time.sleep(60)" in errors or how != "hang"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", ["raise", "os._exit"])
def test_too_many_failures_stop_the_run_with_a_checkpoint(
    how: str, workers: int, tmp_path: Path, ray_with_four_cpus: None
) -> None:
    if how == "os._exit" and workers == 0:
        pytest.skip("ends this process")
    with pytest.raises(SimulatorError, match=r"more than env.max_failures = 1") as caught:
        rare = {"how": how, "every": 31}
        run(how, workers, tmp_path, env__config=rare, env__max_failures=1, stop__iterations=50)
    assert caught.value.result.exit_code == 3
    assert caught.value.result.checkpoint is not None
    assert len(recorded(tmp_path)) > 1


@pytest.mark.parametrize(("how", "state"), [("hang in build", None), ("hang in close", "finished")])
def test_ctrl_c_is_heeded_at_once_while_a_simulator_is_built_or_closed(
    how: str, state: str | None, tmp_path: Path
) -> None:
    settings = {**overrides(how, 0), "env.step_timeout": None}
    flags = [f"--set={key}={json.dumps(value)}" for key, value in settings.items() if value is not None]
    flags = [flag for flag in flags if "env.config" not in flag] + [f"--set=env.config.how={how}"]
    process = start_muster("train", "tests.misbehaving:Misbehaving", *flags, cwd=tmp_path)
    status = tmp_path / "runs" / "run" / "status.json"
    saved = tmp_path / "runs" / "run" / "checkpoints" / "00000003"
    wait_until(lambda: state is None or saved.exists(), "the last checkpoint")
    time.sleep(2)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert process.returncode == (130 if state is None else 0)
    assert state is None or json.loads(status.read_text())["state"] == state


@pytest.mark.parametrize("how", ["mask", "mask of parts", "list"])
def test_what_check_passes_is_trained_in(how: str, tmp_path: Path) -> None:
    simulator = ["tests.misbehaving:Odd", "--set", f"env.config.how={how}"]
    checked = muster("check", *simulator, cwd=tmp_path)
    trained = muster("train", *simulator, "--workers", "0", "--stop-iterations", "1", "--quiet", cwd=tmp_path)
    assert (checked.returncode, trained.returncode) == (0, 0), checked.stderr + trained.stderr


@pytest.mark.long
def test_a_simulator_whose_copy_dies_is_trained_in_all_the_same(tmp_path: Path) -> None:
    simulator = "tests.misbehaving:CopyDies"
    checked = muster("check", simulator, cwd=tmp_path)
    trained = muster("train", simulator, "--workers", "1", "--stop-iterations", "1", cwd=tmp_path)
    assert "the process exited with code 9" in checked.stdout
    assert trained.returncode == 0, trained.stderr
    assert "resuming will begin new episodes" in trained.stdout


def test_a_replay_in_a_simulator_that_takes_other_actions_is_refused(tmp_path: Path) -> None:
    run("raise", 0, tmp_path)
    path = tmp_path / "run" / "failures" / "0001.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "actions": [[0, 1] for _ in record["actions"]]}))
    done = muster("play", "--replay", path, cwd=tmp_path)
    assert done.returncode == 2
    assert "action 0, [0, 1], does not fit the simulator's action space Discrete(2)" in done.stderr
    assert "Traceback" not in done.stderr
