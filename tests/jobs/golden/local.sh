#!/bin/bash
# Submitted with: /python -P -m muster.jobs.detached start job.sh

cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
