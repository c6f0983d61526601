#!/bin/bash -l
# Submitted with: qsub job.sh
#PBS -N run
#PBS -j oe
#PBS -k oed
#PBS -l select=3:ncpus=4:mpiprocs=1:ngpus=1:mem=8192mb
#PBS -l place=scatter
#PBS -l walltime=01:30:00
#PBS -A proj
#PBS -q workq
#PBS -r y

export MUSTER_END_TIME=$(( $(date +%s) + 5400 ))
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
