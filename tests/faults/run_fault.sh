#!/usr/bin/env bash
# Runs a lesson with a planted fault, in the one case where the fault shows: the suite must call the technique INVALID because it
# does not agree with the baseline, and exit with 1.
# usage: run_fault.sh PATCH PROGRAM TORCHRUN DRIVER
# Above its diff PATCH says, a line each:
#   case: NAME          of the lesson
#   technique: NAME     that must be found INVALID
#   set: NAME=VALUE     as for --set; any number of these lines, or none
#   reason: TEXT        with which the reason begins instead, where the fault shows as an error that names it
# and of a fault in what only CUDA runs:
#   device: dry:CARD    a card that is not there, see docs/dry_gpu.md; the CPU without this line
#   order: late|early   of its streams; numbers that are not finite, and a race, count as a disagreement there
#   gpus: COUNT         of these cards, of which the lesson takes the last; 1 without this line
set -euo pipefail
patch=$1 program=$2 torchrun=$3 driver=$4
fail() { echo "FAIL: ${patch##*/}: $1"; exit 1; }
said() { sed -n "/^--- /q; s/^$1: //p" "$patch"; }

mapfile -t cases < <(said case)
mapfile -t techniques < <(said technique)
mapfile -t settings < <(said set)
((${#cases[@]} == 1 && ${#techniques[@]} == 1)) || fail "needs one line 'case: NAME' and one 'technique: NAME' above its diff"
case=${cases[0]} technique=${techniques[0]} device=$(said device) order=$(said order) gpus=$(said gpus) reason=$(said reason)

description=$("$program" --describe) || fail "the lesson cannot describe itself"
# A number, or what it is a multiple of: then two ranks or the next more, where a fault between ranks shows.
read -r kind ranks < <(grep -A2 -Fx "   \"name\": \"$case\"," <<<"$description" |
  sed -n 's/^ *"\(ranks\|multiple_of\)": \([0-9][0-9]*\).*/\1 \2/p') || true
[ "$kind" != multiple_of ] || [ -n "$device" ] || ranks=$((ranks == 1 ? 2 : ranks))
[ -n "$ranks" ] || fail "the lesson has no case '$case'"
# A survey looks at nothing unless the preset is timed; a case is compared all the same, and sooner.
preset=check
surveys=$(sed -n '/^ "surveys": \[$/,/^ \]/p' <<<"$description")
if grep -qFx "   \"name\": \"$case\"," <<<"$surveys"; then preset=smoke; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
disagrees='does not agree with the baseline'
case $device in
"")
  command=("$program")
  ((ranks == 1)) || command=("$torchrun" --standalone --local-addr 127.0.0.1 --nproc_per_node "$ranks" --no-python "$program")
  command+=(--preset "$preset" --device cpu)
  ;;
dry:*)
  unset CUDA_VISIBLE_DEVICES  # the stand-ins keep to it, too
  ((ranks == 1)) || fail "case '$case' needs $ranks ranks, a dry GPU takes one"
  command=("$driver" dry --gpu "${device#dry:}" --gpus "${gpus:-1}" --arithmetic "$order" -- "$program" --preset check --device cuda --size cpu)
  disagrees+='|its numbers are not finite|a race on a dry GPU'
  ;;
*) fail "device '$device' is none" ;;
esac
command+=(--case "$case" --only "$technique" --json "$work/result.json")
for setting in "${settings[@]}"; do command+=(--set "$setting"); done
status=0
OMP_NUM_THREADS=1 TORCH_CPP_LOG_LEVEL=FATAL "${command[@]}" 2>&1 || status=$?
if ((status == 77)); then  # CTest skips it where the lesson reads images that were never fetched, and nowhere else
  echo "SKIP: ${patch##*/}: no variant of case '$case' can run here"
  exit 77
fi
((status == 1)) || fail "not caught by '$technique' of case '$case': expected exit code 1, got $status"

[ -s "$work/result.json" ] || fail "the lesson wrote no result"

# The result has these of each variant in this order, on lines of their own.
variants=$(sed -nE 's/^     "(name|status|reason)": "(.*)",$/\1: \2/p' "$work/result.json")
found=$(grep -A2 -Fx "name: $technique" <<<"$variants") || fail "'$technique' is not compared in case '$case'"
[ -z "$reason" ] || disagrees=$reason
[[ $found =~ $'\n'status:\ invalid$'\n'reason:\ ($disagrees) ]] ||
  fail "'$technique' of case '$case' is not INVALID for a disagreement: ${found//$'\n'/, }"
[ "$(grep -c '^status: invalid$' <<<"$variants")" = 1 ] || fail "more than '$technique' of case '$case' is INVALID"
