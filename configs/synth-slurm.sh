#!/usr/bin/env bash
# sbatch --array=0-15 configs/synth-slurm.sh question.json out/ds
#
# Regenerates a dataset in shards, one per array task, and joins them in the
# last one that finishes. Every task needs the binary and the seed file on a
# shared file system; PER_SEED and SEED may be set in the environment.
#SBATCH --job-name=terraloom-synth
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=01:00:00
set -euo pipefail
seeds=${1:?usage: sbatch --array=0-N configs/synth-slurm.sh SEEDS OUT}
out=${2:?usage: sbatch --array=0-N configs/synth-slurm.sh SEEDS OUT}
n=${SLURM_ARRAY_TASK_COUNT:?submit with --array=0-N}
i=$((SLURM_ARRAY_TASK_ID - SLURM_ARRAY_TASK_MIN))

bin/terraloom synth run --seeds "$seeds" --per-seed "${PER_SEED:-10}" --seed "${SEED:-7}" \
  --workers "${SLURM_CPUS_PER_TASK:-4}" --shard "$i/$n" --out "$out.shards/$i"

# The task that sees all shards joins them; the writer's lock lets one through.
for k in $(seq 0 $((n - 1))); do
  [ -e "$out.shards/$k/manifest.json" ] || exit 0
done
shards=()
for k in $(seq 0 $((n - 1))); do shards+=("$out.shards/$k"); done
bin/terraloom data merge --out "$out" "${shards[@]}" || [ $? -eq 5 ] # 5: another task has joined them
