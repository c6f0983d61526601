"""A real Slurm on the lab's hosts: the controller on `login`, one slurmd on each node."""

import os
import secrets
from pathlib import Path

from .cluster import Lab
from .control_groups import can_track_jobs
from .errors import LabError, WaitTimeoutError
from .host import Host
from .waiting import wait_until

CPUS_PER_NODE = 4
MEMORY_MIB_PER_NODE = 4000
PARTITION = "main"
DAEMONS = ("munged", "slurmctld", "slurmscriptd", "slurmd")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

ENDED_STATES = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}
)

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost=login
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/controller
SlurmctldLogFile={folder}/slurmctld.log
SlurmctldPidFile=/run/slurmctld.pid
# On a host's own /run: like a diskless node, it forgets everything in a crash.
SlurmdSpoolDir=/run/slurmd
SlurmdPidFile=/run/slurmd.pid
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/{tracking}
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=5,sched_min_interval=100000
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed-jobs.txt
FirstJobId={first_job}
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
BatchStartTimeout=10
MessageTimeout=10
KillWait=5
# Lets a host claim more CPUs than the machine has.
SlurmdParameters=config_overrides
NodeName=node[1-{num_nodes}] CPUs={cpus} Sockets=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory={memory}
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

CGROUP_CONFIGURATION = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
"""


class Slurm:
    """The Slurm of a lab; its commands are on PATH on every host and need no setting."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._folder = lab.layout.service("slurm")

    def start(self) -> None:
        """Start it on all hosts, and return when every node is idle."""
        for folder in (self._folder, self._configuration, self._folder / "controller"):
            folder.mkdir()
        self._write_configuration()
        for host in self._lab.hosts.values():
            self._start_daemons(host)
        wait_until(self._all_idle, f"all nodes to be idle; Slurm's logs are in {self._folder}")

    def is_set_up(self) -> bool:
        """Whether this lab has a Slurm."""
        return self._configuration.exists()

    def rejoin(self, host: Host) -> None:
        """Start the daemons on a host that was booted again; return when the controller has heard of it."""
        before = self._node(host.name).get("SlurmdStartTime")
        self._start_daemons(host)
        if host is self._lab.login:
            wait_until(self._controller_answers, "slurmctld to answer")
        else:
            registered = f"slurmd on {host.name} to register"
            wait_until(lambda: self._node(host.name).get("SlurmdStartTime") != before, registered)

    def submit(self, script: str, *options: str, host: Host | None = None) -> str:
        """Submit a job script that is written to the shared folder; returns the job's id."""
        path = self._lab.shared / f"job-{secrets.token_hex(4)}.sh"
        path.write_text(script)
        submitted = (host or self._lab.login).run(["sbatch", "--parsable", *options, path])
        return submitted.stdout.strip()

    def state(self, job: str) -> str:
        """The state of a job in Slurm's words, such as RUNNING."""
        return self._show("job", job)["JobState"]

    def wait_for_state(self, job: str, *states: str, limit_s: float = 60.0) -> str:
        """Wait until the job is in one of `states`, or else has ended; returns its state."""
        last = ""

        def reached() -> bool:
            nonlocal last
            last = self.state(job)
            return last in states or last in ENDED_STATES

        try:
            wait_until(reached, f"job {job} to be {' or '.join(states) or 'ended'}", limit_s)
        except WaitTimeoutError as error:
            queue = self._lab.login.run(["squeue", "--long"]).stdout
            raise LabError(f"{error}; it is {last}. The queue:\n{queue}") from None
        return last

    def cancel(self, job: str) -> None:
        """Cancel a job, and return when Slurm calls it ended."""
        self._lab.login.run(["scancel", job])
        self.wait_for_state(job)

    def cancel_all(self) -> None:
        """Cancel every job of every user, and return when the queue is empty."""
        if jobs := self._queue("%A").split():
            self._lab.login.run(["scancel", *jobs])
            try:
                wait_until(lambda: not self._queue(), "Slurm's queue to be empty", limit_s=90.0)
            except WaitTimeoutError as error:
                raise LabError(f"{error}; in it:\n{self._queue()}") from None

    @property
    def _configuration(self) -> Path:
        """What is /etc/slurm on the hosts."""
        return self._folder / "etc"

    def _write_configuration(self) -> None:
        text = CONFIGURATION.format(
            folder=self._folder,
            tracking="cgroup" if can_track_jobs() else "linuxproc",
            # Jobs of two labs on one machine must not meet in the control groups, which are named by job.
            first_job=1 + 1000 * (os.getpid() % 60_000),
            num_nodes=len(self._lab.nodes),
            cpus=CPUS_PER_NODE,
            memory=MEMORY_MIB_PER_NODE,
            partition=PARTITION,
        )
        (self._configuration / "slurm.conf").write_text(text)
        (self._configuration / "cgroup.conf").write_text(CGROUP_CONFIGURATION)
        key = self._folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))

    def _start_daemons(self, host: Host) -> None:
        host.run(["mount", "--bind", self._configuration, "/etc/slurm"])
        host.run(
            [
                "munged",
                f"--key-file={self._folder / 'munge.key'}",
                f"--log-file={self._folder / f'munged-{host.name}.log'}",
                "--seed-file=/run/munge/seed",
            ]
        )
        host.run(["slurmctld"] if host is self._lab.login else ["slurmd", "-b"])

    def _controller_answers(self) -> bool:
        return self._lab.login.run(["scontrol", "ping"], check=False).returncode == 0

    def _all_idle(self) -> bool:
        states = self._lab.login.run(["sinfo", "--noheader", "--Node", "--format=%T"], check=False).stdout
        return states.split() == ["idle"] * len(self._lab.nodes)

    def _queue(self, line: str = "%A %u %T %R") -> str:
        return self._lab.login.run(["squeue", "--noheader", f"--format={line}"]).stdout

    def _node(self, name: str) -> dict[str, str]:
        return self._show("node", name) if name != self._lab.login.name else {}

    def _show(self, what: str, name: str) -> dict[str, str]:
        shown = self._lab.login.run(["scontrol", "--oneliner", "show", what, name]).stdout
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)
