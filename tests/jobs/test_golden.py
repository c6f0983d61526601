"""The job script of every scheduler and profile, as `muster submit --dry-run` prints it.

`pytest tests/jobs/test_golden.py --write-golden` writes the files anew.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from muster.clusters.named import SITES
from tests.commands import muster_here
from tests.fakes.core import HostEntry, QueueEntry
from tests.fakes.site import FakeSite

GOLDEN = Path(__file__).with_name("golden")
SCHEDULERS = ("slurm", "pbs", "cobalt", "lsf", "sge", "flux")
"""Those that read directives."""
PROFILES = tuple(sorted(path.stem for path in SITES.glob("*.toml")))
EVERYTHING = "--nodes 3 --cpus 4 --gpus 1 --memory 8G --wall-time 90m --account proj --queue workq"
CASES = {
    **{name: f"--on {name}" for name in SCHEDULERS if name != "cobalt"},
    "cobalt": "--on cobalt --wall-time 1h",
    **{f"{name}-everything": f"--on {name} {EVERYTHING}" for name in SCHEDULERS},
    **{f"{name}-seeds": f"--on {name} --seeds 3 --wall-time 1h" for name in ("slurm", "pbs", "lsf", "sge")},
    "cobalt-constraint": "--on cobalt --wall-time 1h --constraint mcdram=cache:numa=quad",
    **{f"{name}-requeue": f"--on {name} --chain requeue" for name in ("slurm", "lsf")},
    "local": "--on local",
    "local-wall-time": "--on local --wall-time 1h --chain dependency",
    **{name: f"--on {name} --account proj" for name in PROFILES},
}
WITHOUT_FAKE = ("slurm", "sge", "local", "eagle", "frontier", "kestrel", "lumi", "perlmutter")
HOSTS = tuple(HostEntry(f"node{number}", cpus=64, memory_mib=600_000) for number in range(1, 5))
QUEUES = {name: QueueEntry() for name in ("workq", "debug", "debug-cache-quad")}


def rendered(case: str, project: Path) -> tuple[str, str]:
    """Return the submitting command and the script of a case."""
    done = muster_here("submit", "CartPole-v1", "--name", "run", "--dry-run", *shlex.split(CASES[case]))
    assert done.code == 0, done.err
    command = " ".join(done.err.split()).partition(": ")[2].rpartition(", with this")[0]
    return command, done.out


@pytest.mark.parametrize("case", CASES)
def test_scripts_are_as_they_were(case: str, project: Path, pytestconfig: pytest.Config) -> None:
    command, script = rendered(case, project)
    text = script.replace("\n", f"\n# Submitted with: {command}\n", 1)
    text = text.replace(sys.executable, "/python").replace(str(project), "/project")
    path = GOLDEN / f"{case}.sh"
    if pytestconfig.getoption("--write-golden"):
        path.write_text(text)
    assert text == path.read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if case.partition("-")[0] not in WITHOUT_FAKE])
def test_schedulers_accept_every_directive(case: str, project: Path) -> None:
    """The fakes refuse what the real ones would; nothing is started."""
    command, script = rendered(case, project)
    words = shlex.split(command)
    scheduler = {"bsub": "lsf", "flux": "flux"}.get(words[0], "cobalt" if "#COBALT" in script else "pbs")
    site = FakeSite(project / "site", scheduler, HOSTS, QUEUES)
    site.pause()
    path = project / words[-1] if scheduler != "lsf" else project / "job.sh"
    path.write_text(script)
    path.chmod(0o755)
    done = site.run(*words, stdin=script if scheduler == "lsf" else "", cwd=project)
    assert done.returncode == 0, done.stderr
    tasks = 3 if case.endswith("-seeds") else 1
    assert [job.extra.get("impossible") for job in site.jobs()] == [None] * tasks


@pytest.mark.parametrize("scheduler", ["cobalt", "flux", "local"])
def test_seeds_are_jobs_of_their_own_where_there_are_no_arrays(scheduler: str, project: Path) -> None:
    done = muster_here(
        "submit", "CartPole-v1", "--dry-run", "--on", scheduler, "--seeds", "2", "--wall-time", "1h"
    )
    assert done.code == 0, done.err
