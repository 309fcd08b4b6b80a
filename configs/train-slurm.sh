#!/usr/bin/env bash
# sbatch configs/train-slurm.sh sft configs/qwen3.5-9b-planner.yaml [--set key=value …]
#
# Trains on the eight GPUs of one node. Base and dataset must be where the configuration names them, on a file system that
# the node sees. Before the time limit SLURM sends SIGTERM: the run saves itself, and the job is queued again and goes on
# from there, bit for bit.
#SBATCH --job-name=terraloom-train
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --mem=256G
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
set -uo pipefail
verb=${1:?usage: sbatch configs/train-slurm.sh VERB CONFIG [--set key=value …]}
config=${2:?usage: sbatch configs/train-slurm.sh VERB CONFIG [--set key=value …]}
shift 2

bin/terraloom "$verb" --config "$config" --resume auto "$@" &
child=$!
trap 'kill -TERM "$child"' TERM
wait "$child"
code=$?
if [ "$code" -gt 128 ] && kill -0 "$child" 2>/dev/null; then # the trap ended the first wait
  wait "$child"
  code=$?
fi
if [ "$code" -eq 130 ]; then # stopped by the signal, and saved
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
