#!/bin/bash -l
# Submitted with: flux submit --job-name=run '--output={{id}}.out' --nodes=3 --tasks-per-node=1 --cores-per-task=4 --gpus-per-task=1 --time-limit=5400s --bank=proj --queue=workq ./job.sh

export MUSTER_END_TIME=$(( $(date +%s) + 5400 ))
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
