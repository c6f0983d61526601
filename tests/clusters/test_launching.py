"""The parts of a launch, each on its own: plan, ports, addresses, environment, keeper, meeting folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.clusters.allocation.grace import grace_of_command
from muster.clusters.allocation.model import Allocation, Host, Machine, Sourced
from muster.clusters.allocation.reading import read_allocation
from muster.clusters.launching.addresses import interface_addresses, own_address
from muster.clusters.launching.host_ray import HostRay
from muster.clusters.launching.keeper_client import Keeper
from muster.clusters.launching.keeper_process import read_logs, write_logs
from muster.clusters.launching.launch_options import LaunchOptions
from muster.clusters.launching.local_ranks import RankCard
from muster.clusters.launching.missing import missing_hosts
from muster.clusters.launching.plan import HostCard, num_local_ranks, plan_host, version_mismatch
from muster.clusters.launching.ports import ports_needed, take_ports
from muster.clusters.launching.rank import Rank
from muster.clusters.launching.ray_node import Share, ray_environment, start_command
from muster.clusters.launching.rendezvous import MeetingFolder
from muster.clusters.launching.signals import Signals
from muster.errors import ClusterError
from muster.runs.metrics import read_metrics
from tests.commands import MUSTER, environment, muster, start_muster, wait_until

OPTIONS = LaunchOptions(command=["true"], records=Path("records"))


def allocation(**limits: int) -> Allocation:
    """Return an allocation of one host, with what limits it: scheduler_cpus, cgroup_cpus, gpus."""
    found = {name: Sourced(limit, "x") for name, limit in limits.items()}
    granted = Host("a", found.get("scheduler_cpus"), found.get("gpus"))
    machine = Machine("a", 8, 4, 8 * 1024**3, cgroup_cpus=found.get("cgroup_cpus"))
    return replace(read_allocation({}, machine), granted=granted)


def host_card(rank: int, host: str, **changes: Any) -> HostCard:
    values: dict[str, Any] = {"python": "3.11.1", "ray": "2.60.0", "muster": "0.1.0"}
    return HostCard(rank, host, host, f"10.0.0.{rank}", [rank], **{**values, **changes})


@pytest.mark.parametrize(
    ("limits", "cpus"), [({}, 3), ({"scheduler_cpus": 2}, 2), ({"cgroup_cpus": 1, "scheduler_cpus": 2}, 1)]
)
def test_a_host_s_cpus_are_its_ranks_masks_within_every_limit(limits: dict[str, Any], cpus: int) -> None:
    plan = plan_host(allocation(**limits), [RankCard(rank, [rank], None) for rank in (0, 1, 2)], OPTIONS)
    assert (plan.share.cpus, plan.cpu_ids) == (cpus, [0, 1, 2])


def test_nodes_are_hosts_however_many_ranks_each_has() -> None:
    options = replace(OPTIONS, nodes=3)
    launched = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    machine = Machine("a", 8, 0)
    assert Rank(read_allocation(launched, machine), options, Signals()).num_ranks == 6
    assert Rank(read_allocation(launched, machine), OPTIONS, Signals()).num_ranks == 8
    assert Rank(read_allocation({}, machine), options, Signals()).num_ranks == 3


def test_a_host_s_gpus_are_those_of_all_its_ranks_masks() -> None:
    cards = [RankCard(0, [0], ["0", "2"]), RankCard(1, [1], ["1"]), RankCard(2, [2], ["2"])]
    plan = plan_host(allocation(), cards, OPTIONS)
    assert (plan.share.gpus, plan.gpu_devices) == (3, ["0", "2", "1"])
    assert plan_host(allocation(gpus=1), cards, OPTIONS).share.gpus == 1
    assert plan_host(allocation(), [RankCard(0, [0], None)], OPTIONS).gpu_devices is None


def test_ray_sees_the_gpus_of_all_ranks_and_not_only_the_leader_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    plan = plan_host(allocation(), [RankCard(0, [], ["0"]), RankCard(1, [], ["1"])], OPTIONS)
    ports, keeper = take_ports(1), Keeper()
    ray = HostRay(tmp_path, keeper, tmp_path / "log")
    environment = ray.start(
        OPTIONS, plan, ports, address="127.0.0.1", head="127.0.0.1:1", token="secret", hosts=[]
    )
    ray.end(0)
    ports.release()
    assert environment["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_different_versions_are_named_with_their_hosts() -> None:
    mismatch = version_mismatch([host_card(0, "a"), host_card(1, "b", ray="2.59.0")])
    assert mismatch is not None
    assert "ray: 2.60.0 on a; 2.59.0 on b" in mismatch
    assert version_mismatch([host_card(0, "a"), host_card(1, "b")]) is None


def test_a_host_that_spells_its_name_in_full_is_not_missing() -> None:
    hosts = (Host("node1.site.org"), Host("node2.site.org"))
    found = replace(allocation(), hosts=Sourced(hosts, "x"))
    cards = [replace(host_card(k, f"node{k}"), allocated_as=f"node{k}.site.org") for k in (1, 2)]
    assert missing_hosts(found, cards, {"10.0.0.1", "10.0.0.2"}) == []
    assert missing_hosts(found, cards, {"10.0.0.1"}) == ["node2.site.org"]
    assert missing_hosts(found, cards[:1], {"10.0.0.1"}) == ["node2.site.org"]


def test_two_launches_never_take_the_same_ports() -> None:
    size = ports_needed(1)
    first = take_ports(1, (15_000, 14_999 + 2 * size))
    second = take_ports(1, (15_000, 14_999 + 2 * size))
    assert {first.first, second.first} == {15_000, 15_000 + size}
    with pytest.raises(ClusterError, match="choose another range with --port-range"):
        take_ports(1, (15_000, 14_999 + 2 * size))
    first.release()
    assert take_ports(1, (15_000, 14_999 + 2 * size)).first == first.first
    second.release()


def test_blocks_of_other_sizes_and_ranges_do_not_overlap() -> None:
    wide = take_ports(100, (16_000, 16_399))
    with pytest.raises(ClusterError, match="no block of 200 free ports"):
        take_ports(1, (16_150, 16_450))
    wide.release()
    with pytest.raises(ClusterError, match="256 CPUs need 800 ports"):
        take_ports(256, (16_000, 16_399))


def test_there_are_ports_for_all_workers_of_a_large_host() -> None:
    block = take_ports(256)
    first, last = block.workers
    block.release()
    assert last - first + 1 >= 2 * 256


def test_another_user_cannot_lock_anyone_out_of_the_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that lies in the folder for temporary files decides over ports."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted = tmp_path / "muster-ports"
    planted.symlink_to("/proc/1")
    take_ports(1).release()
    assert list(tmp_path.iterdir()) == [planted]


def test_the_address_is_one_that_others_can_reach() -> None:
    assert not own_address([]).startswith("127.")
    name, address = next(iter(interface_addresses().items()))
    assert own_address([], name) == address
    assert own_address([], f"{address}/24") == address
    with pytest.raises(ClusterError, match=f"no such interface or subnet.*{name}"):
        own_address([], "ib7")


def test_ray_is_started_with_every_limit_and_without_the_launcher_s_variables(tmp_path: Path) -> None:
    ports = take_ports(3)
    share = Share(3, 1, 4 * 1024**3)
    command = start_command(
        address="10.0.0.1", share=share, ports=ports, folder=tmp_path, head=None, dashboard=False
    )
    ports.release()
    for flag in (
        "--num-cpus=3",
        "--num-gpus=1",
        "--memory=",
        "--object-store-memory=",
        "--include-dashboard=false",
    ):
        assert any(part.startswith(flag) for part in command), flag
    environ = {"OMPI_COMM_WORLD_RANK": "1", "PMI_FD": "3", "RAY_ADDRESS": "x", "LD_PRELOAD": "y", "KEPT": "1"}
    environ |= {"RAY_AUTH_TOKEN": "of another Ray", "RAY_AUTH_MODE": "disabled"}
    kept = ray_environment(environ, tmp_path / "token", "10.0.0.1", ["node1"], unset=["LD_PRELOAD"])
    assert kept["KEPT"] == "1"
    assert not {"OMPI_COMM_WORLD_RANK", "PMI_FD", "RAY_ADDRESS", "LD_PRELOAD", "RAY_AUTH_TOKEN"} & set(kept)
    assert kept["RAY_AUTH_MODE"] == "token"
    assert "node1" in kept["no_proxy"]
    assert not any(str(value) in " ".join(command) for value in ("token",))


def test_a_meeting_folder_is_for_us_alone_and_gives_all_one_secret(tmp_path: Path) -> None:
    folders = [MeetingFolder(tmp_path / "launch" / "meeting") for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        secrets = set(pool.map(lambda folder: folder.open(), folders))
    assert len(secrets) == 1
    assert oct(folders[0].path.stat().st_mode)[-3:] == "700"
    assert oct((folders[0].path / "secret").stat().st_mode)[-3:] == "600"
    assert folders[0].board() is None
    folders[1].publish(("10.0.0.1", 20_009), "a")
    assert folders[0].board() == (("10.0.0.1", 20_009), "a")
    folders[0].remove()
    folders[0].path.mkdir(mode=0o777)
    folders[0].path.chmod(0o777)
    with pytest.raises(ClusterError, match="other users can enter it"):
        folders[0].open()


SPAWNER = (
    "import os, subprocess, sys, time; subprocess.Popen(['sleep', '300'], start_new_session=True); time.sleep(300)"
)


def test_the_keeper_ends_all_that_came_of_what_it_started(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    keeper = Keeper([folder])
    keeper.start("service", [sys.executable, "-c", SPAWNER], dict(os.environ), tmp_path / "log")
    process = psutil.Process(keeper.pid)
    wait_until(lambda: len(process.children(recursive=True)) == 2, "the service and its child")
    children = process.children(recursive=True)
    keeper.end()
    assert not [child for child in children if child.is_running()]
    assert not folder.exists()


def test_the_keeper_outlives_a_killed_launcher_just_long_enough(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nfrom muster.clusters.launching.keeper_client import Keeper\n"
        "keeper = Keeper()\nkeeper.start('service', ['sleep', '300'], dict(os.environ))\n"
        "print(keeper.pid, flush=True)\ntime.sleep(300)\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    keeper = psutil.Process(int(launcher.stdout.readline()))
    wait_until(lambda: bool(keeper.children()), "the service")
    service = keeper.children()[0]
    launcher.kill()
    launcher.wait()
    wait_until(lambda: not service.is_running() and not keeper.is_running(), "both to end", seconds=10)


def test_a_launcher_takes_the_place_of_a_killed_keeper(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    code = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from muster.clusters.launching.keeper_client import Keeper\nfrom muster.errors import KeeperLostError\n"
        "from muster.clusters.launching.keeper_process import adopt_orphans\n"
        "adopt_orphans()\nkeeper = Keeper([Path(sys.argv[1])])\n"
        "keeper.start('service', [sys.executable, '-c', sys.argv[2]], dict(os.environ), Path(sys.argv[3]))\n"
        "print(keeper.pid, flush=True)\n"
        "try:\n    while keeper.exit_of('service') is None:\n        time.sleep(0.05)\n"
        "except KeeperLostError as error:\n    print(error, flush=True)\n"
        "keeper.end()\n"
    )
    arguments = [str(folder), SPAWNER, str(tmp_path / "log")]
    launcher = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    keeper = psutil.Process(int(launcher.stdout.readline()))
    wait_until(lambda: len(keeper.children(recursive=True)) == 2, "the service and its child")
    services = keeper.children(recursive=True)
    keeper.kill()
    said, _ = launcher.communicate(timeout=10)
    assert "was killed, perhaps for want of memory" in said
    assert not [service for service in services if service.is_running()]
    assert not folder.exists()


def test_logs_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    logs = tmp_path / "ray" / "session_2026" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.out").write_bytes(b"early" + b"x" * 200_000 + b"late")
    for number in range(40):
        (logs / f"worker-{number}.err").write_bytes(b"y" * 100_000)
    write_logs(tmp_path / "copies", read_logs(tmp_path / "ray"))
    kept = (tmp_path / "copies" / "raylet.out").read_bytes()
    assert kept.endswith(b"late")
    assert b"early" not in kept
    assert sum(path.stat().st_size for path in (tmp_path / "copies").iterdir()) <= 1024**2


def test_the_keeper_tells_exits_and_passes_signals() -> None:
    keeper = Keeper()
    keeper.start("command", ["sh", "-c", "exit 7"], dict(os.environ))
    wait_until(lambda: keeper.exit_of("command") is not None, "the exit")
    assert keeper.exit_of("command") == {"exited": "command", "code": 7}
    keeper.start("sleeper", ["sleep", "300"], dict(os.environ))
    time.sleep(0.3)
    keeper.signal("sleeper", signal.SIGTERM)
    wait_until(lambda: keeper.exit_of("sleeper") is not None, "the end of the sleeper")
    assert keeper.exit_of("sleeper") == {"exited": "sleeper", "code": 143}
    keeper.start("missing", ["/no/such/program"], dict(os.environ))
    wait_until(lambda: keeper.exit_of("missing") is not None, "the failure")
    assert "No such file" in str(keeper.exit_of("missing"))
    keeper.end()


def test_a_launch_on_this_machine_alone(tmp_path: Path) -> None:
    done = muster("launch", "--", "sh", "-c", "echo at $RAY_ADDRESS {ray_address}; exit 6", cwd=tmp_path)
    assert done.returncode == 6, done.stderr
    _, variable, argument = done.stdout.split()
    assert variable == argument
    assert "all in: hosts 1" in done.stderr
    assert (next((tmp_path / "runs" / "launches").iterdir()) / "bring-up.jsonl").is_file()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--timeout", "soon"], "expected a duration"),
        (["--port-range", "5-4"], "expected LOW-HIGH"),
        (["--interface", "nosuch0"], "no such interface or subnet"),
        (["--head", "nowhere", "--timeout", "1s"], "is there a rank on nowhere"),
        (["--grace", "soon"], "--grace soon: expected a duration"),
        (["--port-range", "20000-20150"], "choose a wider range, such as --port-range 20000-"),
    ],
)
def test_bad_flags_are_explained(flags: list[str], message: str, tmp_path: Path) -> None:
    done = muster("launch", *flags, "--", "true", cwd=tmp_path)
    assert done.returncode in (2, 4)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    done = muster("launch", "--", "/no/such/program", cwd=tmp_path)
    assert done.returncode == 4
    assert "the command could not be started: No such file or directory: /no/such/program" in done.stderr


def test_a_launch_inside_a_launch_is_refused_and_the_outer_one_lives(tmp_path: Path) -> None:
    inner = f"{sys.executable} -m muster launch -- true"
    done = muster("launch", "--", "sh", "-c", f"{inner}; echo inner ended with $?; exit 5", cwd=tmp_path)
    assert done.returncode == 5, done.stderr
    assert "inner ended with 2" in done.stdout
    assert "this already runs inside a launch" in done.stderr


def test_a_token_of_another_ray_in_the_environment_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("of another Ray")
    environ = {"RAY_AUTH_TOKEN": "of another Ray", "RAY_AUTH_MODE": "disabled", "HOME": str(tmp_path)}
    done = muster("launch", "--timeout", "30s", "--", "true", cwd=tmp_path, **environ)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR2, 75)])
def test_a_signal_ends_a_launch_that_waits_for_hosts(number: signal.Signals, code: int, tmp_path: Path) -> None:
    hosts = f"{socket.gethostname()},no-such-host"
    process = start_muster("launch", "--", "true", cwd=tmp_path, MUSTER_HOSTS=hosts, MUSTER_LAUNCH_ID="x")
    wait_until(lambda: bool(list(tmp_path.glob("runs/launches/x/logs/*.log"))), "Ray to be started")
    process.send_signal(number)
    assert process.wait(timeout=10) == code
    assert not (tmp_path / "runs" / "launches" / "x" / "meeting").exists()


def test_a_command_that_ignores_term_is_killed_after_its_grace_period(tmp_path: Path) -> None:
    script = "trap '' TERM; touch running; sleep 300 & wait; wait"
    process = start_muster("launch", "--grace", "1s", "--", "sh", "-c", script, cwd=tmp_path)
    wait_until((tmp_path / "running").exists, "the command")
    process.terminate()
    assert process.wait(timeout=15) == 137


def test_two_ranks_of_a_launcher_that_tells_no_local_rank_share_one_ray(tmp_path: Path) -> None:
    launch = ["launch", "--", sys.executable, "-c", "import os; print(os.environ['MUSTER_LAUNCH_CPUS']); exit(6)"]
    ranks = [
        start_muster(*launch, cwd=tmp_path, MUSTER_RANK=str(rank), MUSTER_NUM_RANKS="2", MUSTER_LAUNCH_ID="pair")
        for rank in (1, 0)
    ]
    outputs = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [6, 6], outputs
    assert [stdout.strip() for stdout, _ in outputs] == ["", str(len(os.sched_getaffinity(0)))]


def test_a_head_without_ports_ends_all_ranks_at_once(tmp_path: Path) -> None:
    size = ports_needed(os.cpu_count() or 1)
    taken = take_ports(os.cpu_count() or 1, (17_000, 16_999 + size))
    launch = ["launch", "--port-range", f"17000-{16_999 + size}", "--", "true"]
    started = time.monotonic()
    ranks = [
        start_muster(*launch, cwd=tmp_path, MUSTER_RANK=rank, MUSTER_NUM_RANKS="3", MUSTER_LAUNCH_ID="portless")
        for rank in "012"
    ]
    ends = [process.communicate(timeout=60) for process in ranks]
    taken.release()
    assert [process.returncode for process in ranks] == [4, 4, 4]
    assert all(f"no block of {size} free ports" in stderr for _, stderr in ends), ends
    assert time.monotonic() - started < 30
    assert not list(tmp_path.glob("runs/launches/*/meeting"))


@pytest.mark.long
def test_a_second_launch_of_the_same_name_is_refused(tmp_path: Path) -> None:
    rank = {"MUSTER_RANK": "0", "MUSTER_NUM_RANKS": "1", "MUSTER_LAUNCH_ID": "same"}
    script = "touch running; sleep 5; exit 7"
    first = subprocess.Popen([MUSTER, "launch", "--", "sh", "-c", script], cwd=tmp_path, env=environment(**rank))
    wait_until((tmp_path / "running").exists, "the first launch's command")
    second = muster("launch", "--", "true", cwd=tmp_path, **rank)
    assert second.returncode == 4
    assert "another launch named same runs on" in second.stderr
    assert first.wait(timeout=30) == 7


SLURM_STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_NODELIST": "a,b",
    "SLURM_STEP_NODELIST": "a,b",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "3,2",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
}


def test_a_leader_knows_how_many_ranks_of_its_host_to_wait_for() -> None:
    step = read_allocation(SLURM_STEP, Machine("b", 8, 0), may_ask=False)
    assert num_local_ranks(step) == 2
    assert num_local_ranks(read_allocation({**SLURM_STEP, "SLURM_NODEID": "0"}, Machine("a", 8, 0))) == 3
    flux = {"FLUX_JOB_ID": "1", "FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "4", "FLUX_TASK_LOCAL_ID": "0"}
    assert num_local_ranks(read_allocation(flux, Machine("b", 8, 0), may_ask=False)) is None
    assert num_local_ranks(read_allocation({}, Machine("b", 8, 0))) == 1


def test_hosts_may_be_named_with_a_user() -> None:
    hosts = read_allocation({"MUSTER_HOSTS": "ann@node[1-2],node3"}, Machine("node2", 8, 0)).hosts.value
    assert [(host.name, host.login) for host in hosts] == [
        ("node1", "ann@node1"),
        ("node2", "ann@node2"),
        ("node3", "node3"),
    ]


@pytest.mark.parametrize(
    ("variables", "grace"),
    [
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "b"}, 30),
        ({"PBS_JOBID": "1"}, 10),
        ({"FLUX_JOB_ID": "1"}, 5),
        ({"LSB_JOBID": "1"}, 10),
        ({}, 30),
    ],
)
def test_the_grace_period_is_the_scheduler_s(variables: dict[str, str], grace: float) -> None:
    assert read_allocation(variables, Machine("b", 8, 0), may_ask=False).grace.value == grace


def test_a_command_has_most_of_the_grace_period() -> None:
    assert [grace_of_command(grace) for grace in (5.0, 10.0, 30.0)] == [3.0, 7.0, 27.0]


FLUX = {"FLUX_JOB_ID": "f1", "FLUX_JOB_SIZE": "1", "FLUX_JOB_NNODES": "1", "FLUX_TASK_RANK": "0"}


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGALRM, 75), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)]
)
def test_a_run_is_saved_in_the_five_seconds_that_flux_gives(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    train = [str(MUSTER), "train", "tests.toys:SlowOnceTold", "--workers", "0", "--name", "run", "--quiet"]
    settings = ["--stop-steps", "1e9", "--set", f"env.config.file={tmp_path / 'slow'}"]
    process = start_muster("launch", "--", *train, *settings, cwd=tmp_path, new_session=True, **FLUX)
    run = tmp_path / "runs" / "run"
    wait_until(lambda: (run / "metrics.csv").exists() and len(read_metrics(run / "metrics.csv")) > 1, "two rows")
    (tmp_path / "slow").touch()
    time.sleep(0.5)
    below = psutil.Process(process.pid).children(recursive=True)
    sent = time.monotonic()
    os.killpg(process.pid, number)
    _, stderr = process.communicate(timeout=20)
    assert (process.returncode, time.monotonic() - sent < 5) == (code, True), stderr
    saved = int((run / "checkpoints" / "latest").resolve().name)
    assert saved == len(read_metrics(run / "metrics.csv"))
    assert not [each for each in below if each.is_running()]


def test_an_alarm_ends_a_launch_that_waits_as_the_wall_time_does(tmp_path: Path) -> None:
    process = start_muster("launch", "--head", "nowhere", "--", "true", cwd=tmp_path)
    wait_until(lambda: bool(list(tmp_path.glob("runs/launches/*/meeting/secret"))), "the rank to wait")
    process.send_signal(signal.SIGALRM)
    assert process.wait(timeout=10) == 75
