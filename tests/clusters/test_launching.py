"""The parts of a launch, each on its own: plan, ports, addresses, environment, keeper, meeting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.clusters.launching.addresses import interface_addresses, own_address
from muster.clusters.launching.folder_board import FolderBoard
from muster.clusters.launching.keeping import KeeperProcess
from muster.clusters.launching.meeting import Meeting, RankCard
from muster.clusters.launching.options import LaunchOptions
from muster.clusters.launching.plan import hosts_of, plan_host, version_mismatch
from muster.clusters.launching.ports import BLOCK_SIZE, take_ports
from muster.clusters.launching.ray_node import Share, ray_environment, start_command
from muster.errors import ClusterError
from tests.commands import muster, wait_until

OPTIONS = LaunchOptions(command=["true"], records=Path("records"))


def card(rank: int, host: str, **changes: Any) -> RankCard:
    values: dict[str, Any] = {
        "local_rank": None,
        "pid": 1,
        "affinity": [rank],
        "scheduler_cpus": None,
        "cgroup_cpus": None,
        "gpus": 0,
        "memory": 8 * 1024**3,
        "python": "3.11.1",
        "ray": "2.60.0",
        "muster": "0.1.0",
        "time": 0.0,
    }
    return RankCard(rank, host, **{**values, **changes})


def test_hosts_are_in_the_order_of_their_ranks() -> None:
    cards = {rank: card(rank, host) for rank, host in enumerate(["b", "b", "a", "b"])}
    assert hosts_of(cards) == {"b": [0, 1, 3], "a": [2]}


@pytest.mark.parametrize(
    ("changes", "cpus"), [({}, 3), ({"scheduler_cpus": 2}, 2), ({"cgroup_cpus": 1, "scheduler_cpus": 2}, 1)]
)
def test_a_host_s_cpus_are_its_ranks_masks_within_every_limit(changes: dict[str, Any], cpus: int) -> None:
    plan = plan_host("a", [card(rank, "a", **changes) for rank in (0, 1, 2)], OPTIONS)
    assert (plan.share.cpus, plan.cpu_ids) == (cpus, [0, 1, 2])


def test_different_versions_are_named_with_their_hosts() -> None:
    cards = {0: card(0, "a"), 1: card(1, "b", ray="2.59.0"), 2: card(2, "b", ray="2.59.0")}
    mismatch = version_mismatch(cards)
    assert mismatch is not None
    assert "ray: 2.60.0 on a; 2.59.0 on b" in mismatch
    assert version_mismatch({0: card(0, "a"), 1: card(1, "b")}) is None


def test_two_launches_never_take_the_same_ports() -> None:
    first = take_ports(21_000, 21_000 + 2 * BLOCK_SIZE)
    second = take_ports(21_000, 21_000 + 2 * BLOCK_SIZE)
    assert {first.first, second.first} == {21_000, 21_000 + BLOCK_SIZE}
    with pytest.raises(ClusterError, match="choose another range with --port-range"):
        take_ports(21_000, 21_000 + 2 * BLOCK_SIZE)
    first.release()
    assert take_ports(21_000, 21_000 + 2 * BLOCK_SIZE).first == first.first
    second.release()


def test_the_address_is_one_that_others_can_reach() -> None:
    assert not own_address([]).startswith("127.")
    name, address = next(iter(interface_addresses().items()))
    assert own_address([], name) == address
    assert own_address([], f"{address}/24") == address
    with pytest.raises(ClusterError, match=f"no such interface or subnet.*{name}"):
        own_address([], "ib7")


def test_ray_is_started_with_every_limit_and_without_the_launcher_s_variables(tmp_path: Path) -> None:
    ports = take_ports()
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
    kept = ray_environment(environ, tmp_path / "token", ["node1"], unset=["LD_PRELOAD"])
    assert kept["KEPT"] == "1"
    assert not {"OMPI_COMM_WORLD_RANK", "PMI_FD", "RAY_ADDRESS", "LD_PRELOAD"} & set(kept)
    assert "node1" in kept["no_proxy"]
    assert not any(str(value) in " ".join(command) for value in ("token",))


def test_a_meeting_is_for_us_alone_and_its_files_are_whole(tmp_path: Path) -> None:
    board = FolderBoard(tmp_path / "launch" / "meeting").open()
    meeting = Meeting(board)
    assert oct(board.path.stat().st_mode)[-3:] == "700"
    meeting.join(card(1, "b"))
    meeting.join(card(0, "a"))
    assert {rank: found.host for rank, found in meeting.cards().items()} == {0: "a", 1: "b"}
    meeting.put("left-1", True)
    assert meeting.names("left-") == {"1"}
    (board.path / "half.json").write_text("{")
    assert meeting.get("half") is None
    meeting.close()
    assert not meeting.is_open()


SPAWNER = (
    "import os, subprocess, sys, time; subprocess.Popen(['sleep', '300'], start_new_session=True); time.sleep(300)"
)


def test_the_keeper_ends_all_that_came_of_what_it_started(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    keeper = KeeperProcess([folder])
    keeper.start("service", [sys.executable, "-c", SPAWNER], dict(os.environ), tmp_path / "log")
    process = psutil.Process(keeper._process.pid)
    wait_until(lambda: len(process.children(recursive=True)) == 2, "the service and its child")
    children = process.children(recursive=True)
    keeper.end()
    assert not [child for child in children if child.is_running()]
    assert not folder.exists()


def test_the_keeper_outlives_a_killed_launcher_just_long_enough(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nfrom muster.clusters.launching.keeping import KeeperProcess\n"
        "keeper = KeeperProcess()\nkeeper.start('service', ['sleep', '300'], dict(os.environ))\n"
        "print(keeper._process.pid, flush=True)\ntime.sleep(300)\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    keeper = psutil.Process(int(launcher.stdout.readline()))
    wait_until(lambda: bool(keeper.children()), "the service")
    service = keeper.children()[0]
    launcher.kill()
    launcher.wait()
    wait_until(lambda: not service.is_running() and not keeper.is_running(), "both to end", seconds=10)


def test_the_keeper_tells_exits_and_passes_signals() -> None:
    keeper = KeeperProcess()
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
