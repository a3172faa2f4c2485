#!/usr/bin/env bash
# A second call builds nothing: Ninja finds every file where the first build named it.
# usage: nothing_to_do.sh SOURCE BUILD TARGET...
set -euo pipefail
source=$1 build=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ninja=$source/.venv/bin/ninja

"$ninja" -C "$build" -d explain "$@" >"$work/again" 2>&1
grep -q '^ninja: no work to do' "$work/again" || { echo "FAIL: an unchanged tree is built again:"; head -n 20 "$work/again"; exit 1; }

# Also by name: a file that is nowhere makes its object old for ever.
"$ninja" -C "$build" -t deps "CMakeFiles/tenfold_pch.dir/pch.cpp.o" | sed -n 's/^    //p' >"$work/files"
[ -s "$work/files" ] || { echo "FAIL: Ninja has recorded nothing of the precompiled header"; exit 1; }
cd "$build"
xargs -d '\n' ls -d <"$work/files" >/dev/null 2>"$work/missing" || { echo "FAIL: recorded, but not there:"; head -n 5 "$work/missing"; exit 1; }
echo "nothing to do; all $(wc -l <"$work/files") files of the precompiled header are there"
