"""How long a cluster takes to start and to end on three lab hosts under Slurm, with a trivial command.

Compares `muster launch`, `ray symmetric-run`, and the classic script that sleeps between head and workers.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from tests.lab.cluster import Lab, owned_lab
from tests.lab.services import Services
from tests.lab.slurm import Slurm

ROUNDS = 3
HOSTS = 3
LIMIT_SECONDS = 200.0
PYTHON = sys.executable
PROLOGUE = "#!/bin/bash\ndate +%s.%N > {folder}/started\n"
COMMAND = "bash -c 'date +%s.%N > {folder}/ran'"
RAY = f"{PYTHON} -m ray.scripts.scripts"

MUSTER = f"srun {Path(PYTHON).with_name('muster')} launch --runs-dir {{folder}}/runs -- {COMMAND}\n"
SYMMETRIC = f"""export RAY_AUTH_MODE=disabled RAY_USAGE_STATS_ENABLED=0
head=$(getent hosts $(scontrol show hostnames $SLURM_JOB_NODELIST | head -1) | cut -d' ' -f1)
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
{COMMAND}
"""
WAYS = {"muster launch": MUSTER, "ray symmetric-run": SYMMETRIC, "head, workers and sleeps": CLASSIC}


def run() -> str:
    """Run every way in turn, several rounds."""
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    with owned_lab(HOSTS) as lab:
        services = Services(lab)
        slurm = services.slurm()
        for number in range(ROUNDS):
            for name, script in WAYS.items():
                folder = lab.shared / f"{len(figures[name])}-{name.replace(' ', '-').replace(',', '')}-{number}"
                folder.mkdir()
                figures[name].append(_measure(lab, slurm, folder, script))
                services.restore()
    rows = []
    for name, measured in figures.items():
        to_command, to_end = zip(*measured, strict=True)
        after = [end - ran for ran, end in measured]
        rows.append(
            f"| {name} | {statistics.median(to_command):.1f} ({min(to_command):.1f} to {max(to_command):.1f}) "
            f"| {statistics.median(to_end):.1f} ({min(to_end):.1f} to {max(to_end):.1f}) "
            f"| {statistics.median(after):.1f} |"
        )
    return "\n".join(
        [
            "# Start and end of a cluster",
            "",
            f"{HOSTS} lab hosts on one machine of 2 cores, Slurm, a trivial command; seconds, median (range) of "
            f"{ROUNDS} interleaved rounds.",
            "",
            "| way | job started to command run | job started to job ended | after the command |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _measure(lab: Lab, slurm: Slurm, folder: Path, script: str) -> tuple[float, float]:
    """Return the seconds from the job's start to its command, and to its end."""
    text = (PROLOGUE + script).replace("{folder}", str(folder))
    job = slurm.submit(
        text, f"--nodes={HOSTS}", "--ntasks-per-node=1", "--cpus-per-task=4", f"--output={folder}/out"
    )
    slurm.wait_for_state(job, "COMPLETED", "FAILED", "CANCELLED", limit_s=LIMIT_SECONDS)
    ended = time.time()
    started, ran = (float((folder / name).read_text()) for name in ("started", "ran"))
    return ran - started, ended - started


if __name__ == "__main__":
    print(run())
