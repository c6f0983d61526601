#!/bin/bash -l
# Submitted with: qsub job.sh
#PBS -N run
#PBS -j oe
#PBS -k oed
#PBS -l select=1:mpiprocs=1
#PBS -l place=scatter:excl
#PBS -r y

cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
