"""The lab itself: its hosts are hosts of their own, its faults are faults, and its services work."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .cluster import Lab, clear_leftovers
from .control_groups import can_track_jobs
from .errors import CommandFailedError
from .gridengine import GridEngine
from .host import Host
from .layout import REPOSITORY
from .mpi import Mpi
from .services import Services
from .slurm import CPUS_PER_NODE, Slurm
from .sshd import Sshd
from .waiting import wait_until

pytestmark = pytest.mark.lab


def can_reach(host: Host, other: Host) -> bool:
    """Whether a packet gets to the other host and an answer back: a refused connection is an answer."""
    script = (
        "import socket, sys\n"
        "try: socket.create_connection((sys.argv[1], 9), timeout=1)\n"
        "except ConnectionRefusedError: sys.exit(0)\n"
        "except OSError: sys.exit(1)\n"
    )
    return host.run([sys.executable, "-c", script, other.name], check=False).returncode == 0


def commands(host: Host) -> list[tuple[str, ...]]:
    return [process.command for process in host.processes()]


def test_each_host_has_a_name_and_an_address_of_its_own(lab: Lab) -> None:
    for host in lab.hosts.values():
        assert host.run(["hostname"]).stdout.strip() == host.name
        assert host.run(["hostname", "-i"]).stdout.strip() == str(host.address)


def test_hosts_reach_each_other(lab: Lab) -> None:
    node1, node2, _ = lab.nodes
    assert can_reach(node1, node2)
    assert can_reach(lab.login, node1)


def test_nothing_is_added_to_the_machines_network(lab: Lab) -> None:
    devices = subprocess.run(["ip", "-brief", "address"], capture_output=True, text=True, check=True).stdout
    assert "to-node1" not in devices
    assert "10.77.0." not in devices


def test_an_unknown_name_is_unknown_at_once(lab: Lab) -> None:
    assert lab.nodes[0].run(["getent", "hosts", "nowhere.example"], check=False, limit_s=2).returncode == 2


def test_each_host_has_a_process_table_of_its_own(lab: Lab) -> None:
    node1, node2, _ = lab.nodes
    node1.popen(["sleep", "1001"])
    wait_until(lambda: ("sleep", "1001") in commands(node1), "sleep on node1")
    assert "sleep 1001" in node1.run(["ps", "-ef"]).stdout
    assert "sleep 1001" not in node2.run(["ps", "-ef"]).stdout
    assert ("sleep", "1001") not in commands(node2)


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/run"])
def test_some_folders_are_each_hosts_own(lab: Lab, folder: str) -> None:
    node1, node2, _ = lab.nodes
    mine = Path(folder) / "mine"
    node1.run(["touch", mine])
    assert node1.path(mine).exists()
    assert not node2.path(mine).exists()
    assert not mine.exists()


def test_the_shared_folder_and_the_home_folder_are_shared(lab: Lab, shared: Path) -> None:
    node1, node2, _ = lab.nodes
    node1.run(["sh", "-c", f"echo ours >{shared}/file; echo ours >$HOME/file"])
    assert node2.run(["sh", "-c", f"cat {shared}/file $HOME/file"]).stdout == "ours\nours\n"
    assert not (Path.home() / "file").exists()


def test_this_python_runs_on_the_hosts_for_any_user(lab: Lab) -> None:
    for user in ("root", "nobody"):
        found = lab.nodes[0].run(["python", "-c", "import sys, numpy; print(sys.prefix)"], user=user)
        assert found.stdout.strip() == sys.prefix


def test_a_commands_signals_and_exit_code_are_its_own(lab: Lab, shared: Path) -> None:
    node1 = lab.nodes[0]
    script = f"trap 'exit 7' TERM; touch {shared}/ready; while :; do sleep 0.01; done"
    process = node1.popen(["sh", "-c", script])
    wait_until((shared / "ready").exists, "the trap to be set")
    process.terminate()
    assert process.wait() == 7
    assert node1.run(["sh", "-c", "kill -9 $$"], check=False).returncode == -signal.SIGKILL


def test_a_failed_command_shows_what_it_printed(lab: Lab) -> None:
    with pytest.raises(CommandFailedError, match=r"(?s)node1: sh -c .*exit code 3.*stdout:\nout\nstderr:\nerr"):
        lab.nodes[0].run(["sh", "-c", "echo out; echo err >&2; exit 3"])


def test_a_command_that_takes_too_long_is_ended(lab: Lab) -> None:
    with pytest.raises(CommandFailedError, match=r"not done after 0.5 s"):
        lab.nodes[0].run(["sleep", "1002"], limit_s=0.5)
    wait_until(lambda: ("sleep", "1002") not in commands(lab.nodes[0]), "sleep to be gone")


def test_a_crashed_host_is_gone_at_once_and_comes_back_empty(lab: Lab, lab_services: Services) -> None:
    node1, node2, node3 = lab.nodes
    process = node2.popen(["sh", "-c", "touch /tmp/mine; sleep 1003"])
    wait_until(node2.path("/tmp/mine").exists, "the command to start")
    node2.crash()
    assert process.wait(timeout=5) == -signal.SIGKILL
    assert not node2.is_up()
    assert not can_reach(node1, node2)
    assert can_reach(node1, node3)
    lab_services.boot(node2)
    wait_until(lambda: can_reach(node1, node2), "node2 to be back")
    assert ("sleep", "1003") not in commands(node2)
    assert not node2.path("/tmp/mine").exists()


def test_a_cut_link_lets_nothing_through_until_it_is_mended(lab: Lab) -> None:
    node1, node2, node3 = lab.nodes
    node2.cut()
    assert not can_reach(node1, node2)
    assert not can_reach(node2, node3)
    assert node2.is_up()
    node2.mend()
    wait_until(lambda: can_reach(node1, node2), "the link to be back")


def test_a_slow_link_takes_its_time(lab: Lab, sshd: Sshd) -> None:
    node1, node2, _ = lab.nodes

    def seconds_to_send() -> float:
        start = time.monotonic()
        sent = node1.run(["sh", "-c", "head -c 100000 /dev/zero | ssh node2 wc -c"])
        assert sent.stdout.strip() == "100000"
        return time.monotonic() - start

    node2.slow("1mbit")
    slow = seconds_to_send()
    assert slow > 0.6  # 100 kB at 1 Mbit/s, less the burst that the link lets through
    node2.mend()
    assert seconds_to_send() < slow


def test_the_hosts_of_a_killed_owner_end_with_it(lab: Lab) -> None:
    script = (
        "import time\n"
        "from tests.lab.cluster import owned_lab\n"
        "with owned_lab(1) as lab:\n"
        "    print(lab.layout.root, lab.nodes[0].path('/').parent.name, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    root, first_process = owner.stdout.readline().split()
    assert Path("/proc", first_process).exists()
    owner.kill()
    owner.communicate()
    wait_until(lambda: not Path("/proc", first_process).exists(), "the orphaned host to end")
    clear_leftovers()
    assert not Path(root).exists()


def test_slurm_runs_a_step_on_all_hosts(lab: Lab, slurm: Slurm) -> None:
    step = lab.login.run(["srun", "--nodes=3", "sh", "-c", "echo $SLURMD_NODENAME $(hostname)"])
    assert sorted(step.stdout.splitlines()) == ["node1 node1", "node2 node2", "node3 node3"]


def test_slurm_gives_a_job_what_it_asked_for(slurm: Slurm, shared: Path) -> None:
    script = "#!/bin/sh\necho $SLURM_JOB_NODELIST $SLURM_JOB_CPUS_PER_NODE\n"
    whole = slurm.submit(script, "--nodes=2", "--exclusive", f"--output={shared}/whole")
    part = slurm.submit(script, "--ntasks=1", f"--output={shared}/part")
    assert slurm.wait_for_state(whole) == slurm.wait_for_state(part) == "COMPLETED"
    assert (shared / "whole").read_text() == f"node[1-2] {CPUS_PER_NODE}(x2)\n"
    assert (shared / "part").read_text().split()[1] == "1"


def test_scancel_ends_a_job_with_what_it_left_behind(lab: Lab, slurm: Slurm, shared: Path) -> None:
    if not can_track_jobs():
        pytest.skip("Slurm tracks processes by control groups of version 1 only")
    node1 = lab.nodes[0]
    script = f"#!/bin/sh\nsetsid sleep 1005 &\ntouch {shared}/ready\nsleep 1005\n"
    job = slurm.submit(script, "--nodelist=node1")
    wait_until((shared / "ready").exists, "the job to run")
    slurm.cancel(job)
    assert slurm.state(job) == "CANCELLED"
    wait_until(lambda: ("sleep", "1005") not in commands(node1), "the job's processes to end")


def test_jobs_of_every_user_are_cancelled(lab: Lab, slurm: Slurm) -> None:
    submit = ["sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 1006"]
    job = lab.login.run(submit, user="daemon", cwd=Path("/tmp")).stdout.strip()
    slurm.wait_for_state(job, "RUNNING")
    slurm.cancel_all()
    assert slurm.state(job) == "CANCELLED"


def test_slurm_knows_a_host_that_came_back(lab: Lab, lab_services: Services, slurm: Slurm) -> None:
    node2 = lab.host("node2")
    node2.crash()
    lab_services.boot(node2)
    assert lab.login.run(["srun", "--nodelist=node2", "hostname"]).stdout.strip() == "node2"


def test_slurm_survives_a_crash_of_the_login_host(lab: Lab, lab_services: Services, slurm: Slurm) -> None:
    lab.login.crash()
    lab_services.boot(lab.login)
    assert lab.login.run(["srun", "--nodelist=node3", "hostname"]).stdout.strip() == "node3"


@pytest.mark.long
def test_gridengine_gives_a_job_whole_hosts(gridengine: GridEngine, shared: Path) -> None:
    script = "#!/bin/sh\ncut -d ' ' -f 1-2 $PE_HOSTFILE | sort\nqrsh -inherit node2 hostname\n"
    job = gridengine.submit(script, "-pe", "hosts", "12", "-j", "y", "-o", f"{shared}/out")
    gridengine.wait_for_end(job)
    assert (shared / "out").read_text().splitlines() == ["node1 4", "node2 4", "node3 4", "node2"]


@pytest.mark.long
def test_gridengine_takes_jobs_on_a_host_that_came_back(
    lab: Lab, lab_services: Services, gridengine: GridEngine, shared: Path
) -> None:
    node2 = lab.host("node2")
    node2.crash()
    lab_services.boot(node2)
    gridengine.wait_for_end(gridengine.submit("#!/bin/sh\nhostname\n", "-q", "*@node2", "-o", f"{shared}/out"))
    assert (shared / "out").read_text() == "node2\n"


def test_ssh_between_hosts(lab: Lab, sshd: Sshd) -> None:
    node1, node2, _ = lab.nodes
    assert node1.run(["ssh", "node2", "hostname"]).stdout.strip() == "node2"
    through_file = ["ssh", "-F", str(sshd.configuration), str(node1.address), "hostname"]
    assert node2.run(through_file).stdout.strip() == "node1"


def test_mpirun_starts_ranks_on_all_hosts(lab: Lab, mpi: Mpi) -> None:
    script = "echo $(hostname) ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} of ${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}"
    ranks = mpi.run(lab.nodes, 2, ["sh", "-c", script]).stdout.splitlines()
    assert sorted(ranks) == [
        *("node1 0 of 6", "node1 1 of 6"),
        *("node2 2 of 6", "node2 3 of 6"),
        *("node3 4 of 6", "node3 5 of 6"),
    ]


def test_mpirun_starts_ranks_on_one_host(lab: Lab, mpi: Mpi) -> None:
    ranks = mpi.run(lab.nodes[:1], 4, ["hostname"]).stdout.splitlines()
    assert ranks == ["node1"] * 4
