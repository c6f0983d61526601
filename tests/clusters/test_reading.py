"""The allocation: which word counts when several speak, what is asked, and what is refused."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from muster.clusters.allocation.launchers import find_ranks, mpi_world_problem
from muster.clusters.allocation.model import Allocation, Machine, Sourced
from muster.clusters.allocation.reading import read_allocation, usable_cpus
from muster.errors import AllocationError, ClusterError
from tests.clusters.recordings import load, put_on_path

MACHINE = Machine("n1", cpus=4, gpus=0, memory=2**33, affinity=frozenset({0, 1, 2, 3}))
SLURM = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2"}


def read(environ: dict[str, str], *, may_ask: bool = False) -> Allocation:
    return read_allocation(environ, MACHINE, may_ask=may_ask)


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({**SLURM, "SLURM_JOB_NODELIST": "n[1-"}, "SLURM_JOB_NODELIST: 'n.1-' is not a host list"),
        ({**SLURM, "SLURM_JOB_NODELIST": ""}, "no SLURM_JOB_NODELIST"),
        ({**SLURM, "SLURM_JOB_NUM_NODES": "3"}, "names 2 hosts, but SLURM_JOB_NUM_NODES says 3"),
        ({**SLURM, "SLURM_JOB_CPUS_PER_NODE": "4(x"}, "SLURM_JOB_CPUS_PER_NODE"),
        ({**SLURM, "SLURM_STEP_ID": "zero"}, "SLURM_STEP_ID=zero: expected a number"),
        ({**SLURM, "MUSTER_END_TIME": "soon"}, "MUSTER_END_TIME=soon: expected unix time"),
        ({"OMPI_COMM_WORLD_RANK": "first"}, "OMPI_COMM_WORLD_RANK=first: expected a number"),
        ({"PBS_JOBID": "1", "PBS_NODEFILE": "/no/such/file"}, "PBS_NODEFILE=/no/such/file: there is no such file"),
        ({"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a 1 b"}, "LSB_MCPU_HOSTS"),
        ({"MUSTER_HOSTS": "a[1-2"}, "MUSTER_HOSTS"),
        (
            {"COBALT_JOBID": "1", "COBALT_JOBSIZE": "4", "COBALT_PARTNAME": "1-3"},
            "3 hosts, but COBALT_JOBSIZE says 4",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(AllocationError, match=problem):
        read(environ)


@pytest.mark.parametrize(
    ("name", "file"), [("pbs-torque", "nodefile"), ("lsf-array", "hostfile"), ("sge-parallel", "hostfile")]
)
def test_a_node_file_that_is_cut_short_is_refused(name: str, file: str, tmp_path: Path) -> None:
    recording = load(name, tmp_path)
    path = tmp_path / file
    path.write_text("\n".join(path.read_text().splitlines()[:-1]))
    with pytest.raises(AllocationError, match=f"{path} .* slots, but .* says .*cut short"):
        recording.read()


def test_the_error_ends_a_command_as_a_cluster_that_did_not_come_up() -> None:
    assert issubclass(AllocationError, ClusterError)
    assert AllocationError.exit_code == 4


def test_hosts_that_the_user_names_count_more_than_the_scheduler() -> None:
    allocation = read({**SLURM, "MUSTER_HOSTS": "n1"})
    assert allocation.scheduler == Sourced("ssh", "MUSTER_HOSTS")
    assert not allocation.in_step


def test_a_list_of_hosts_is_no_launch_by_itself() -> None:
    assert read({"MUSTER_HOSTS": "n1,n2"}).ranks is None
    assert read({"MUSTER_HOSTS": "n5,n6", "MUSTER_LAUNCH_ID": "x"}).ranks is None


def test_the_end_time_of_the_job_script_counts_more_than_the_scheduler() -> None:
    times = {"SLURM_JOB_END_TIME": "2000", "MUSTER_END_TIME": "1000"}
    assert read({**SLURM, **times}).end_time == Sourced(1000.0, "MUSTER_END_TIME")


def test_a_launch_id_that_is_given_counts_more_than_all_others(tmp_path: Path) -> None:
    allocation = load("slurm-step", tmp_path).read(MUSTER_LAUNCH_ID="a/b c")
    assert allocation.launch_id == Sourced("a_b_c", "MUSTER_LAUNCH_ID")


def test_a_job_alone_names_no_launch() -> None:
    assert read(SLURM).launch_id is None


@pytest.mark.parametrize("change", ["SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"])
def test_launch_ids_of_other_jobs_steps_and_attempts_differ(change: str, tmp_path: Path) -> None:
    recording = load("slurm-step", tmp_path)
    assert recording.read().launch_id != recording.read(**{change: "9"}).launch_id


def test_ranks_of_a_launch_agree_on_its_id(tmp_path: Path) -> None:
    recording = load("slurm-step", tmp_path)
    others = recording.read(SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NODEID="0", SLURMD_NODENAME="gpu-010")
    assert recording.read().launch_id == others.launch_id


@pytest.mark.parametrize("command", ["scontrol", "squeue"])
def test_slurm_is_asked_for_the_end_time_that_it_does_not_tell(command: str, tmp_path: Path) -> None:
    end = datetime(2031, 5, 4, 3, 2, 1)
    put_on_path(
        tmp_path,
        command,
        f'[ "$SLURM_TIME_FORMAT" = standard ] && echo "JobId=1 EndTime={end:%FT%T} Deadline=N/A"',
    )
    environ = {**SLURM, "PATH": str(tmp_path / "bin")}
    assert read(environ, may_ask=True).end_time == Sourced(end.timestamp(), command)
    assert read(environ).end_time is None
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NODELIST": "n[1-2]"}
    assert read({**environ, **step}, may_ask=True).end_time is None


@pytest.mark.parametrize("script", ["exit 1", "echo EndTime=Unknown", "exec sleep 60"])
def test_a_command_that_fails_or_hangs_leaves_the_end_time_open(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.clusters.allocation.commands.SECONDS_TO_ANSWER", 0.2)
    put_on_path(tmp_path, "scontrol", script.replace("sleep", "/bin/sleep"))
    began = time.monotonic()
    assert read({**SLURM, "PATH": str(tmp_path / "bin")}, may_ask=True).end_time is None
    assert time.monotonic() - began < 10


def test_a_host_whose_name_slurm_spells_otherwise_is_found() -> None:
    environ = {**SLURM, "SLURM_JOB_NODELIST": "rack[1-2]", "SLURMD_NODENAME": "rack2"}
    assert read(environ).host_index == Sourced(1, "SLURMD_NODENAME")


def test_the_first_hosts_variables_on_a_rank_of_mpiexec_are_not_taken_for_its_own(tmp_path: Path) -> None:
    recording = load("slurm-mpiexec-mpich", tmp_path)
    assert read_allocation(recording.environ, replace(recording.machine, name="alias-of-n2")).host_index is None


def test_flux_is_asked_how_long_the_job_may_run(tmp_path: Path) -> None:
    put_on_path(tmp_path, "flux", '[ "$1 $2" = "job timeleft" ] && echo 600')
    environ = {"FLUX_ENCLOSING_ID": "f1", "PATH": str(tmp_path / "bin")}
    end = read(environ, may_ask=True).end_time
    assert end is not None
    assert end.value == pytest.approx(time.time() + 600, abs=30)


def test_scratch_is_a_folder_that_is_here(tmp_path: Path) -> None:
    environ = {**SLURM, "SLURM_TMPDIR": str(tmp_path / "gone"), "TMPDIR": str(tmp_path)}
    assert read(environ).scratch == Sourced(str(tmp_path), "TMPDIR")
    (tmp_path / "gone").mkdir()
    assert read(environ).scratch == Sourced(str(tmp_path / "gone"), "SLURM_TMPDIR")
    assert read({"TMPDIR": str(tmp_path / "nowhere")}).scratch == Sourced("/tmp", "default")


def test_counts_that_do_not_fit_the_hosts_are_doubted_not_used() -> None:
    allocation = read({**SLURM, "SLURM_JOB_CPUS_PER_NODE": "4(x3)"})
    assert allocation.hosts.value[1].cpus is None
    assert allocation.doubts == ("SLURM_JOB_CPUS_PER_NODE is for 3 hosts, SLURM_JOB_NODELIST names 2",)


def test_the_word_of_the_scheduler_alone_is_kept_beside_the_share(tmp_path: Path) -> None:
    allocation = read({**SLURM, "SLURM_JOB_CPUS_PER_NODE": "64(x2)"})
    assert allocation.granted is not None
    assert allocation.this_host is not None
    assert allocation.granted.cpus == Sourced(64, "SLURM_JOB_CPUS_PER_NODE")
    assert allocation.this_host.cpus == Sourced(4, "the affinity mask")


@pytest.mark.parametrize(("written", "gpus"), [("4", 4), ("a100:2", 2), ("gpu:a100:2", 2), ("a100:2,v100:1", 3)])
def test_gpus_by_type(written: str, gpus: int) -> None:
    hosts = read({**SLURM, "SLURM_GPUS_PER_NODE": written}).hosts.value
    assert hosts[1].gpus == Sourced(gpus, "SLURM_GPUS_PER_NODE")


def test_gpus_of_tasks_add_up_on_a_host() -> None:
    environ = {**SLURM, "SLURM_TASKS_PER_NODE": "2,3", "SLURM_TRES_PER_TASK": "cpu=8,gres/gpu=4"}
    assert [host.gpus and host.gpus.value for host in read(environ).hosts.value] == [8, 12]


def test_an_only_rank_among_many_tasks_is_doubted() -> None:
    environ = {**SLURM, "SLURM_NTASKS": "4", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
    assert (
        "OMPI_COMM_WORLD_SIZE says this is the only rank, but SLURM_NTASKS speaks of 4" in read(environ).doubts[0]
    )
    assert read({**environ, "OMPI_COMM_WORLD_SIZE": "4"}).doubts == ()


def test_a_library_of_another_mpi_than_mpirun_is_noticed() -> None:
    ranks = find_ranks({"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"})
    assert mpi_world_problem(ranks, 4) is None
    assert "mpich started 4 ranks (PMI_SIZE), but the MPI library finds 1" in str(mpi_world_problem(ranks, 1))
    assert mpi_world_problem(None, 1) is None


def test_a_sourced_value_reads_as_a_sentence() -> None:
    assert str(Sourced(1, "SLURM_CPUS_ON_NODE")) == "1 (from SLURM_CPUS_ON_NODE)"


def test_usable_cpus_are_those_of_the_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.clusters.allocation.reading.this_machine", lambda: MACHINE)
    assert usable_cpus() == 4
    for name, value in {**SLURM, "SLURM_JOB_CPUS_PER_NODE": "1(x2)"}.items():
        monkeypatch.setenv(name, value)
    assert usable_cpus() == 1
    monkeypatch.setenv("SLURM_JOB_NODELIST", "m[1-2]")
    assert usable_cpus() == 4
