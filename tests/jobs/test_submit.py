"""`muster submit` up to the scheduler's own command: scripts, names, refusals."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from muster.runs.metrics import FIRST_COLUMNS
from tests.commands import muster_here
from tests.jobs.conftest import Program

SBATCH = 'echo "$@" >> "$(dirname "$0")/sbatch.log"; echo 7$(wc -l < "$(dirname "$0")/sbatch.log")'


def test_a_dry_run_writes_nothing_and_needs_no_scheduler(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = muster_here("submit", "exp.toml", "--on", "slurm", "--nodes", "3", "--wall-time", "2h", "--dry-run")
    assert done.code == 0, done.err
    assert done.out.startswith("#!/bin/bash -l\n#SBATCH --job-name=sim-ppo\n")
    assert "#SBATCH --nodes=3\n" in done.out
    assert "MUSTER_END_TIME=${SLURM_JOB_END_TIME:-$(( $(date +%s) + 7200 ))}" in done.out
    assert "sbatch --parsable job.sh" in done.err
    assert not (project / "runs").exists()


def test_a_script_can_be_written_to_a_file(project: Path) -> None:
    done = muster_here("submit", "exp.toml", "--on", "pbs", "--render", "job.sh")
    assert done.code == 0, done.err
    assert "#PBS -N sim-ppo\n" in (project / "job.sh").read_text()
    assert not (project / "runs").exists()


@pytest.mark.parametrize("key", ["memory", "nodes", "cpus", "wall_time", "account", "queue", "qos", "constraint"])
def test_every_directive_can_be_left_out(project: Path, key: str) -> None:
    spelled = {"cpus": "cpus-per-task", "wall_time": "time", "queue": "partition", "memory": "mem"}.get(key, key)
    values = 'memory = "2G"\nnodes = 2\ncpus = 3\nwall_time = "1h"\naccount = "a"\nqueue = "q"\nqos = "h"\n'
    (project / "muster.toml").write_text(f'[clusters.mine]\nscheduler = "slurm"\n{values}constraint = "c"\n')
    assert f"--{spelled}=" in muster_here("submit", "exp.toml", "--on", "mine", "--dry-run").out
    text = (project / "muster.toml").read_text()
    lines = [f"{key} = false" if line.startswith(f"{key} =") else line for line in text.splitlines()]
    (project / "muster.toml").write_text("\n".join(lines))
    done = muster_here("submit", "exp.toml", "--on", "mine", "--dry-run")
    assert done.code == 0, done.err
    assert f"--{spelled}=" not in done.out


def test_what_is_submitted_is_in_the_run_s_folder(project: Path, program: Program) -> None:
    program("sbatch", SBATCH)
    done = muster_here("submit", "exp.toml", "--on", "slurm", "--wall-time", "1h", "--json")
    assert done.code == 0, done.err
    run = project / "runs" / "sim-ppo"
    assert json.loads(done.out) == {"run": str(run), "scheduler": "slurm", "jobs": ["71"]}
    assert (run / "code" / "sim.py").read_text() == (project / "sim.py").read_text()
    assert f'id = "{run}/code/sim.py:Sim"' in (run / "job" / "submitted.toml").read_text()
    assert json.loads((run / "status.json").read_text())["state"] == "queued"
    record = json.loads((run / "jobs.jsonl").read_text())
    assert (record["event"], record["job_id"]) == ("submitted", "71")
    assert "sim-ppo" in muster_here("runs").out


def test_links_ahead_each_wait_for_the_one_before(project: Path, program: Program) -> None:
    log = program("sbatch", SBATCH).with_name("sbatch.log")
    flags = ("--on", "slurm", "--wall-time", "1h", "--chain", "ahead", "--max-jobs", "3")
    assert muster_here("submit", "exp.toml", *flags).code == 0
    after = ["", "--dependency=afterany:71 ", "--dependency=afterany:72 "]
    assert log.read_text().splitlines() == [f"--parsable {words}job.sh" for words in after]


def test_a_refused_job_shows_the_command_and_leaves_nothing(project: Path, program: Program) -> None:
    program("sbatch", 'echo "sbatch: error: invalid account" >&2; exit 1')
    done = muster_here("submit", "exp.toml", "--on", "slurm", "--name", "mine", "--wall-time", "1h")
    assert done.code == 1
    assert "sbatch --parsable job.sh: failed with code 1\n    sbatch: error: invalid account" in done.err
    assert not (project / "runs" / "mine").exists()


def test_links_ahead_of_which_one_is_refused_are_all_taken_back(project: Path, program: Program) -> None:
    log = program("scancel", 'echo "$1" >> "$0.log"').with_name("scancel.log")
    program("sbatch", f'case "$*" in *:72*) echo "limit reached" >&2; exit 1;; esac; {SBATCH}')
    flags = ("--on", "slurm", "--wall-time", "1h", "--chain", "ahead", "--max-jobs", "3")
    assert muster_here("submit", "exp.toml", *flags).code == 1
    assert log.read_text().split() == ["71", "72"]
    assert not list((project / "runs").iterdir())


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--on", "slrum"], "--on slrum: no such cluster; did you mean slurm?"),
        ([], "--on: which cluster?"),
        (["--on", "slurm", "--memory", "12Q"], '--memory 12Q: expected a size such as "16G"'),
        (["--on", "slurm", "--nodes", "0"], "--nodes 0: Input should be greater than or equal to 1"),
        (["--on", "slurm", "--wall-time", "20s"], "--wall-time 20s: too short; starting and a checkpoint need"),
        (["--on", "slurm", "--chain", "hope"], "--chain hope: Input should be"),
        (["--on", "pbs", "--chain", "requeue"], "pbs cannot queue a job again"),
        (
            ["--on", "slurm", "--account", "a\nb"],
            ": expected text without line breaks",
        ),
        (["--on", "slurm", "--remote", "-oX"], "--remote -oX: expected a host as ssh knows it, such as me@login"),
        (["--on", "needy"], "--on needy: needs account"),
        (["--on", "slurm", "--render", "nowhere/job.sh"], "--render nowhere/job.sh: there is no folder nowhere"),
    ],
)
def test_bad_input_is_named_and_nothing_is_submitted(
    project: Path, program: Program, flags: list[str], expected: str
) -> None:
    (project / "muster.toml").write_text('[clusters.needy]\nscheduler = "slurm"\nrequires = ["account"]\n')
    called = program("sbatch", SBATCH).with_name("sbatch.log")
    done = muster_here("submit", "exp.toml", *flags)
    assert done.code == 2
    assert expected in done.err
    assert not called.exists()
    assert not (project / "runs").exists()


def test_what_the_partition_cannot_give_is_refused(project: Path, program: Program) -> None:
    program("sbatch", SBATCH)
    program("sinfo", 'echo "main*|3|4|4000|1:00:00|(null)"; echo "gpu|1|64|256000|infinite|gpu:a100:4"')
    flags = ["--nodes", "4", "--cpus", "8", "--memory", "8G", "--gpus", "1", "--wall-time", "2h"]
    done = muster_here("submit", "exp.toml", "--on", "slurm", *flags)
    assert done.code == 2
    for line in (
        "queue main cannot give this (from slurm)",
        "nodes = 4: expected at most 3",
        "cpus = 8: expected at most 4 on each host",
        "gpus = 1: expected at most 0 on each host",
        "memory = 8G: expected at most 3.906G on each host",
        "wall_time = 2h00m: expected at most 1h00m",
    ):
        assert line in done.err
    done = muster_here("submit", "exp.toml", "--on", "slurm", "--queue", "mian", "--wall-time", "1h")
    assert done.code == 2
    assert "slurm has no such queue; known: main, gpu" in done.err
    assert not (project / "runs").exists()
    flags = ["--queue", "gpu", "--cpus", "64", "--gpus", "4", "--wall-time", "100h"]
    assert muster_here("submit", "exp.toml", "--on", "slurm", *flags).code == 0


def test_a_wall_time_shorter_than_what_the_run_has_needed_is_refused(project: Path, program: Program) -> None:
    program("sbatch", SBATCH)
    program("squeue", 'echo "JOBID|STATE|START_TIME|REASON"')
    flags = ("--on", "slurm", "--name", "mine")
    assert muster_here("submit", "exp.toml", *flags, "--wall-time", "1h").code == 0
    columns = ",".join(FIRST_COLUMNS)
    values = "," * (len(FIRST_COLUMNS) - 2)
    rows = f"1,10{values},400.0\n2,20{values},900.0\n"
    (project / "runs" / "mine" / "metrics.csv").write_text(f"{columns},time/total\n{rows}")
    done = muster_here("submit", "exp.toml", *flags, "--wall-time", "5m", "--resume")
    assert done.code == 2
    assert "one iteration and a checkpoint of this run need about 9m00s" in done.err
    assert muster_here("submit", "exp.toml", *flags, "--wall-time", "10m", "--resume").code == 0


def test_a_simulator_that_is_not_registered_is_refused_before_the_job_waits(project: Path) -> None:
    done = muster_here("submit", "CartPol-v1", "--on", "slurm", "--dry-run")
    assert done.code == 2
    assert "did you mean CartPole-v1" in done.err


def test_a_name_that_is_taken_is_refused(project: Path, program: Program) -> None:
    program("sbatch", SBATCH)
    program("squeue", 'echo "JOBID|STATE|START_TIME|REASON"; echo "71|PENDING|N/A|Resources"')
    flags = ("--on", "slurm", "--wall-time", "1h", "--name", "mine")
    assert muster_here("submit", "exp.toml", *flags).code == 0
    done = muster_here("submit", "exp.toml", *flags)
    assert (done.code, "a run of that name exists" in done.err) == (2, True)
    for again in (["exp.toml", *flags, "--resume"], ["mine", "--resume"]):
        done = muster_here("submit", *again)
        assert done.code == 2
        assert "is queued (Resources), so it is not submitted again" in done.err


@pytest.mark.parametrize(
    "name", ["two words", "it's", 'a "quote"', "new\nline", "$(touch oops)", "-dash", "ünïcode"]
)
def test_odd_names_of_folders_reach_the_job_as_they_are(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for file in ("exp.toml", "sim.py"):
        (folder / file).write_bytes((project / file).read_bytes())
    monkeypatch.chdir(folder)
    done = muster_here("submit", "exp.toml", "--on", "slurm", "--wall-time", "1h", "--dry-run")
    assert done.code == 0, done.err
    script = done.out.replace("exec ", "printf '%s\\0' ").replace("#!/bin/bash -l", "")
    words = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split("\0")
    assert words[-2] == str(folder / "runs" / "sim-ppo")
    assert not list(tmp_path.rglob("oops"))


def test_a_command_runs_the_copied_script(project: Path) -> None:
    (project / "train.py").write_text("print('hello')\n")
    done = muster_here("submit", "--on", "slurm", "--dry-run", "--", "python", "train.py", "--out", "result.csv")
    assert done.code == 0, done.err
    assert f"-- python {project}/runs/python-command/code/train.py --out result.csv\n" in done.out


@pytest.mark.parametrize("words", [["exp.toml", "--on", "slurm", "--", "true"], ["--on", "slurm"], ["a", "b"]])
def test_an_experiment_or_a_command_is_needed(project: Path, words: list[str]) -> None:
    done = muster_here("submit", *words)
    assert done.code == 2
    assert "submit: " in done.err or "unexpected extra argument" in done.err


def test_clusters_are_listed_with_their_source(project: Path) -> None:
    (project / "muster.toml").write_text('[clusters.mine]\nscheduler = "slurm"\nnodes = 3\n')
    done = muster_here("clusters")
    assert done.code == 0, done.err
    assert "mine" in done.out
    assert str(project / "muster.toml") in done.out.replace("\n", "").replace(" ", "")
    assert "nodes = 3" in muster_here("clusters", "show", "mine").out
    assert muster_here("clusters", "show", "mien").code == 2


def test_a_cluster_can_stand_at_the_end_of_the_experiment(project: Path) -> None:
    text = (project / "exp.toml").read_text()
    (project / "exp.toml").write_text(text + '\n[clusters.here]\nscheduler = "lsf"\nnodes = 5\ncpus = 2\n')
    done = muster_here("submit", "exp.toml", "--on", "here", "--dry-run")
    assert done.code == 0, done.err
    assert "#BSUB -n 10\n" in done.out
    assert muster_here("check", "exp.toml").code == 0


def test_init_describes_this_scheduler(project: Path, program: Program) -> None:
    program("sbatch", SBATCH)
    program("sinfo", 'echo "main*|3|4|4000|1:00:00|(null)"; echo "gpu|1|64|256000|infinite|gpu:a100:4"')
    done = muster_here("clusters", "init", "mine", "-o", "muster.toml")
    assert done.code == 0, done.err
    shown = muster_here("submit", "exp.toml", "--on", "mine", "--dry-run").out
    assert "#SBATCH --partition=main\n" in shown
    assert "#SBATCH --cpus-per-task=4\n" in shown
    assert muster_here("submit", "exp.toml", "--on", "mine", "--nodes", "9", "--dry-run").code == 2
    assert muster_here("clusters", "init", "mine", "-o", "muster.toml").code == 2
