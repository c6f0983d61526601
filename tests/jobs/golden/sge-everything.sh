#!/bin/bash -l
# Submitted with: qsub -terse job.sh
#$ -N run
#$ -cwd
#$ -S /bin/bash
#$ -j y
#$ -o $JOB_ID.out
#$ -pe mpi 12
#$ -l gpu=1
#$ -l h_vmem=8192M
#$ -l h_rt=01:30:00
#$ -P proj
#$ -q workq
#$ -r y
#$ -notify

export MUSTER_END_TIME=$(( $(date +%s) + 5400 ))
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
