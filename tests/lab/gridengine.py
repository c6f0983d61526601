"""A real Grid Engine on the lab's hosts: the master on `login`, one execution daemon on each node."""

import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from .cluster import Lab
from .host import Host
from .waiting import wait_until

SLOTS_PER_NODE = 4
QUEUE = "main.q"
DAEMONS = ("sge_qmaster", "sge_execd")
PROGRAMS = ("sge_qmaster", "sge_execd", "qsub", "qconf")

# The machine's folders that the lab's own hide on the hosts.
ROOT = Path("/var/lib/gridengine")
SPOOL = Path("/var/spool/gridengine")
SETUP_SCRIPT = "/usr/share/gridengine/scripts/init_cluster"
BOOTSTRAP = Path("/usr/share/gridengine/default-bootstrap")

CONFIGURATION = {
    # Jobs of root are refused otherwise.
    "min_uid": "0",
    "min_gid": "0",
    "load_report_time": "00:00:05",
    "max_unheard": "00:00:30",
    "mailer": "/bin/true",
    # End what a job leaves behind.
    "execd_params": "ENABLE_ADDGRP_KILL=TRUE",
}
SCHEDULER = {
    "schedule_interval": "0:0:1",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    "job_load_adjustments": "NONE",
}

_LIMITED = ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
_NOTHING = (
    *("load_thresholds", "suspend_thresholds", "subordinate_list", "ckpt_list", "calendar", "complex_values"),
    *("prolog", "epilog", "starter_method", "suspend_method", "resume_method", "terminate_method"),
    *("owner_list", "user_lists", "xuser_lists", "projects", "xprojects"),
)
QUEUE_CONFIGURATION = {
    "qname": QUEUE,
    "hostlist": "@allhosts",
    "seq_no": "0",
    "nsuspend": "1",
    "suspend_interval": "00:05:00",
    "priority": "0",
    "min_cpu_interval": "00:05:00",
    "processors": "UNDEFINED",
    "qtype": "BATCH INTERACTIVE",
    "pe_list": "hosts",
    "rerun": "FALSE",
    "slots": str(SLOTS_PER_NODE),
    "tmpdir": "/tmp",
    "shell": "/bin/bash",
    "shell_start_mode": "unix_behavior",
    "notify": "00:00:05",
    "initial_state": "default",
    **dict.fromkeys(_NOTHING, "NONE"),
    **{f"{kind}_{what}": "INFINITY" for kind in ("s", "h") for what in _LIMITED},
}
PARALLEL_ENVIRONMENT = {
    # Whole hosts, with `qrsh -inherit` to reach them: qsub -pe hosts 12 is 3 hosts.
    "pe_name": "hosts",
    "slots": "999",
    "user_lists": "NONE",
    "xuser_lists": "NONE",
    "start_proc_args": "NONE",
    "stop_proc_args": "NONE",
    "allocation_rule": str(SLOTS_PER_NODE),
    "control_slaves": "TRUE",
    "job_is_first_task": "FALSE",
    "urgency_slots": "min",
    "accounting_summary": "FALSE",
    "qsort_args": "NONE",
}


class GridEngine:
    """The Grid Engine of a lab; its commands are on PATH on every host and need no setting."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._folder = lab.layout.service("gridengine")
        self._root = self._folder / "root"
        self._spool = self._folder / "spool"

    def start(self) -> None:
        """Start it on all hosts, and return when every node takes jobs."""
        self._lay_out()
        for host in self._lab.hosts.values():
            self._mount(host)
        master = self._lab.login
        setup = [SETUP_SCRIPT, str(ROOT), "default", str(SPOOL / "spooldb"), "sgeadmin"]
        master.run(setup, user="sgeadmin")
        master.run(["sge_qmaster"])
        wait_until(lambda: master.run(["qconf", "-sh"], check=False).returncode == 0, "qmaster")
        self._configure()
        for node in self._lab.nodes:
            node.run(["sge_execd"])
        for node in self._lab.nodes:
            self._wait_ready(node)

    def is_set_up(self) -> bool:
        """Whether this lab has a Grid Engine."""
        return self._root.exists()

    def rejoin(self, host: Host) -> None:
        """Start the daemon on a host that was booted again, and return when it takes jobs."""
        self._mount(host)
        host.run(["sge_qmaster" if host is self._lab.login else "sge_execd"])
        if host is not self._lab.login:
            self._wait_ready(host)

    def submit(self, script: str, *options: str) -> str:
        """Submit a job script that is written to the shared folder; returns the job's id."""
        path = self._lab.shared / f"job-{secrets.token_hex(4)}.sh"
        path.write_text(script)
        command = ["qsub", "-terse", "-cwd", "-V", *options, str(path)]
        return self._lab.login.run(command).stdout.strip()

    def wait_for_end(self, job: str, limit_s: float = 60.0) -> None:
        """Wait until the job is known no more: it has run, or was deleted."""

        def is_gone() -> bool:
            return self._lab.login.run(["qstat", "-j", job], check=False).returncode != 0

        wait_until(is_gone, f"Grid Engine's job {job} to end", limit_s)

    def cancel_all(self) -> None:
        """Delete every job, and return when the queue is empty."""
        if self._queue():
            self._lab.login.run(["qdel", "-u", "*"])
            wait_until(lambda: not self._queue(), "Grid Engine's queue to be empty", limit_s=60.0)

    def _lay_out(self) -> None:
        shutil.copytree(ROOT, self._root, symlinks=True, ignore=shutil.ignore_patterns("default"))
        common = self._root / "default" / "common"
        spools = [self._spool / name for name in ("qmaster/job_scripts", "spooldb", "execd")]
        for folder in (common, *spools):
            folder.mkdir(parents=True)
        shutil.copy(BOOTSTRAP, common / "bootstrap")
        (common / "act_qmaster").write_text(f"{self._lab.login.name}\n")
        for path in (self._folder, *self._folder.rglob("*")):
            if not path.is_symlink():
                shutil.chown(path, "sgeadmin", "sgeadmin")

    def _mount(self, host: Host) -> None:
        host.run(["mount", "--bind", self._root, ROOT])
        host.run(["mount", "--bind", self._spool, SPOOL])

    def _configure(self) -> None:
        names = " ".join(node.name for node in self._lab.nodes)
        for host in self._lab.hosts.values():
            for list_of_hosts in ("-ah", "-as"):
                # The master's own host is an administrative one from the start.
                self._lab.login.run(["qconf", list_of_hosts, host.name], check=False)
        self._configure_from("-Ahgrp", {"group_name": "@allhosts", "hostlist": names})
        self._configure_from("-Ap", PARALLEL_ENVIRONMENT)
        self._configure_from("-Aq", QUEUE_CONFIGURATION)
        self._configure_from("-Mconf", self._shown("-sconf") | CONFIGURATION, "global")
        self._configure_from("-Msconf", self._shown("-ssconf") | SCHEDULER)

    def _configure_from(self, option: str, values: Mapping[str, str], file_name: str = "values") -> None:
        path = self._folder / file_name
        path.write_text("".join(f"{name} {value}\n" for name, value in values.items()))
        self._lab.login.run(["qconf", option, path])

    def _shown(self, option: str) -> dict[str, str]:
        shown = self._lab.login.run(["qconf", option]).stdout.replace("\\\n", "")
        return dict(re.findall(r"^(\w+)\s+(.+)$", shown, flags=re.MULTILINE))

    def _wait_ready(self, node: Host) -> None:
        """A queue whose host has not reported yet shows `-NA-` for its load."""

        def is_ready() -> bool:
            command = ["qstat", "-f", "-q", f"{QUEUE}@{node.name}"]
            shown = self._lab.login.run(command, check=False).stdout
            return re.search(rf"^{QUEUE}@{node.name}\s.*\s[\d.]+\s+lx-amd64\s*$", shown, re.MULTILINE) is not None

        wait_until(is_ready, f"Grid Engine on {node.name}; its messages are in {self._spool}")

    def _queue(self) -> str:
        return self._lab.login.run(["qstat", "-u", "*"]).stdout
