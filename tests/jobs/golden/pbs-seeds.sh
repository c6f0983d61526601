#!/bin/bash -l
# Submitted with: qsub job.sh
#PBS -N run
#PBS -j oe
#PBS -k oed
#PBS -J 1-3
#PBS -l select=1:mpiprocs=1
#PBS -l place=scatter:excl
#PBS -l walltime=01:00:00
#PBS -r y

export MUSTER_END_TIME=$(( $(date +%s) + 3600 ))
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/seed-0/job/cluster.toml -- muster train /project/runs/run/seed-0/job/submitted.toml --name seed-0 --runs-dir /project/runs/run --resume
exec /python -P -m muster link /project/runs/run/seed-$(( 0 + PBS_ARRAY_INDEX - 1 )) >> /project/runs/run/seed-$(( 0 + PBS_ARRAY_INDEX - 1 ))/job/"pbs-$PBS_JOBID.out" 2>&1
