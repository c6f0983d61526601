#!/bin/bash -l
# Submitted with: qsub -terse job.sh
#$ -N run
#$ -cwd
#$ -S /bin/bash
#$ -j y
#$ -o $JOB_ID.$TASK_ID.out
#$ -t 1-3
#$ -pe mpi 1
#$ -l h_rt=01:00:00
#$ -r y
#$ -notify

export MUSTER_END_TIME=$(( $(date +%s) + 3600 ))
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/seed-0/job/cluster.toml -- muster train /project/runs/run/seed-0/job/submitted.toml --name seed-0 --runs-dir /project/runs/run --resume
exec /python -P -m muster link /project/runs/run/seed-$(( 0 + SGE_TASK_ID - 1 )) >> /project/runs/run/seed-$(( 0 + SGE_TASK_ID - 1 ))/job/"sge-$JOB_ID.out" 2>&1
