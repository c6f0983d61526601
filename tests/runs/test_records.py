"""Lock, status, metrics and events of a run folder."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from muster.errors import InputError, RunLockedError, StorageError
from muster.runs.events import EventLog
from muster.runs.files import explained, last_json_line, read_json_lines
from muster.runs.finding import claim_folder, find_run, list_runs, newest_name
from muster.runs.folder import RunFolder, default_name
from muster.runs.lock import RunLock
from muster.runs.metrics import MetricsRecord, read_metrics, read_sampled_metrics
from muster.runs.reading import read_run
from muster.runs.status import Status, StatusFile, read_status
from tests.runs.tiny import made_run


def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from muster.runs.lock import RunLock\n"
        f"with RunLock(Path({str(tmp_path / 'lock')!r})):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(RunLockedError, match=f"pid {holder.pid} on"), RunLock(tmp_path / "lock"):
        pass
    holder.kill()
    holder.wait()
    with RunLock(tmp_path / "lock"):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()


def test_a_fresh_heartbeat_of_another_host_counts_as_its_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"host": "elsewhere", "pid": 1}\n')
    status = {"state": "running", "updated": time.time()}
    (tmp_path / "status.json").write_text(json.dumps(status))

    def beat(_: str) -> None:
        (tmp_path / "status.json").write_text(json.dumps({**status, "updated": time.time() + 1}))

    with pytest.raises(RunLockedError, match="pid 1 on elsewhere"), RunLock(tmp_path / "lock", beat):
        pass
    noticed: list[str] = []
    (tmp_path / "status.json").write_text(json.dumps({**status, "updated": time.time() - 59}))
    with RunLock(tmp_path / "lock", noticed.append):
        assert "elsewhere may still write" in noticed[0]


def test_status_has_the_contract_s_keys_and_a_heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.runs.status.HEARTBEAT_SECONDS", 0.01)
    file = StatusFile(tmp_path / "status.json", "name")
    first = json.loads((tmp_path / "status.json").read_text())
    expected = (
        "state reason run iteration steps return_mean updated host pid scheduler job_id link exit_code launch"
    )
    assert list(first) == expected.split()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        status = read_status(tmp_path / "status.json")
        if status and status.updated > first["updated"]:
            break
    else:
        pytest.fail("no heartbeat")
    file.close(state="finished", exit_code=0)
    last = read_status(tmp_path / "status.json")
    assert last is not None
    assert (last.state, last.exit_code) == ("finished", 0)


def test_a_live_state_without_heartbeat_is_lost() -> None:
    assert Status("running", updated=time.time() - 61).shown_state == "lost"
    assert Status("running", updated=time.time()).shown_state == "running"
    assert Status("finished", updated=0).shown_state == "finished"


def row(iteration: int) -> dict[str, float | int | None]:
    return {
        "iteration": iteration,
        "steps": 100 * iteration,
        "return/mean": None,
        "policy/kl": 0.25,
        "time/total": 1.5,
    }


def test_metrics_are_cut_at_the_checkpoint_and_torn_rows_dropped(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    record = MetricsRecord(folder, ["policy/kl"], 0)
    for iteration in (1, 2, 3):
        record.append(row(iteration))
    record.close()
    complete = folder.metrics.read_text().splitlines()
    assert complete[0].startswith("iteration,steps,episodes,return/mean,return/min,return/max,length/mean,")
    assert complete[0].endswith("policy/kl,time/total,time/sample,time/learn,time/wait")
    assert complete[1] == "1,100,,,,,,,,0.25,1.5,,,"
    with folder.metrics.open("a") as file:
        file.write("4,40")
    assert len(read_metrics(folder.metrics)) == 3
    record = MetricsRecord(folder, ["policy/kl"], 2)
    record.append(row(3))
    record.close()
    assert folder.metrics.read_text().splitlines() == complete


def test_tensorboard_reads_the_same_names(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    record = MetricsRecord(RunFolder(tmp_path), ["policy/kl"], 0)
    record.append(row(1))
    record.append(row(2))
    record.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"steps", "policy/kl", "time/total"}
    assert [event.step for event in events.Scalars("policy/kl")] == [100, 200]


def test_failures_have_a_file_each(tmp_path: Path) -> None:
    log = EventLog(RunFolder(tmp_path))
    assert log.add_failure({"error": "one"}).name == "0001.json"
    assert log.add_failure({"error": "two"}).name == "0002.json"
    events = read_json_lines(tmp_path / "events.jsonl")
    assert [event["file"] for event in events] == ["failures/0001.json", "failures/0002.json"]


def test_a_full_disk_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"No space left on device\n +free some space"), explained(tmp_path):
        Path("/dev/full").write_text("x")


def make_run(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "experiment.toml").write_text("")
    (path / "sources.json").write_text("{}")


def test_runs_are_found_by_name_and_folder(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    make_run(tmp_path / "runs" / "many" / "seed-0")
    assert find_run("one", tmp_path / "runs").path == tmp_path / "runs" / "one"
    assert find_run(tmp_path / "runs" / "one", tmp_path).name == "one"
    assert {folder.name for folder in list_runs(tmp_path / "runs")} == {"one", "seed-0"}
    with pytest.raises(InputError, match=r"no run 'two'.*\n.*runs there: .*one"):
        find_run("two", tmp_path / "runs")
    for typed, near in (("onw", "one"), ("mny", "many"), ("many/sed-0", "many/seed-0")):
        with pytest.raises(InputError, match=f"did you mean {near!r}"):
            find_run(typed, tmp_path / "runs")


def test_an_experiment_file_alone_is_not_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiment.toml").write_text("")
    with pytest.raises(InputError, match="no run 'CartPole-v1'"):
        find_run("CartPole-v1", tmp_path / "runs")


def test_names_are_made_and_counted(tmp_path: Path) -> None:
    assert default_name("CartPole-v1", "PPO") == "cartpole-v1-ppo"
    assert default_name("/some/where/my_env.py:Own", "TRPO") == "my_env-own-trpo"
    assert default_name("ALE/Pong-v5", "PPO") == "pong-v5-ppo"
    assert default_name("ale_py:ALE/Pong-v5", "PPO") == "ale_py-pong-v5-ppo"
    assert default_name("heatpump.py:HeatPump", "PPO") == "heatpump-ppo"
    assert default_name("my_simulator:MySimulator", "PPO") == "mysimulator-ppo"
    assert default_name("plants.pump:PumpPlant", "PPO") == "pumpplant-ppo"
    assert default_name("highway_env:highway-v0", "PPO") == "highway-v0-ppo"
    assert default_name("envpool:CartPole-v1", "PPO") == "envpool-cartpole-v1-ppo"
    assert (newest_name("a", tmp_path), claim_folder("a", tmp_path).name) == (None, "a")
    for name in ("a-2", "a-10", "a-b"):
        (tmp_path / name).mkdir()
    assert (newest_name("a", tmp_path), claim_folder("a", tmp_path).name) == ("a-10", "a-11")


def long_metrics(path: Path, rows: int) -> None:
    """Write a `metrics.csv` whose return is its iteration."""
    lines = [
        "iteration,steps,episodes,return/mean,return/min,return/max,length/mean,failures/simulator,failures/worker"
    ]
    lines += [f"{number},{100 * number},1,{number},,,,0,0" for number in range(1, rows + 1)]
    path.write_text("\n".join(lines) + "\n")


def test_a_sample_of_many_rows_is_spread_evenly_and_ends_with_the_last(tmp_path: Path) -> None:
    long_metrics(tmp_path / "metrics.csv", 100_000)
    sample = read_sampled_metrics(tmp_path / "metrics.csv")
    assert len(sample) < 50_000
    assert sample.last() == read_metrics(tmp_path / "metrics.csv")[-1]
    returns = sample.numbers("return/mean")
    assert returns == sorted(returns)
    assert max(after - before for before, after in pairwise([0.0, *returns])) < 100_000 / 50
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("100001,5,torn")
    assert read_sampled_metrics(tmp_path / "metrics.csv").last()["iteration"] == "100000"


def test_a_sample_of_few_rows_is_all_of_them(tmp_path: Path) -> None:
    long_metrics(tmp_path / "metrics.csv", 50)
    assert read_sampled_metrics(tmp_path / "metrics.csv").numbers("steps") == [100.0 * n for n in range(1, 51)]


def test_damaged_rows_are_left_out_of_rows_columns_and_the_last(tmp_path: Path) -> None:
    long_metrics(tmp_path / "metrics.csv", 3)
    with (tmp_path / "metrics.csv").open("ab") as file:
        file.write(b"\0" * 10 + b"4,400,1,x,,,,0,0\r\n,,,\n-5,500,1,5,,,,0,0\n\xff\xfe\n")
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [row["iteration"] for row in rows] == ["1", "2", "3", "4"]
    assert rows.last() == rows[3]
    assert rows.last()["failures/worker"] == "0"
    assert rows.numbers("return/mean") == [1.0, 2.0, 3.0]
    assert [math.isnan(value) for value in rows.values("return/mean")] == [False, False, False, True]
    assert rows.numbers("no/such") == []


def test_the_last_line_of_a_file_is_found_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert last_json_line(path) is None
    path.write_text("".join(f'{{"event": {n}}}\n' for n in range(20_000)) + '[1]\n{"event": "torn')
    assert last_json_line(path) == {"event": 19_999}


def resumed_metrics(folder: RunFolder, last_iteration: int) -> list[dict[str, str]]:
    """Return the rows after a run was continued from an iteration."""
    record = MetricsRecord(folder, (), last_iteration)
    record.append({"iteration": last_iteration + 1, "steps": 64 * (last_iteration + 1), "return/mean": 9.5})
    record.close()
    return list(read_metrics(folder.metrics))


def test_metrics_with_the_mark_that_excel_puts_first_are_read_and_kept(tmp_path: Path) -> None:
    folder = RunFolder(made_run(tmp_path / "run"))
    folder.metrics.write_text(folder.metrics.read_text(), encoding="utf-8-sig")
    assert [row["return/mean"] for row in resumed_metrics(folder, 2)] == ["1.5", "2.5", "9.5"]


def test_metrics_of_a_version_with_fewer_columns_are_read_and_kept(tmp_path: Path) -> None:
    folder = RunFolder(made_run(tmp_path / "run"))
    lines = [line.split(",")[:5] for line in folder.metrics.read_text().splitlines()]
    folder.metrics.write_text("".join(",".join(line) + "\n" for line in lines))
    assert not (record := read_run(folder)).problems
    assert (record.last_row["return/mean"], record.last_row["failures/worker"]) == ("2.5", "")
    rows = resumed_metrics(folder, 2)
    assert [row["return/mean"] for row in rows] == ["1.5", "2.5", "9.5"]
    assert [row["failures/worker"] for row in rows] == ["", "", ""]


def test_metrics_that_cannot_be_read_are_not_written_over(tmp_path: Path) -> None:
    folder = RunFolder(made_run(tmp_path / "run"))
    folder.metrics.write_text("Iteration;Steps\n1;64\n")
    with pytest.raises(StorageError, match="does not begin with the names of the columns"):
        MetricsRecord(folder, (), 2)
    assert folder.metrics.read_text() == "Iteration;Steps\n1;64\n"
