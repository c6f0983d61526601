#!/bin/bash -l
# Submitted with: bsub
#BSUB -J run
#BSUB -o %J.out
#BSUB -n 12
#BSUB -R "span[ptile=4]"
#BSUB -gpu "num=1"
#BSUB -M 8192MB
#BSUB -W 90
#BSUB -P proj
#BSUB -q workq
#BSUB -r

export MUSTER_END_TIME=$(( $(date +%s) + 5400 ))
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
