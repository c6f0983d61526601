#!/bin/bash -l
# Submitted with: flux submit --job-name=run '--output={{id}}.out' --nodes=1 --tasks-per-node=1 --exclusive ./job.sh

cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
