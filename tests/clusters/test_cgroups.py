"""Limits of the process's own control groups, from trees as a kernel shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.clusters.allocation.cgroups import CgroupLimits, count_cpu_list, read_cgroup_limits

GIBIBYTE = 1024**3


def read(tmp_path: Path, membership: str, files: dict[str, str]) -> CgroupLimits:
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    (tmp_path / "membership").write_text(membership)
    return read_cgroup_limits(tmp_path / "membership", tmp_path / "cgroup")


def test_version_2_takes_the_tightest_limit_on_the_way_to_the_root(tmp_path: Path) -> None:
    limits = read(
        tmp_path,
        "0::/system.slice/job_7/step_0\n",
        {
            "cpuset.cpus.effective": "0-63",
            "system.slice/cpu.max": "max 100000",
            "system.slice/memory.max": "max",
            "system.slice/job_7/cpu.max": "400000 100000",
            "system.slice/job_7/memory.max": str(8 * GIBIBYTE),
            "system.slice/job_7/step_0/cpuset.cpus.effective": "0-3,8-11",
            "system.slice/job_7/step_0/memory.max": "max",
            "other/cpu.max": "100000 100000",
        },
    )
    assert limits.cpus is not None
    assert limits.memory is not None
    assert (limits.cpus.value, limits.memory.value) == (4, 8 * GIBIBYTE)
    assert limits.cpus.source.endswith("job_7/cpu.max")
    assert limits.memory.source.endswith("job_7/memory.max")


def test_version_2_cpuset_limits_too(tmp_path: Path) -> None:
    limits = read(tmp_path, "0::/job\n", {"job/cpuset.cpus.effective": "2", "job/cpu.max": "max 100000"})
    assert limits.cpus is not None
    assert limits.cpus.value == 1


def test_version_1_reads_each_controller_in_its_own_tree(tmp_path: Path) -> None:
    limits = read(
        tmp_path,
        "4:memory:/slurm/job_7\n3:cpuset:/slurm/job_7\n2:cpu,cpuacct:/user\n1:name=systemd:/x\n",
        {
            "memory/memory.limit_in_bytes": "9223372036854771712",
            "memory/slurm/job_7/memory.limit_in_bytes": str(2 * GIBIBYTE),
            "cpuset/slurm/job_7/cpuset.cpus": "4-7",
            "cpu/user/cpu.cfs_quota_us": "250000",
            "cpu/user/cpu.cfs_period_us": "100000",
        },
    )
    assert limits.cpus is not None
    assert limits.memory is not None
    assert (limits.cpus.value, limits.memory.value) == (2, 2 * GIBIBYTE)


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "cpu/cpu.cfs_quota_us": "-1",
        "cpu/cpu.cfs_period_us": "100000",
        "unified/cgroup.procs": "",
        "cpu.max": "not a limit",
    }
    assert read(tmp_path, "2:memory:/\n1:cpu:/\n0::/\n", files) == CgroupLimits()
    assert read_cgroup_limits(tmp_path / "nowhere", tmp_path) == CgroupLimits()


def test_a_path_that_leads_out_of_a_container_leaves_the_root(tmp_path: Path) -> None:
    limits = read(tmp_path, "0::/../../job\n", {"cpu.max": "300000 100000", "../cpu.max": "100000 100000"})
    assert limits.cpus is not None
    assert limits.cpus.value == 3


def test_less_than_a_cpu_is_one(tmp_path: Path) -> None:
    limits = read(tmp_path, "0::/\n", {"cpu.max": "50000 100000"})
    assert limits.cpus is not None
    assert limits.cpus.value == 1


@pytest.mark.parametrize(("written", "count"), [("0-3,8\n", 5), ("7", 1), ("", None)])
def test_cpu_lists_are_counted(written: str, count: int | None) -> None:
    assert count_cpu_list(written) == count
