"""PBS jobs: what the server is asked, by whom, and what is made of its answer."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from muster.clusters.allocation.model import Allocation, Host, Machine, Sourced
from muster.clusters.allocation.pbs_server import find_program, sum_chunks
from muster.clusters.allocation.reading import read_allocation
from muster.clusters.launching.launch_options import LaunchOptions
from muster.clusters.launching.local_ranks import RankCard
from muster.clusters.launching.plan import plan_host, shares_to_hand_on, with_told_share
from muster.clusters.launching.remote_ranks import find_shell
from muster.clusters.temporary import temporary_folder
from tests.clusters.fake_pbs import make_job
from tests.clusters.recordings import put_on_path

MACHINE = Machine("n1", cpus=64, gpus=0, memory=2**38, affinity=frozenset(range(64)))
START = datetime(2026, 11, 17, 4, 32, 51)
JOB = {
    "exec_host": "n1/0*4+n2/0*2",
    "exec_vnode": "(n1:ncpus=4:mem=2gb)+(n2:ncpus=2:mem=1gb)",
    "stime": "Tue Nov 17 04:32:51 2026",
    "Resource_List": {"walltime": "00:05:00"},
}
OPTIONS = LaunchOptions(command=["true"], records=Path("records"))
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_MCA_orte_precondition_transports": "11d2-cc8e"}


def pbs_job(folder: Path, job: dict[str, Any] | None = None, job_id: str = "47.pn0") -> dict[str, str]:
    """Return the environment of a job on n1 and n2, whose server answers qstat as OpenPBS does."""
    environ = make_job(folder, ["n1", "n1", "n2"], job or JOB, job_id=job_id)
    return {**environ, "PATH": f"{folder / 'bin'}:/bin:/usr/bin"}


def read(environ: dict[str, str], *, may_ask: bool = True) -> Allocation:
    return read_allocation(environ, MACHINE, may_ask=may_ask)


def shares(allocation: Allocation) -> list[tuple[int | None, int | None]]:
    """Return each host's CPUs and memory in MiB."""
    return [
        (host.cpus.value if host.cpus else None, host.memory.value // 2**20 if host.memory else None)
        for host in allocation.hosts.value
    ]


@pytest.mark.parametrize("job_id", ["47.pn0", "47", "47.pn0.site.example"])
def test_the_server_tells_shares_and_end(job_id: str, tmp_path: Path) -> None:
    allocation = read(pbs_job(tmp_path, job_id=job_id))
    assert shares(allocation) == [(4, 2048), (2, 1024)]
    assert allocation.end_time == Sourced(START.timestamp() + 300, "stime and walltime of qstat")


@pytest.mark.parametrize(
    ("walltime", "seconds"), [("00:05:00", 300), ("1:30", 90), ("100:00:01", 360_001), ("45", 45), ("soon", None)]
)
def test_wall_times_as_pbs_writes_them(walltime: str, seconds: int | None, tmp_path: Path) -> None:
    environ = pbs_job(tmp_path, {**JOB, "Resource_List": {"walltime": walltime}})
    end = read(environ).end_time
    assert (end and end.value - START.timestamp()) == seconds


@pytest.mark.parametrize("missing", ["stime", "Resource_List"])
def test_a_job_without_a_wall_time_has_no_end(missing: str, tmp_path: Path) -> None:
    job = {key: value for key, value in JOB.items() if key != missing}
    assert read(pbs_job(tmp_path, job)).end_time is None


@pytest.mark.parametrize(
    ("size", "memory"),
    [("512000kb", 512000 * 1024), ("500mb", 500 * 2**20), ("2gb", 2**31), ("1048576b", 2**20), ("2kw", 2**14)],
)
def test_sizes_as_pbs_writes_them(size: str, memory: int) -> None:
    assert sum_chunks(f"(v:ncpus=1:mem={size})", "h/0")["h"]["mem"] == memory


def test_a_vnode_that_is_not_named_as_its_host() -> None:
    found = sum_chunks("(gpu-a:ncpus=2+gpu-b:ncpus=1)+(gpu-a:ncpus=4)+(gpu-c:ncpus=8)", "h1/0*3+h1/1*4+h2.org/0*8")
    assert {name: share["ncpus"] for name, share in found.items()} == {"h1": 7, "h2": 8}
    assert {*sum_chunks("(v1:ncpus=2)+(v2:ncpus=1)", "h1/0*3")} == {"v1", "v2"}


@pytest.mark.parametrize("answer", ["", "{}", '{"Jobs": {}}', '{"Jobs": {"1": 7}}', "not json", '{"Jobs": []}'])
def test_without_an_answer_there_is_only_the_environment(answer: str, tmp_path: Path) -> None:
    environ = pbs_job(tmp_path)
    (tmp_path / "answer").write_text(answer)
    assert shares(read(environ)) == [(4, 2**18), (4, None)]


def test_only_the_first_rank_asks_the_server(tmp_path: Path) -> None:
    environ = {**pbs_job(tmp_path), **OPEN_MPI}
    first, second = (read({**environ, "OMPI_COMM_WORLD_RANK": rank}) for rank in "01")
    assert (tmp_path / "asked").read_text() == "asked\n"
    assert (first.are_handed_on, second.are_handed_on) == (True, False)
    assert [host.cpus for host in second.hosts.value][1] is None, "NCPUS is the first host's"


def test_the_head_tells_a_host_its_share(tmp_path: Path) -> None:
    told = json.loads(json.dumps(shares_to_hand_on(read(pbs_job(tmp_path)))))
    other = read_allocation({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "1"}, replace(MACHINE, name="n2"))
    plan = plan_host(with_told_share(other, told["n2"]), [RankCard(1, list(range(64)), None)], OPTIONS)
    assert (plan.share.cpus, plan.share.memory) == (2, 2**30)
    alone = plan_host(with_told_share(other, None), [RankCard(1, list(range(64)), None)], OPTIONS)
    assert (alone.share.cpus, alone.share.memory) == (64, 2**38)
    assert shares_to_hand_on(other) == {}


def test_qstat_is_found_where_path_has_none(tmp_path: Path) -> None:
    put_on_path(tmp_path, "qstat", "true")
    (tmp_path / "pbs.conf").write_text(f"PBS_SERVER=pn0\nPBS_EXEC={tmp_path}\n")
    found = str(tmp_path / "bin" / "qstat")
    assert find_program({"PATH": "/nowhere", "PBS_EXEC": str(tmp_path)}, "qstat") == found
    assert find_program({"PATH": "/nowhere", "PBS_CONF_FILE": str(tmp_path / "pbs.conf")}, "qstat") == found
    assert find_program({"PATH": "/nowhere", "PBS_CONF_FILE": str(tmp_path / "none.conf")}, "qstat") is None
    assert find_program({"PATH": "/nowhere", "PBS_EXEC": str(tmp_path)}, "pbs_tmrsh") is None


def test_without_pbs_tmrsh_there_is_no_remote_shell(tmp_path: Path) -> None:
    environ = pbs_job(tmp_path)
    shell = find_shell("pbs", environ)
    assert shell is not None
    assert shell.line(Host("n2"), ["/a b", "c"]) == [str(tmp_path / "bin" / "pbs_tmrsh"), "n2", "/a b", "c"]
    (tmp_path / "bin" / "pbs_tmrsh").unlink()
    assert find_shell("pbs", {**environ, "PBS_CONF_FILE": "/nowhere"}) is None


def test_ranks_with_and_without_pbs_variables_are_of_one_launch(tmp_path: Path) -> None:
    first = read({**pbs_job(tmp_path), **OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0"})
    other = read({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "1"})
    assert first.launch_id is not None
    assert first.launch_id == other.launch_id


def test_what_is_made_of_an_array_s_id_is_fit_for_a_file_name(tmp_path: Path) -> None:
    environ = {**pbs_job(tmp_path), "PBS_JOBID": "3[1].pn0", "PMI_RANK": "0", "PMI_JOBID": "7"}
    assert read(environ).launch_id == Sourced("pbs-3_1_.pn0-7", "PBS_JOBID and PMI_JOBID")


def test_a_folder_of_an_array_s_job_is_not_given_to_ray() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        place = Path(short) / "3[1].p"
        place.mkdir()
        with temporary_folder(place) as folder:
            assert folder.parent == Path("/tmp")


def test_an_end_that_the_server_tells_is_the_end_of_the_launch(tmp_path: Path) -> None:
    started = datetime.fromtimestamp(int(time.time()))
    environ = pbs_job(tmp_path, {**JOB, "stime": f"{started:%a %b %d %H:%M:%S %Y}"})
    end = read(environ).end_time
    assert end is not None
    assert end.value == started.timestamp() + 300
