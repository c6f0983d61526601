#!/bin/bash -l
# Submitted with: sbatch --parsable job.sh
#SBATCH --job-name=run
#SBATCH --output=%A_%a.out
#SBATCH --open-mode=append
#SBATCH --array=1-3
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --no-kill

export MUSTER_END_TIME=${SLURM_JOB_END_TIME:-$(( $(date +%s) + 3600 ))}
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/seed-0/job/cluster.toml -- muster train /project/runs/run/seed-0/job/submitted.toml --name seed-0 --runs-dir /project/runs/run --resume
exec /python -P -m muster link /project/runs/run/seed-$(( 0 + SLURM_ARRAY_TASK_ID - 1 )) >> /project/runs/run/seed-$(( 0 + SLURM_ARRAY_TASK_ID - 1 ))/job/"slurm-$SLURM_JOB_ID.out" 2>&1
