#!/bin/bash -l
# Submitted with: bsub
#BSUB -J run
#BSUB -o %J.out
#BSUB -nnodes 1
#BSUB -x
#BSUB -r

cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/job/cluster.toml -- muster train /project/runs/run/job/submitted.toml --name run --runs-dir /project/runs --resume
exec /python -P -m muster link /project/runs/run
