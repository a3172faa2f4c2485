#!/usr/bin/env bash
# Runs a lesson with a planted fault: the suite must call it INVALID and exit with 1.
# usage: run_fault.sh PROGRAM TORCHRUN
set -u
program=$1 torchrun=$2
# The cases of the most ranks: what a lesson of several devices is about.
ranks=$("$program" --describe | sed -n 's/^ *"ranks": \([0-9]*\).*/\1/p' | sort -n | tail -n 1)
ranks=${ranks:-1}
if [ "$ranks" -gt 1 ]; then
  command=("$torchrun" --standalone --nproc_per_node "$ranks" --no-python "$program")
else
  command=("$program")
fi
output=$(OMP_NUM_THREADS=1 TORCH_CPP_LOG_LEVEL=FATAL timeout 100 "${command[@]}" --preset smoke --device cpu 2>&1)
status=$?
printf '%s\n' "$output"
if [ "$status" != 1 ]; then
  echo "FAULT NOT CAUGHT: expected exit code 1, got $status"
  exit 1
fi
# A caught trap is INVALID too, but expected; only an unexpected one says so again in its last column.
grep -Eq 'INVALID .* INVALID$' <<<"$output" || { echo "FAULT NOT CAUGHT: no unexpected INVALID"; exit 1; }
grep -Eq 'does not agree with the baseline|its numbers are not finite' <<<"$output" || { echo "INVALID for another reason than the planted fault"; exit 1; }
