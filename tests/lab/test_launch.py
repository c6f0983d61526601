"""`muster launch` on real hosts: under MPI, under Slurm, and when things go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster.runs.metrics import read_metrics
from tests.commands import policy_bytes, timeless_metrics
from tests.lab.cluster import Lab
from tests.lab.gridengine import GridEngine
from tests.lab.host import Host
from tests.lab.mpi import Mpi
from tests.lab.slurm import Slurm
from tests.lab.sshd import Sshd

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

MUSTER = str(Path(sys.executable).with_name("muster"))
TELL = "tell.py"
TELL_CODE = """
import json, os, sys, ray
ray.init(logging_level="error")
nodes = [n for n in ray.nodes() if n["Alive"]]
found = {
    "hosts": sorted(n["NodeManagerHostname"] for n in nodes),
    "cpus": {n["NodeManagerHostname"]: n["Resources"].get("CPU") for n in nodes},
    "address": os.environ["RAY_ADDRESS"],
    "argument": sys.argv[2],
    "affinity": len(os.sched_getaffinity(0)),
    "mpi": [name for name in os.environ if name.startswith(("OMPI_", "PMI_", "PMIX_"))],
}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(found) + "\\n")
sys.exit(int(sys.argv[3]))
"""


def tell(shared: Path, code: int = 0) -> list[str]:
    """Return a command that writes what it sees of Ray and ends with a code."""
    (shared / TELL).write_text(TELL_CODE)
    return [sys.executable, str(shared / TELL), str(shared / "told"), "{ray_address}", str(code)]


def told(shared: Path) -> dict[str, Any]:
    """Return what the command wrote; it must have run exactly once."""
    lines = (shared / "told").read_text().splitlines()
    assert len(lines) == 1
    found: dict[str, Any] = json.loads(lines[0])
    return found


def leftovers(host: Host) -> list[str]:
    """Return what is left of a launch on a host: processes and temporary folders."""
    names = ("ray.scripts", "gcs_server", "raylet", "keeper_process.py", "muster launch", "ray::")
    commands = [" ".join(process.command) for process in host.processes()]
    left = [command for command in commands if any(name in command for name in names)]
    return left + [str(path) for path in host.path("/tmp").glob("muster-*/owner")]


def assert_nothing_is_left(hosts: list[Host], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while any(leftovers(host) for host in hosts):
        assert time.monotonic() < deadline, {host.name: leftovers(host) for host in hosts}
        time.sleep(0.2)


def launch(shared: Path, *flags: str) -> list[str]:
    return [MUSTER, "launch", "--runs-dir", str(shared / "runs"), *flags, "--"]


@pytest.mark.long
def test_mpi_over_three_hosts_with_two_ranks_each(lab: Lab, mpi: Mpi, shared: Path) -> None:
    command = [*launch(shared), *tell(shared, code=5)]
    done = lab.nodes[0].run(mpi.command(lab.nodes, 2, command), env=mpi.env, check=False, limit_s=120)
    assert done.returncode == 5, done.stdout + done.stderr
    found = told(shared)
    assert found["hosts"] == ["node1", "node2", "node3"]
    assert found["argument"] == found["address"]
    assert not found["address"].startswith("127.")
    assert found["mpi"] == []
    assert_nothing_is_left(lab.nodes)


def test_several_ranks_on_one_host_share_one_ray_with_all_their_cpus(lab: Lab, mpi: Mpi, shared: Path) -> None:
    host = lab.nodes[0]
    command = mpi.command([host], 4, [*launch(shared), *tell(shared)])
    done = host.run(command, env=mpi.env, check=False, limit_s=90)
    assert done.returncode == 0, done.stdout + done.stderr
    found = told(shared)
    assert found["hosts"] == ["node1"]
    assert found["cpus"] == {"node1": float(os.cpu_count() or 1)}
    assert found["affinity"] == os.cpu_count()
    assert_nothing_is_left([host])


def test_slurm_from_a_job_script(lab: Lab, slurm: Slurm, shared: Path) -> None:
    line = " ".join(["srun", *launch(shared), *tell(shared, code=3)])
    job = slurm.submit(f"#!/bin/sh\n{line}\n", "--nodes=3", "--ntasks-per-node=1", f"--output={shared}/out")
    state = slurm.wait_for_state(job, "COMPLETED", "FAILED")
    output = (shared / "out").read_text()
    assert state == "FAILED", output
    assert told(shared)["hosts"] == ["node1", "node2", "node3"], output
    assert_nothing_is_left(lab.nodes)


@pytest.mark.long
def test_slurm_from_the_job_script_s_own_shell(lab: Lab, slurm: Slurm, shared: Path) -> None:
    line = " ".join([*launch(shared), *tell(shared)])
    job = slurm.submit(f"#!/bin/sh\n{line}\n", "--nodes=3", f"--output={shared}/out")
    state = slurm.wait_for_state(job, "COMPLETED", "FAILED")
    assert state == "COMPLETED", (shared / "out").read_text()
    assert told(shared)["hosts"] == ["node1", "node2", "node3"]


@pytest.mark.long
def test_a_smaller_step_and_a_share_of_the_cpus(lab: Lab, slurm: Slurm, shared: Path) -> None:
    line = " ".join(["srun -N2 -n2 --cpus-per-task=1", *launch(shared), *tell(shared)])
    job = slurm.submit(
        f"#!/bin/sh\n{line}\n", "--nodes=3", "--ntasks-per-node=1", "--cpus-per-task=1", f"--output={shared}/out"
    )
    state = slurm.wait_for_state(job, "COMPLETED", "FAILED")
    assert state == "COMPLETED", (shared / "out").read_text()
    assert set(told(shared)["cpus"].values()) == {1.0}
    assert len(told(shared)["hosts"]) == 2


RATIO = Path(__file__).parents[2] / "examples" / "ratio" / "ratio.toml"
TRAIN = ["train", str(RATIO), "--stop-iterations", "6", "--set", "resources.env_groups=6"]


def start_sleeping(host: Host, shared: Path, *flags: str, hosts: list[Host], mpi: Mpi) -> subprocess.Popen[str]:
    """Start a launch whose command sleeps, and wait until the command runs."""
    script = shared / "sleep.py"
    script.write_text("import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(600)\n")
    command = [*launch(shared, *flags), sys.executable, str(script), str(shared / "sleeping")]
    log = (shared / "launch.log").open("w")
    process = host.popen(mpi.command(hosts, 1, command), env=mpi.env, stdout=log, stderr=log)
    wait_for_file(shared / "sleeping", shared / "launch.log")
    return process


def wait_for_file(path: Path, log: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def timeline(shared: Path) -> list[dict[str, Any]]:
    [path] = (shared / "runs" / "launches").glob("*/bring-up.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def events_of(records: Path, host: str) -> list[dict[str, Any]]:
    """Return what has happened on a host in a launch that has not ended."""
    return [json.loads(line) for line in (records / f".{host}.bring-up.jsonl").read_text().splitlines()]


def test_training_over_three_hosts_is_the_laptop_s_to_the_bit(lab: Lab, slurm: Slurm, shared: Path) -> None:
    host = lab.nodes[0]
    alone = [MUSTER, *TRAIN, "--workers", "0", "--name", "alone", "--runs-dir", str(shared / "runs")]
    host.run(alone, limit_s=120)
    train = [MUSTER, *TRAIN, "--workers", "6", "--name", "launched", "--runs-dir", str(shared / "runs")]
    line = " ".join(["srun", *launch(shared), *train])
    job = slurm.submit(f"#!/bin/sh\n{line}\n", "--nodes=3", "--cpus-per-task=4", f"--output={shared}/out")
    watched: set[str] = set()
    deadline = time.monotonic() + 90
    while slurm.state(job) in ("PENDING", "RUNNING", "COMPLETING") and time.monotonic() < deadline:
        watched |= {h.name for h in lab.nodes if any("ray::Worker" in " ".join(p.command) for p in h.processes())}
        time.sleep(0.1)
    assert slurm.wait_for_state(job, "COMPLETED", "FAILED") == "COMPLETED", (shared / "out").read_text()
    assert watched == {"node1", "node2", "node3"}
    runs = shared / "runs"
    assert timeless_metrics(runs / "alone") == timeless_metrics(runs / "launched")
    assert policy_bytes(runs / "alone") == policy_bytes(runs / "launched")


def test_cancelling_a_job_leaves_nothing(lab: Lab, slurm: Slurm, shared: Path) -> None:
    line = " ".join(["srun", *launch(shared), "sh", "-c", f"'touch {shared}/running; sleep 600'"])
    job = slurm.submit(f"#!/bin/sh\n{line}\n", "--nodes=3", "--ntasks-per-node=1", f"--output={shared}/out")
    wait_for_file(shared / "running", shared / "out")
    slurm.cancel(job)
    assert_nothing_is_left(lab.nodes)


def test_the_launcher_killed_leaves_nothing(lab: Lab, open_mpi: Mpi, shared: Path) -> None:
    process = start_sleeping(lab.nodes[0], shared, hosts=lab.nodes, mpi=open_mpi)
    for host in lab.nodes:
        for running in host.processes():
            if "launch" in running.command and "mpirun" not in running.command[0]:
                with suppress(ProcessLookupError):
                    os.kill(running.pid, signal.SIGKILL)
    assert_nothing_is_left(lab.nodes)
    process.wait(timeout=20)


@pytest.mark.long
def test_the_head_s_rank_killed_ends_the_others(lab: Lab, shared: Path) -> None:
    env = {"MUSTER_HOSTS": "node1,node2", "MUSTER_LAUNCH_ID": "beheaded"}
    command = [*launch(shared), "sh", "-c", f"touch {shared}/running; sleep 300"]
    processes = [host.popen(command, env=env) for host in lab.nodes[:2]]
    wait_for_file(shared / "running", shared / "running")
    [rank] = [p for p in lab.nodes[0].processes() if MUSTER in p.command]
    os.kill(rank.pid, signal.SIGKILL)
    assert_nothing_is_left(lab.nodes)
    assert processes[1].wait(timeout=5) == 4
    assert not list((shared / "runs" / "launches").glob("*/meeting"))


@pytest.mark.long
def test_a_run_whose_ray_is_lost_is_saved(lab: Lab, shared: Path) -> None:
    train = [MUSTER, "train", "CartPole-v1", "--workers", "2", "--stop-time", "200s", "--name", "run"]
    flags = ["--set", "checkpoint.every=1000", "--set", "checkpoint.every_time=1h", "--runs-dir", str(shared)]
    log = shared / "log"
    process = lab.nodes[0].popen([*launch(shared), *train, *flags], stderr=log.open("w"))
    wait_for_file(shared / "run" / "metrics.csv", log)
    time.sleep(3)
    [gcs] = [p for p in lab.nodes[0].processes() if p.name == "gcs_server"]
    os.kill(gcs.pid, signal.SIGKILL)
    assert process.wait(timeout=20) in (1, 4), "the command's code, or that of the launch if it noticed first"
    assert "Ray ended while it was in use" in log.read_text() or "Ray's head exited" in log.read_text()
    rows = read_metrics(shared / "run" / "metrics.csv")
    assert (shared / "run" / "checkpoints" / "latest").resolve().name == f"{int(rows[-1]['iteration']):08d}"
    assert_nothing_is_left(lab.nodes[:1])


def test_a_signal_reaches_the_command_once(lab: Lab, shared: Path) -> None:
    script = shared / "count.py"
    script.write_text(
        "import signal, sys, time\n"
        "def note(number, frame):\n"
        "    open(sys.argv[1] + '.signals', 'a').write(f'{number}\\n')\n"
        "signal.signal(signal.SIGTERM, note)\nopen(sys.argv[1], 'w').close()\n"
        "end = time.time() + 3\n"
        "while time.time() < end: time.sleep(0.1)\nsys.exit(9)\n"
    )
    command = [*launch(shared), sys.executable, str(script), str(shared / "counting")]
    process = lab.nodes[0].popen(command)
    wait_for_file(shared / "counting", script)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 9
    assert (shared / "counting.signals").read_text() == "15\n"
    assert_nothing_is_left(lab.nodes[:1])


@pytest.mark.long
def test_two_launches_on_the_same_hosts_and_a_foreign_ray(lab: Lab, open_mpi: Mpi, shared: Path) -> None:
    host = lab.nodes[0]
    foreign = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port=6379", "--num-cpus=1"]
    foreign += ["--include-dashboard=false", "--memory=500000000", "--object-store-memory=100000000"]
    host.run(foreign, env={"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}, limit_s=60)
    before = {p.pid for p in host.processes() if "gcs_server" in " ".join(p.command)}
    processes = []
    for name in ("one", "two"):
        folder = shared / name
        folder.mkdir()
        command = open_mpi.command(lab.nodes[:2], 1, [*launch(folder), *tell(folder)])
        env = {**open_mpi.env, "RAY_ADDRESS": f"{host.address}:6379"}
        processes.append(host.popen(command, env=env))
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    addresses = set()
    for name in ("one", "two"):
        found = told(shared / name)
        assert found["hosts"] == ["node1", "node2"]
        addresses.add(found["address"])
    assert len(addresses | {f"{host.address}:6379"}) == 3
    assert before == {p.pid for p in host.processes() if "gcs_server" in " ".join(p.command)}
    assert list(host.path("/tmp").glob("ray"))


def test_the_token_is_in_no_command_line_and_nobody_gets_in_without_it(
    lab: Lab, open_mpi: Mpi, shared: Path
) -> None:
    process = start_sleeping(lab.nodes[0], shared, hosts=lab.nodes, mpi=open_mpi)
    [meeting] = (shared / "runs" / "launches").glob("*/meeting")
    assert oct(meeting.stat().st_mode)[-3:] == "700"
    assert {oct(path.stat().st_mode)[-3:] for path in meeting.iterdir()} == {"600"}
    [token_file] = lab.nodes[1].path("/tmp").glob("muster-*/token")
    assert oct(token_file.stat().st_mode)[-3:] == "600"
    assert oct(token_file.parent.stat().st_mode)[-3:] == "700"
    secrets = [token_file.read_text(), (meeting / "secret").read_text()]
    for host in lab.nodes:
        commands = [" ".join(p.command) for p in host.processes()]
        assert not [command for command in commands if any(secret in command for secret in secrets)]
    [started] = [event for event in events_of(meeting.parent, "node1") if event["event"] == "head started"]
    address = started["address"]
    code = (
        f"from ray._raylet import GcsClient\nprint(GcsClient(address={address!r}).get_all_node_info(timeout=5))\n"
    )
    env = {"RAY_AUTH_MODE": "disabled"}
    refused = lab.nodes[1].run([sys.executable, "-c", code], env=env, user="nobody", check=False, limit_s=90)
    assert refused.returncode != 0
    assert "Unauthenticated" in refused.stderr or "AuthenticationError" in refused.stderr
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)
    assert_nothing_is_left(lab.nodes)


def test_a_host_that_never_comes_is_named(lab: Lab, slurm: Slurm, shared: Path) -> None:
    env = {"MUSTER_HOSTS": "node1,node2", "MUSTER_LAUNCH_ID": "lonely"}
    command = [*launch(shared, "--timeout", "8s"), "true"]
    done = lab.nodes[0].run(command, env=env, check=False, limit_s=60)
    assert done.returncode == 4
    assert "node2: no rank has checked in" in done.stderr, done.stderr
    assert_nothing_is_left(lab.nodes)


@pytest.mark.long
def test_a_worker_host_crashes_and_the_command_goes_on(lab: Lab, slurm: Slurm, shared: Path) -> None:
    env = {"MUSTER_HOSTS": "node1,node2,node3", "MUSTER_LAUNCH_ID": "crash"}
    script = shared / "wait.py"
    script.write_text("import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(55)\n")
    command = [*launch(shared), sys.executable, str(script), str(shared / "waiting")]
    log = (shared / "log").open("w")
    processes = [host.popen(command, env=env, stdout=log, stderr=log) for host in lab.nodes]
    wait_for_file(shared / "waiting", shared / "log")
    crashed = time.time()
    lab.nodes[2].crash()
    assert processes[0].wait(timeout=90) == 0, (shared / "log").read_text()
    assert processes[1].wait(timeout=20) == 0
    [lost] = [event for event in timeline(shared) if event["event"] == "host lost"]
    assert lost["name"] == "node3"
    assert lost["time"] - crashed < 45
    assert_nothing_is_left(lab.nodes[:2])


@pytest.mark.long
def test_a_worker_host_crashes_and_training_goes_on(lab: Lab, sshd: Sshd, shared: Path) -> None:
    train = [MUSTER, "train", "CartPole-v1", "--workers", "6", "--stop-time", "60s", "--name", "run"]
    log = shared / "log"
    process = lab.login.popen(
        [*launch(shared, "--cpus", "2"), *train, "--runs-dir", str(shared)],
        env={"MUSTER_HOSTS": "node1,node2,node3"},
        stderr=log.open("w"),
    )
    wait_for_file(shared / "run" / "metrics.csv", log)
    time.sleep(5)
    lab.nodes[2].crash()
    assert process.wait(timeout=120) == 0, log.read_text()
    rows = read_metrics(shared / "run" / "metrics.csv")
    assert int(rows[-1]["failures/worker"]) >= 2
    assert int(rows[-1]["failures/simulator"]) == 0
    assert json.loads((shared / "run" / "status.json").read_text())["state"] == "finished"


@pytest.mark.long
def test_the_head_s_host_crashes_and_the_others_leave(lab: Lab, slurm: Slurm, shared: Path) -> None:
    env = {"MUSTER_HOSTS": "node1,node2,node3", "MUSTER_LAUNCH_ID": "headless"}
    command = [*launch(shared), "sh", "-c", f"touch {shared}/running; sleep 300"]
    processes = [host.popen(command, env=env) for host in lab.nodes]
    wait_for_file(shared / "running", shared / "running")
    lab.nodes[0].crash()
    assert [process.wait(timeout=60) for process in processes[1:]] == [4, 4]
    assert_nothing_is_left(lab.nodes[1:])


@pytest.mark.long
def test_a_short_cut_does_not_lose_a_host(lab: Lab, slurm: Slurm, shared: Path) -> None:
    env = {"MUSTER_HOSTS": "node1,node2,node3", "MUSTER_LAUNCH_ID": "cut"}
    script = shared / "wait.py"
    script.write_text("import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\ntime.sleep(60)\n")
    command = [*launch(shared), sys.executable, str(script), str(shared / "waiting")]
    processes = [host.popen(command, env=env) for host in lab.nodes]
    wait_for_file(shared / "waiting", shared / "waiting")
    lab.nodes[2].cut()
    time.sleep(20)
    lab.nodes[2].mend()
    assert [process.wait(timeout=100) for process in processes] == [0, 0, 0]
    assert not [event for event in timeline(shared) if event["event"] == "host lost"]


@pytest.mark.long
def test_grid_engine_starts_the_ranks_through_open_mpi(lab: Lab, gridengine: GridEngine, shared: Path) -> None:
    command = " ".join([*launch(shared), *tell(shared)])
    script = f"#!/bin/sh\nmpirun.openmpi --allow-run-as-root --map-by ppr:1:node {command}\n"
    job = gridengine.submit(script, "-pe", "hosts", "12", "-j", "y", "-o", str(shared / "out"))
    gridengine.wait_for_end(job, limit_s=120)
    output = (shared / "out").read_text()
    assert (shared / "told").exists(), output
    assert told(shared)["hosts"] == ["node1", "node2", "node3"]
    assert_nothing_is_left(lab.nodes)
