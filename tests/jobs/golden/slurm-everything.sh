#!/bin/bash -l
# Submitted with: sbatch --parsable job.sh
#SBATCH --job-name=run
#SBATCH --output=%j.out
#SBATCH --open-mode=append
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-node=1
#SBATCH --mem=8192M
#SBATCH --time=01:30:00
#SBATCH --account=proj
#SBATCH --partition=workq
#SBATCH --requeue
#SBATCH --no-kill

export MUSTER_END_TIME=${SLURM_JOB_END_TIME:-$(( $(date +%s) + 5400 ))}
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
