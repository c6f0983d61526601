"""The doctor finds what is in the way of training: faults planted in the ways in which they really come."""

from __future__ import annotations

import json
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from muster.clusters.allocation.model import Host, Machine, Sourced
from muster.clusters.allocation.reading import read_allocation
from muster.clusters.allocation.shares import share_of
from muster.clusters.doctor import host_examination
from muster.clusters.doctor.cluster_checks import ClockReading, check_clock, check_presence
from muster.clusters.doctor.doctor_options import DoctorOptions
from muster.clusters.doctor.door import Door, knock
from muster.clusters.doctor.environment_checks import check_other_rays, check_processes, check_proxies
from muster.clusters.doctor.findings import HostFinding, problem, well
from muster.clusters.doctor.folder_board import FolderBoard
from muster.clusters.doctor.folder_checks import check_temporary_folder
from muster.clusters.doctor.ranks import Doorplate, ExaminedRank, Topic
from muster.clusters.doctor.report import make_report
from muster.clusters.doctor.share_checks import check_cpus, check_memory
from muster.clusters.launching import host_ray
from muster.clusters.launching.launch_options import LaunchOptions
from muster.clusters.mounts import mount_type
from muster.errors import ClusterError
from muster.simulators.verdict import Verdict
from tests.commands import environment, muster, wait_until

DOCTOR = [sys.executable, "-m", "muster", "doctor", "--json"]
OTHER_HOST = "elsewhere"
MACHINE = Machine("host", cpus=8, gpus=0, memory=64 * 1024**3, affinity=frozenset(range(8)))


class Outcome:
    """What a doctor printed, by its checks."""

    def __init__(self, exit_code: int, stdout: str) -> None:
        assert len(stdout.splitlines()) == 1, "one line, and nothing else"
        self.table: dict[str, Any] = json.loads(stdout)
        assert self.table["exit_code"] == exit_code

    def of(self, check: str, verdict: str) -> dict[str, Any]:
        """Return the one finding of a check with that verdict, which must be there."""
        findings: list[dict[str, Any]] = [
            f for f in self.table["findings"] if (f["check"], f["verdict"]) == (check, verdict)
        ]
        assert len(findings) == 1, [f for f in self.table["findings"] if f["check"] == check]
        assert verdict == "ok" or findings[0]["remedy"], "a remedy for everything that is wrong"
        return findings[0]


@contextmanager
def started(*arguments: str | Path, cwd: Path, **extra: str) -> Iterator[subprocess.Popen[str]]:
    """Start a doctor; end it if the test does not see it through."""
    command = [*DOCTOR, *map(str, arguments)]
    process = subprocess.Popen(command, cwd=cwd, env=environment(**extra), stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def examine(*arguments: str | Path, cwd: Path, **extra: str) -> Outcome:
    with started(*arguments, cwd=cwd, **extra) as process:
        stdout, _ = process.communicate(timeout=60)
        return Outcome(process.returncode, stdout)


def examine_after(preparation: str, cwd: Path, *, namespaces: Sequence[str] = ()) -> Outcome:
    """Run a doctor after a command of the shell, which changes only what these namespaces hold."""
    enter = ["unshare", "--user", "--map-root-user", *namespaces] if namespaces else []
    if enter and (not shutil.which("unshare") or subprocess.run([*enter, "true"], check=False).returncode):
        pytest.skip("needs unshare(1) and the right to make namespaces")
    command = [*enter, "sh", "-c", f'{preparation} && exec "$@"', "sh", *DOCTOR]
    done = subprocess.run(command, cwd=cwd, env=environment(), stdout=subprocess.PIPE, text=True, check=False)
    return Outcome(done.returncode, done.stdout)


def test_a_good_host_has_no_problem_and_no_files_are_left(tmp_path: Path) -> None:
    found = examine("CartPole-v1", cwd=tmp_path)
    assert found.table["hosts"] == [socket.gethostname()]
    assert found.table["problems"] == found.table["exit_code"] == 0
    for check in ("shared folder", "CPUs", "memory", "ports", "simulator", "versions", "LD_PRELOAD", "proxies"):
        found.of(check, "ok")
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir()]


def test_the_table_for_a_person(tmp_path: Path) -> None:
    done = muster("doctor", "nosuch.toml", cwd=tmp_path, COLUMNS="200")
    assert done.returncode == 1
    assert "problem" in done.stdout
    assert "nosuch.toml: no such file" in done.stdout
    assert "→ put the file and all that it imports where every host sees them" in done.stdout
    assert "1 host: 1 problem" in done.stdout.splitlines()[-1]
    assert done.stderr == ""


def test_a_preloaded_library(tmp_path: Path) -> None:
    found = examine(cwd=tmp_path, LD_PRELOAD="libm.so.6")
    assert "libm.so.6" in found.of("LD_PRELOAD", "warning")["message"]


def test_a_proxy_without_bypass(tmp_path: Path) -> None:
    proxy = "http://proxy.example:3128"
    found = examine(cwd=tmp_path, http_proxy=proxy, no_proxy="intranet.example")
    remedy = found.of("proxies", "warning")["remedy"]
    assert "export no_proxy=intranet.example,localhost," in remedy
    assert check_proxies({"HTTPS_PROXY": proxy, "NO_PROXY": ".site"}, ["node1.site"]).verdict is Verdict.OK
    assert check_proxies({"HTTPS_PROXY": proxy, "NO_PROXY": "site"}, ["offsite"]).verdict is Verdict.WARNING


def test_a_low_limit_of_open_files(tmp_path: Path) -> None:
    found = examine_after("ulimit -n 256", tmp_path)
    assert "at most 256 open files" in found.of("open files", "problem")["message"]
    assert found.table["exit_code"] == 1


def test_a_low_limit_of_processes() -> None:
    assert check_processes(300, num_cpus=32).verdict is Verdict.PROBLEM
    assert check_processes(resource.RLIM_INFINITY, num_cpus=32).verdict is Verdict.OK


def test_a_temporary_folder_too_deep_for_sockets(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    message = examine(cwd=tmp_path, TMPDIR=str(deep)).of("temporary folder", "warning")["message"]
    assert "the system allows 107" in message
    assert "(from TMPDIR)" in message


def test_a_temporary_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    found = examine(cwd=tmp_path, TMPDIR="/proc")
    assert "/proc cannot be written to" in found.of("temporary folder", "problem")["message"]


def test_a_temporary_folder_on_a_network_file_system(tmp_path: Path) -> None:
    mounts = f"/dev/sda1 / ext4 rw 0 0\nserver:/scratch {tmp_path} nfs4 rw 0 0\n"
    assert mount_type(tmp_path / "inside", mounts) == "nfs4"
    assert mount_type(Path("/elsewhere"), mounts) == "ext4"
    findings = check_temporary_folder(Sourced(str(tmp_path), "TMPDIR"), mounts, fallback=tmp_path)
    assert findings[-1].verdict is Verdict.PROBLEM
    assert "(nfs4)" in findings[-1].message


def test_a_small_shared_memory(tmp_path: Path) -> None:
    found = examine_after("mount -t tmpfs -o size=16m none /dev/shm", tmp_path, namespaces=["--mount"])
    assert "16 MiB free" in found.of("/dev/shm", "warning")["message"]


def test_a_host_name_that_means_loopback(tmp_path: Path) -> None:
    found = examine_after("hostname localhost", tmp_path, namespaces=["--uts"])
    assert "loopback address 127." in found.of("names", "warning")["message"]


def test_ports_that_are_all_taken(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        found = examine("--port-range", f"{port - 2}-{port + 9}", cwd=tmp_path)
    assert "--port-range" in found.of("ports", "problem")["remedy"]


def test_a_foreign_ray_address(tmp_path: Path) -> None:
    found = examine(cwd=tmp_path, RAY_ADDRESS="10.0.0.1:6379")
    assert "10.0.0.1:6379" in found.of("RAY_ADDRESS", "warning")["message"]


def test_another_ray_on_the_host(tmp_path: Path) -> None:
    process = tmp_path / "4711"
    process.mkdir()
    (process / "cmdline").write_bytes(b"/site/ray/core/src/ray/raylet/raylet\0--head\0")
    (found,) = check_other_rays(tmp_path, folder=tmp_path / "none")
    assert found.verdict is Verdict.WARNING
    assert "raylet (4711" in found.message


def test_a_launcher_that_makes_many_worlds_of_one(tmp_path: Path) -> None:
    wrong_mpirun = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "SLURM_NTASKS": "4"}
    message = examine(cwd=tmp_path, **wrong_mpirun).of("allocation", "problem")["message"]
    assert "OMPI_COMM_WORLD_SIZE says this is the only rank, but SLURM_NTASKS speaks of 4" in message


SIMULATORS = {
    "missing": ("import fluids_of_nobody\n", "No module named 'fluids_of_nobody'"),
    "crashing": ("import os\nos.abort()\n", "SIGABRT"),
    "hanging": ("import time\ntime.sleep(60)\n", "not built after 3 s"),
    "talking": ("print('hello')\nclass Pump:\n    pass\n", "expected a gymnasium.Env"),
}


@pytest.mark.parametrize("kind", SIMULATORS)
def test_a_simulator_that_cannot_be_built(kind: str, tmp_path: Path) -> None:
    code, message = SIMULATORS[kind]
    (tmp_path / f"{kind}.py").write_text(code)
    (tmp_path / "exp.toml").write_text(f'[env]\nid = "{kind}.py:Pump"\n')
    found = examine("exp.toml", "--timeout", "3s", cwd=tmp_path).of("simulator", "problem")
    assert message in found["message"]


def test_a_folder_that_ranks_cannot_meet_in(tmp_path: Path) -> None:
    found = examine("--runs-dir", "/proc/none", cwd=tmp_path)
    assert "--runs-dir" in found.of("shared folder", "problem")["remedy"]
    found.of("ports", "ok")


def test_a_folder_that_is_not_shared(tmp_path: Path) -> None:
    launch = {"MUSTER_LAUNCH_ID": "apart", "MUSTER_NUM_RANKS": "2"}
    arguments = ["--timeout", "2s", "--runs-dir"]
    with started(*arguments, "hidden", cwd=tmp_path, MUSTER_RANK="1", **launch) as other:
        found = examine(*arguments, "runs", cwd=tmp_path, MUSTER_RANK="0", **launch)
        assert other.poll() is None, "it waits longer than rank 0"
    missing = found.of("presence", "problem")
    assert missing["hosts"] == ["rank 1"]
    assert "does not see the folder" in missing["message"]


def test_other_ranks_print_nothing_and_each_host_is_examined_once(tmp_path: Path) -> None:
    launch = {"MUSTER_LAUNCH_ID": "together", "MUSTER_NUM_RANKS": "2"}
    with started(cwd=tmp_path, MUSTER_RANK="1", **launch) as other:
        found = examine(cwd=tmp_path, MUSTER_RANK="0", **launch)
        assert other.communicate(timeout=20)[0] == ""
        assert other.returncode == 0
    assert found.table["problems"] == 0
    found.of("ports", "ok")


class PlantedRank:
    """Rank 1 of 2, played by the test: whatever it says of itself, rank 0 must take it at its word."""

    def __init__(self, folder: Path) -> None:
        self._meeting = FolderBoard(folder / "runs" / "examinations" / "planted")

    def come(self, *, versions: dict[str, str]) -> None:
        self._meeting.open()
        self._meeting.put(Topic.CARD, asdict(ExaminedRank(1, OTHER_HOST, True, [0], versions)), 1)

    def answer(self, *, port: int, clock_ahead: float) -> None:
        wait_until(lambda: self._meeting.get(Topic.QUESTION) is not None, "rank 0's question")
        plate = Doorplate(OTHER_HOST, "127.0.0.1", port, "secret")
        self._meeting.put(Topic.ANSWER, {"time": time.time() + clock_ahead, "plate": asdict(plate)}, 1)
        self._meeting.put(Topic.REPORT, [asdict(well("LD_PRELOAD", "not set"))], 1)


def test_a_host_that_is_cut_off_with_another_version_and_another_time(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as closed:
        port = closed.getsockname()[1]
    planted = PlantedRank(tmp_path)
    planted.come(versions={"Python": "3.11.7", "Ray": "2.59.0", "muster": "0.1.0"})
    launch = {"MUSTER_LAUNCH_ID": "planted", "MUSTER_NUM_RANKS": "2", "MUSTER_RANK": "0"}
    with started(cwd=tmp_path, **launch) as process:
        planted.answer(port=port, clock_ahead=3600)
        stdout, _ = process.communicate(timeout=60)
    found = Outcome(process.returncode, stdout)
    assert found.table["hosts"] == [socket.gethostname(), OTHER_HOST]
    assert "cannot connect to elsewhere" in found.of("reachability", "problem")["message"]
    assert "Ray 2.59.0 here, " in found.of("versions", "problem")["message"]
    clock = found.of("clock", "problem")
    assert clock["hosts"] == [OTHER_HOST]
    assert "ahead of" in clock["message"]
    assert found.of("LD_PRELOAD", "ok")["hosts"] == found.table["hosts"], "one row for both hosts"


def test_a_network_that_is_not_there(tmp_path: Path) -> None:
    found = examine("--interface", "nosuch0", cwd=tmp_path)
    assert "no such interface" in found.of("reachability", "problem")["message"]


def test_an_address_that_means_another_host() -> None:
    door = Door()
    try:
        assert knock(Doorplate("here", "127.0.0.1", door.port, door.token)) is None
        mistaken = Doorplate("there", "127.0.0.1", door.port, "the other host's token")
        assert "answered by another program or host" in (knock(mistaken) or "")
    finally:
        door.close()


@pytest.mark.parametrize(
    ("reading", "verdict"),
    [
        (ClockReading(100, 101, 109), Verdict.OK),
        (ClockReading(100, 95, 101), Verdict.WARNING),
        (ClockReading(100, 60, 101), Verdict.PROBLEM),
        (ClockReading(100, 141, 109), Verdict.PROBLEM),
    ],
)
def test_only_certain_clock_skew_counts(reading: ClockReading, verdict: Verdict) -> None:
    assert check_clock(reading).verdict is verdict


def test_missing_hosts_are_named_whatever_their_domain() -> None:
    cards = [ExaminedRank(0, "node1.site.example", True, [], {})]
    missing = check_presence(["node1", "node2"], 2, cards, Path("runs"), seconds=5)
    assert list(missing) == ["node2"]
    assert list(check_presence([], 3, cards, Path("runs"), seconds=5)) == ["rank 1", "rank 2"]


def test_the_shares_that_do_not_fit_together() -> None:
    granted = Sourced(8, "SLURM_CPUS_ON_NODE")
    pinned = [frozenset({0}), frozenset({1})]
    assert "on 2 only" in judged(granted, pinned).message
    assert judged(granted, [frozenset(range(4)), frozenset(range(4, 8))]).verdict is Verdict.OK
    assert "this machine has 8" in judged(Sourced(16, "NCPUS"), pinned).message
    assert check_memory(Sourced(200 * 1024**2, "SLURM_MEM_PER_NODE")).verdict is Verdict.PROBLEM


def judged(granted: Sourced[int], masks: list[frozenset[int]]) -> HostFinding:
    share = share_of(Host("host", granted), MACHINE, masks, []).cpus
    assert share is not None
    return check_cpus(MACHINE, granted, share, masks)


def test_it_looks_for_as_many_ports_as_a_launch_takes_though_its_rank_is_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = replace(MACHINE, affinity=frozenset({0}))
    allocation = read_allocation(
        {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "host", "SLURM_CPUS_ON_NODE": "8"}, machine
    )
    asked = []

    def take_ports(num_cpus: int, port_range: object) -> None:
        asked.append(num_cpus)
        raise ClusterError("enough")

    monkeypatch.setattr(host_examination, "take_ports", take_ports)
    monkeypatch.setattr(host_ray, "take_ports", take_ports)
    with host_examination.opened_door(allocation, DoctorOptions(Path("records"), None, 1.0)):
        pass
    with pytest.raises(ClusterError), host_ray.held_ports(allocation, LaunchOptions(["true"], Path("records"))):
        pass
    assert asked == [8, 8]


def test_the_same_finding_on_several_hosts_is_one_row() -> None:
    fine, bad = well("ports", "free"), problem("ports", "none free", "choose others")
    report = make_report({"node1": [fine], "node2": [bad], "node3": [fine]})
    assert [(row.hosts, row.finding) for row in report.rows] == [(("node1", "node3"), fine), (("node2",), bad)]
    assert report.exit_code == 1
    assert make_report({"node1": [fine, HostFinding("names", Verdict.WARNING, "odd", "mend it")]}).exit_code == 0
