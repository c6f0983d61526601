"""The ways into a launch: over ssh, from salloc, through Grid Engine's own shell, and without a shared folder."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.clusters.containers import charliecloud_flags
from tests.lab.cluster import Lab
from tests.lab.gridengine import GridEngine
from tests.lab.mpi import Mpi
from tests.lab.slurm import Slurm
from tests.lab.sshd import Sshd
from tests.lab.test_launch import (
    MUSTER,
    assert_nothing_is_left,
    launch,
    leftovers,
    tell,
    timeline,
    told,
    wait_for_file,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

HOSTS = ["node1", "node2", "node3"]
APART = "/tmp/apart"
"""A folder that every host has, each its own."""


@pytest.mark.long
def test_a_list_of_hosts_is_launched_over_ssh_from_outside(lab: Lab, sshd: Sshd, shared: Path) -> None:
    command = [*launch(shared), *tell(shared, code=6)]
    done = lab.login.run(command, env={"MUSTER_HOSTS": ",".join(HOSTS)}, check=False, limit_s=90)
    assert done.returncode == 6, done.stderr
    assert told(shared)["hosts"] == HOSTS
    assert_nothing_is_left([lab.login, *lab.nodes])


@pytest.mark.long
def test_a_launch_over_ssh_ends_with_the_one_who_started_it(lab: Lab, sshd: Sshd, shared: Path) -> None:
    script = shared / "count.py"
    script.write_text(
        "import signal, sys, time\n"
        "def note(number, frame):\n"
        "    open(sys.argv[1] + '.signals', 'a').write(f'{number}\\n')\n    sys.exit(9)\n"
        "signal.signal(signal.SIGTERM, note)\nopen(sys.argv[1], 'w').close()\ntime.sleep(300)\n"
    )
    env = {"MUSTER_HOSTS": ",".join(HOSTS)}
    log = shared / "log"
    for number in (signal.SIGTERM, signal.SIGKILL):
        running = shared / f"running-{number}"
        command = [*launch(shared), sys.executable, str(script), str(running)]
        process = lab.nodes[0].popen(command, env=env, stderr=log.open("w"))
        wait_for_file(running, log)
        starter = next(p for p in lab.nodes[0].processes() if MUSTER in p.command)
        subprocess.run(["kill", f"-{int(number)}", str(starter.pid)], check=True)
        code = process.wait(timeout=40)
        assert code == (9 if number == signal.SIGTERM else -signal.SIGKILL)
        assert_nothing_is_left(lab.nodes, seconds=15)
        assert (shared / f"{running.name}.signals").read_text() == "15\n"


def test_a_host_that_ssh_does_not_reach_is_named_at_once(lab: Lab, sshd: Sshd, shared: Path) -> None:
    env = {"MUSTER_HOSTS": "node1,no-such-host"}
    done = lab.nodes[0].run([*launch(shared, "--timeout", "60s"), "true"], env=env, check=False, limit_s=40)
    assert done.returncode == 4
    assert "no-such-host: no rank could be started: ssh exited with code 255" in done.stderr, done.stderr
    assert_nothing_is_left(lab.nodes)


def test_a_host_whose_disk_is_full_is_named_at_once(lab: Lab, sshd: Sshd, shared: Path) -> None:
    used = lab.host("node2").run(["df", "--output=iused", "/tmp"]).stdout.split()[-1]
    lab.host("node2").run(["mount", "-o", f"remount,nr_inodes={used}", "/tmp"])
    started = time.monotonic()
    try:
        env = {"MUSTER_HOSTS": "root@node1,root@node2"}
        done = lab.nodes[0].run([*launch(shared, "--timeout", "100s"), "true"], env=env, check=False, limit_s=60)
    finally:
        lab.host("node2").run(["mount", "-o", "remount,nr_inodes=0", "/tmp"])
    assert done.returncode == 4
    assert "node2: /tmp: no temporary folder can be made there: No space left on device" in done.stderr, (
        done.stderr
    )
    assert time.monotonic() - started < 30
    assert_nothing_is_left(lab.nodes)


def test_a_rank_that_is_killed_during_bring_up_is_named(lab: Lab, sshd: Sshd, shared: Path) -> None:
    env = {"MUSTER_HOSTS": ",".join([*HOSTS, "node9"]), "MUSTER_LAUNCH_ID": "killed"}
    log = shared / "log"
    head, other = (host.popen([*launch(shared), "true"], env=env, stderr=log.open("a")) for host in lab.nodes[:2])
    wait_for_file(shared / "runs" / "launches" / "killed" / "logs" / "node2.log", log)
    [rank] = [p for p in lab.nodes[1].processes() if MUSTER in p.command]
    subprocess.run(["kill", "-9", str(rank.pid)], check=True)
    assert head.wait(timeout=30) == 4
    assert other.wait(timeout=10) == 137
    assert "node2: its rank has exited or was killed" in log.read_text()
    assert_nothing_is_left(lab.nodes)


@pytest.mark.parametrize("on", ["node1", "node2"])
def test_a_signal_during_bring_up_ends_all_hosts(lab: Lab, shared: Path, on: str) -> None:
    env = {"MUSTER_HOSTS": "node1,node2,node9", "MUSTER_LAUNCH_ID": "waiting"}
    log = shared / "log"
    ranks = {h.name: h.popen([*launch(shared), "true"], env=env, stderr=log.open("a")) for h in lab.nodes[:2]}
    wait_for_file(shared / "runs" / "launches" / "waiting" / "logs" / "node2.log", log)
    ranks[on].send_signal(signal.SIGTERM)
    assert [rank.wait(timeout=15) for rank in ranks.values()] == [143, 143], log.read_text()
    assert_nothing_is_left(lab.nodes)
    assert not list((shared / "runs" / "launches").glob("*/meeting"))


@pytest.mark.long
def test_a_named_cluster_has_hosts_setup_and_what_to_unset(lab: Lab, sshd: Sshd, shared: Path) -> None:
    (shared / "muster.toml").write_text(
        '[clusters.three]\nhosts = ["node1", "node2", "node3"]\ncpus = 1\n'
        'setup = ["export FROM_SETUP=yes"]\nunset = ["LD_PRELOAD"]\n'
    )
    script = "import os, json; print(json.dumps({n: os.environ.get(n) for n in ('FROM_SETUP', 'LD_PRELOAD')}))"
    flags = ["--cluster", "three", "--runs-dir", str(shared / "runs")]
    command = [MUSTER, "launch", *flags, "--", sys.executable, "-c", script]
    done = lab.nodes[0].run(command, cwd=shared, env={"LD_PRELOAD": ""}, check=False, limit_s=90)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"FROM_SETUP": "yes", "LD_PRELOAD": None}
    [all_in] = [event for event in timeline(shared) if event["event"] == "all in"]
    assert (all_in["hosts"], all_in["cpus"]) == (3, 3)


@pytest.mark.long
def test_from_salloc_the_ranks_are_started_by_slurm(lab: Lab, slurm: Slurm, shared: Path) -> None:
    command = ["salloc", "--nodes=3", "--ntasks-per-node=1", *launch(shared), *tell(shared, code=7)]
    done = lab.login.run(command, check=False, limit_s=90)
    assert done.returncode == 7, done.stderr
    assert told(shared)["hosts"] == HOSTS
    assert_nothing_is_left([lab.login, *lab.nodes])


@pytest.mark.long
def test_term_to_a_launch_in_a_job_s_shell_reaches_the_command_and_not_srun(
    lab: Lab, slurm: Slurm, shared: Path
) -> None:
    running, script = shared / "running", shared / "wait.sh"
    script.write_text(f"trap 'echo saved >{shared}/saved; exit 9' TERM\ntouch {running}\nsleep 300 & wait\n")
    command = ["salloc", "--nodes=3", "--ntasks-per-node=1", *launch(shared), "sh", str(script)]
    log = shared / "log"
    process = lab.login.popen(command, stderr=log.open("w"))
    wait_for_file(running, log)
    [outer] = [p for p in lab.login.processes() if p.command[1:3] == (MUSTER, "launch")]
    subprocess.run(["kill", str(outer.pid)], check=True)
    assert process.wait(timeout=30) == 9, log.read_text()
    assert (shared / "saved").exists()
    assert_nothing_is_left([lab.login, *lab.nodes])


def test_term_to_a_launch_that_has_no_head_yet_has_its_code(lab: Lab, slurm: Slurm, shared: Path) -> None:
    env = {"MUSTER_RUN_DIR": str(shared)}
    command = ["salloc", "--nodes=1", MUSTER, "launch", "--head", "nowhere", "--", "true"]
    process = lab.login.popen(command, env=env, stderr=(shared / "log").open("w"))
    wait_for_file(shared / "launches", shared / "log")
    [outer] = [p for p in lab.login.processes() if p.command[1:3] == (MUSTER, "launch")]
    subprocess.run(["kill", str(outer.pid)], check=True)
    assert process.wait(timeout=30) == 143, (shared / "log").read_text()
    assert_nothing_is_left([lab.login, *lab.nodes])


@pytest.mark.long
def test_without_a_shared_folder_the_ranks_meet_at_an_address(lab: Lab, slurm: Slurm, shared: Path) -> None:
    flags = ["--head-address", "node2:20100", "--timeout", "60s"]
    line = " ".join(["srun", MUSTER, "launch", "--runs-dir", APART, *flags, "--", *tell(shared, code=3)])
    script = f"#!/bin/sh\nexport MUSTER_LAUNCH_TOKEN=a-secret-of-ours\n{line}\n"
    job = slurm.submit(script, "--nodes=3", "--ntasks-per-node=1", f"--output={shared}/out")
    assert slurm.wait_for_state(job, "COMPLETED", "FAILED", limit_s=90) == "FAILED"
    output = (shared / "out").read_text()
    assert told(shared)["hosts"] == HOSTS, output
    assert told(shared)["address"].startswith(str(lab.host("node2").address))
    [joined] = lab.host("node2").path(APART).glob("launches/*/bring-up.jsonl")
    events = [json.loads(event) for event in joined.read_text().splitlines()]
    assert {event["host"] for event in events} == set(HOSTS)
    assert_nothing_is_left(lab.nodes)


@pytest.mark.long
def test_an_address_without_a_secret_or_with_another_is_refused(lab: Lab, shared: Path) -> None:
    env = {"MUSTER_HOSTS": "node1,node2", "MUSTER_LAUNCH_ID": "secrets"}
    command = [MUSTER, "launch", "--runs-dir", APART, "--head-address", "node1:20100", "--timeout", "20s", "--"]
    done = lab.nodes[0].run([*command, "true"], env=env, check=False, limit_s=30)
    assert done.returncode == 4
    assert "set MUSTER_LAUNCH_TOKEN to the same new value on all ranks" in done.stderr
    head = lab.nodes[0].popen([*command, "true"], env={**env, "MUSTER_LAUNCH_TOKEN": "one"})
    other = lab.nodes[1].run(
        [*command, "true"], env={**env, "MUSTER_LAUNCH_TOKEN": "two"}, check=False, limit_s=40
    )
    assert other.returncode == 4
    assert "it has another secret" in other.stderr, other.stderr
    assert head.wait(timeout=40) == 4
    assert_nothing_is_left(lab.nodes)


@pytest.mark.long
def test_without_a_shared_folder_mpi_tells_the_ranks_where_to_meet(lab: Lab, open_mpi: Mpi, shared: Path) -> None:
    command = [MUSTER, "launch", "--runs-dir", APART, "--timeout", "60s", "--", *tell(shared, code=5)]
    done = lab.nodes[0].run(open_mpi.command(lab.nodes, 2, command), env=open_mpi.env, check=False, limit_s=120)
    assert done.returncode == 5, done.stdout + done.stderr
    assert told(shared)["hosts"] == HOSTS
    assert not list(lab.host("node2").path(APART).glob("launches/*/meeting"))
    assert_nothing_is_left(lab.nodes)


@pytest.mark.long
def test_a_host_whose_way_to_the_head_is_closed_says_so(lab: Lab, shared: Path) -> None:
    head, other = lab.nodes[:2]
    env = {"MUSTER_HOSTS": "node1,node2", "MUSTER_LAUNCH_ID": "closed"}
    command = [*launch(shared, "--timeout", "15s", "--interface", "10.77.0.0/24"), "true"]
    other.run(["ip", "route", "add", "unreachable", str(head.address)])
    try:
        follower = other.popen(command, env=env, stderr=subprocess.DEVNULL)
        done = head.run(command, env=env, check=False, limit_s=60)
        assert done.returncode == 4
        assert f"node2: its rank cannot reach the head: {head.address}:" in done.stderr, done.stderr
        assert "No route to host" in done.stderr
        assert follower.wait(timeout=30) == 4
    finally:
        other.run(["ip", "route", "del", "unreachable", str(head.address)])
    assert_nothing_is_left(lab.nodes)


@pytest.mark.long
def test_grid_engine_s_own_shell_starts_the_ranks(lab: Lab, gridengine: GridEngine, shared: Path) -> None:
    line = " ".join([*launch(shared), *tell(shared)])
    job = gridengine.submit(f"#!/bin/sh\n{line}\n", "-pe", "hosts", "12", "-j", "y", "-o", str(shared / "out"))
    gridengine.wait_for_end(job, limit_s=120)
    output = (shared / "out").read_text()
    assert (shared / "told").exists(), output
    assert told(shared)["hosts"] == HOSTS
    assert_nothing_is_left(lab.nodes)


@pytest.mark.long
def test_nothing_of_these_ways_is_in_a_process_list(lab: Lab, sshd: Sshd, shared: Path) -> None:
    env = {"MUSTER_HOSTS": ",".join(HOSTS), "MUSTER_LAUNCH_TOKEN": "a-secret-of-ours"}
    running = shared / "running"
    command = [MUSTER, "launch", "--runs-dir", APART, "--head-address", "node1:20100", "--"]
    process = lab.login.popen([*command, "sh", "-c", f"touch {running}; sleep 300"], env=env)
    wait_for_file(running, running)
    for host in [lab.login, *lab.nodes]:
        assert not [p.command for p in host.processes() if "a-secret-of-ours" in " ".join(p.command)]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    assert_nothing_is_left([lab.login, *lab.nodes])
    assert not leftovers(lab.login)


@pytest.mark.long
def test_scale_measures_hosts_of_a_launch(lab: Lab, sshd: Sshd, shared: Path) -> None:
    (shared / "named.py").write_text(
        "import pathlib, socket\n"
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Named(CartPoleEnv):\n"
        "    def __init__(self, folder):\n"
        "        super().__init__()\n"
        "        if 'ray' in __import__('sys').modules:\n"
        "            pathlib.Path(folder, socket.gethostname()).touch()\n"
    )
    script = "set -e\n"
    for number in (1, 3):
        (shared / f"hosts{number}").mkdir()
        flags = f"--nodes {number} --seconds 0.1 -o {shared}/hosts.png --json --set env.max_episode_steps=500"
        folder = f"--set env.config.folder={shared}/hosts{number}"
        script += f"{MUSTER} scale {shared}/named.py:Named {flags} {folder}\n"
    command = [*launch(shared), "sh", "-c", script]
    done = lab.login.run(command, env={"MUSTER_HOSTS": ",".join(HOSTS)}, check=False, limit_s=150)
    assert done.returncode == 0, done.stderr
    tables = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    [one, three] = [table["rows"][0] for table in tables]
    assert (one["hosts"], three["hosts"]) == (1, 3)
    assert three["workers"] == 3 * one["workers"]
    assert [len(list((shared / f"hosts{number}").iterdir())) for number in (1, 3)] == [1, 3]


@pytest.mark.long
def test_a_head_without_ports_ends_ranks_that_meet_at_an_address(lab: Lab, shared: Path) -> None:
    env = {"MUSTER_HOSTS": "node1,node2", "MUSTER_LAUNCH_ID": "portless", "MUSTER_LAUNCH_TOKEN": "a-secret"}
    flags = ["--runs-dir", APART, "--head-address", "node1:20100"]
    head = [MUSTER, "launch", *flags, "--port-range", "20000-20150", "--", "true"]
    log = shared / "log"
    other = lab.nodes[1].popen([MUSTER, "launch", *flags, "--", "true"], env=env, stderr=log.open("w"))
    time.sleep(3)
    done = lab.nodes[0].run(head, env=env, check=False, limit_s=30)
    assert done.returncode == 4
    assert other.wait(timeout=10) == 4
    assert "the head on node1 failed: " in log.read_text()
    assert_nothing_is_left(lab.nodes)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("ch-run") is None, reason="Charliecloud is not installed")
def test_slurm_starts_the_ranks_inside_containers(lab: Lab, slurm: Slurm, shared: Path) -> None:
    flags = charliecloud_flags(shared)
    command = ["salloc", "--nodes=3", "--ntasks-per-node=1", *launch(shared, *flags), *tell(shared, code=7)]
    done = lab.login.run(command, env={"USER": "root"}, cwd=shared, check=False, limit_s=120)
    assert done.returncode == 7, done.stderr
    assert told(shared)["hosts"] == HOSTS
    assert_nothing_is_left([lab.login, *lab.nodes])
