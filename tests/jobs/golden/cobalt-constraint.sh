#!/bin/bash -l
# Submitted with: qsub job.sh
#COBALT --jobname run
#COBALT -n 1
#COBALT -t 60
#COBALT --attrs mcdram=cache:numa=quad

export MUSTER_END_TIME=${COBALT_ENDTIME:-$(( $(date +%s) + 3600 ))}
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
