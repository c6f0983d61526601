#!/bin/bash -l
# Submitted with: qsub -terse job.sh
#$ -N run
#$ -cwd
#$ -S /bin/bash
#$ -j y
#$ -o $JOB_ID.out
#$ -pe mpi 1
#$ -r y
#$ -notify

cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
