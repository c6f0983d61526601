#!/bin/bash -l
# Submitted with: bsub
#BSUB -J run[1-3]
#BSUB -o %J_%I.out
#BSUB -nnodes 1
#BSUB -x
#BSUB -W 60
#BSUB -r

export MUSTER_END_TIME=$(( $(date +%s) + 3600 ))
cd /project || exit 1
export PYTHONUNBUFFERED=1

# Runs: muster launch --cluster /project/runs/run/seed-0/job/cluster.toml -- muster train /project/runs/run/seed-0/job/submitted.toml --name seed-0 --runs-dir /project/runs/run --resume
exec /python -P -m muster link /project/runs/run/seed-$(( 0 + LSB_JOBINDEX - 1 )) >> /project/runs/run/seed-$(( 0 + LSB_JOBINDEX - 1 ))/job/"lsf-$LSB_JOBID.out" 2>&1
