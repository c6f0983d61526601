"""How long a cluster takes to start, to train and to end on three lab hosts under Slurm.

Compares `muster submit`, `muster launch` in a script of one's own, `ray symmetric-run`, and the classic script
that sleeps between head and workers. Each then trains one iteration with two workers.
"""

from __future__ import annotations

import json
import shlex
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab.cluster import Lab, owned_lab
from tests.lab.services import Services
from tests.lab.slurm import Slurm

ROUNDS = 3
HOSTS = 3
LIMIT_SECONDS = 200.0
PYTHON = sys.executable
MUSTER = str(Path(PYTHON).with_name("muster"))
PROLOGUE = "#!/bin/bash\ndate +%s.%N > {folder}/started\n"
TRAIN = f"{MUSTER} train CartPole-v1 --workers 2 --stop-iterations 1 --runs-dir {{folder}}/runs --name run --quiet"
COMMAND = f"bash -c 'date +%s.%N > {{folder}}/ran; {TRAIN}'"
RAY = f"{PYTHON} -m ray.scripts.scripts"

LAUNCH = f"srun {MUSTER} launch --runs-dir {{folder}}/runs -- {COMMAND}\n"
SYMMETRIC = f"""export RAY_AUTH_MODE=disabled RAY_USAGE_STATS_ENABLED=0
head=$(getent hosts $(scontrol show hostnames $SLURM_JOB_NODELIST | head -1) | cut -d' ' -f1)
export RAY_ADDRESS=$head:6379
srun {RAY} symmetric-run --address $head:6379 --min-nodes {HOSTS} --num-cpus=4 \\
  --object-store-memory=200000000 -- {COMMAND}
"""
CLASSIC = f"""export RAY_AUTH_MODE=disabled RAY_USAGE_STATS_ENABLED=0
nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))
head=$(getent hosts ${{nodes[0]}} | cut -d' ' -f1)
options="--num-cpus=4 --object-store-memory=200000000 --block"
srun -N1 -n1 --overlap -w ${{nodes[0]}} {RAY} start --head --node-ip-address=$head --port=6379 $options &
sleep 10
for node in ${{nodes[@]:1}}; do
  srun -N1 -n1 --overlap -w $node {RAY} start --address=$head:6379 $options &
  sleep 5
done
export RAY_ADDRESS=$head:6379
{COMMAND}
"""
SUBMIT = "muster submit"
WAYS = {
    SUBMIT: "",
    "muster launch": LAUNCH,
    "ray symmetric-run": SYMMETRIC,
    "head, workers and sleeps (Eagle)": CLASSIC,
}


@dataclass(frozen=True)
class Times:
    """Seconds from the job's start."""

    to_command: float
    to_training: float
    to_end: float


def run() -> str:
    """Run every way in turn, several rounds."""
    figures: dict[str, list[Times]] = {name: [] for name in WAYS}
    with owned_lab(HOSTS) as lab:
        services = Services(lab)
        slurm = services.slurm()
        for number in range(ROUNDS):
            for index, (name, script) in enumerate(WAYS.items()):
                folder = lab.shared / f"{number}-{index}"
                folder.mkdir()
                job = _submit(lab, folder) if name == SUBMIT else _send(slurm, folder, script)
                slurm.wait_for_state(job, "COMPLETED", "FAILED", "CANCELLED", limit_s=LIMIT_SECONDS)
                figures[name].append(_times(folder, time.time()))
                services.restore()
    return "\n".join(
        [
            "# Start and end of a cluster",
            "",
            f"{HOSTS} lab hosts on one machine of 2 cores, Slurm; a command writes down the time, then trains "
            f"CartPole for an iteration with two workers. Seconds, median (range) of {ROUNDS} interleaved rounds.",
            "",
            "| way | job started to command | to the first training step | to the job's end |",
            "|---|---|---|---|",
            *(_row(name, measured) for name, measured in figures.items()),
            "",
        ]
    )


def _row(name: str, measured: list[Times]) -> str:
    columns = zip(*((times.to_command, times.to_training, times.to_end) for times in measured), strict=True)
    cells = [f"{statistics.median(cell):.1f} ({min(cell):.1f} to {max(cell):.1f})" for cell in map(list, columns)]
    return f"| {name} | {' | '.join(cells)} |"


def _send(slurm: Slurm, folder: Path, script: str) -> str:
    text = (PROLOGUE + script).replace("{folder}", str(folder))
    asked = (f"--nodes={HOSTS}", "--ntasks-per-node=1", "--cpus-per-task=4", f"--output={folder}/out")
    return slurm.submit(text, *asked)


def _submit(lab: Lab, folder: Path) -> str:
    """Submit the same with `muster submit`; a login shell's profile writes down when the job starts."""
    profile = '[ -z "$SLURM_JOB_ID" ] || [ -e "$HOME/started" ] || date +%s.%N > "$HOME/started"\n'
    (folder / ".bash_profile").write_text(profile)
    asked = ["--on", "slurm", "--nodes", str(HOSTS), "--cpus", "4", "--wall-time", "5m", "--max-jobs", "1"]
    command = shlex.split(COMMAND.replace("{folder}", str(folder)))
    flags = ["--name", "bench", "--runs-dir", str(folder / "jobs"), "--no-snapshot", "--json"]
    words = [MUSTER, "submit", *asked, *flags, "--", *command]
    done = lab.login.run(words, cwd=folder, env={"HOME": str(folder)})
    return str(json.loads(done.stdout)["jobs"][0])


def _times(folder: Path, ended: float) -> Times:
    started, ran = (float((folder / name).read_text()) for name in ("started", "ran"))
    events = map(json.loads, (folder / "runs" / "run" / "events.jsonl").read_text().splitlines())
    training = next(float(event["time"]) for event in events if event["event"] == "started")
    return Times(ran - started, training - started, ended - started)


if __name__ == "__main__":
    print(run())
