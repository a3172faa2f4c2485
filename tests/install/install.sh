#!/usr/bin/env bash
# usage: install.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source "$source/tests/contract/build_settings.sh"
"$source/.venv/bin/cmake" --install "$build" --prefix "$work/prefix" > "$work/install.log"
if grep -rn '"/' "$work/prefix/include/tenfold" | grep '#include'; then echo "FAIL: an installed header points into the tree"; exit 1; fi
"$source/.venv/bin/cmake" -S "$source/tests/install/consumer" -B "$work/build" -G Ninja -DCMAKE_MAKE_PROGRAM="$source/.venv/bin/ninja" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" "${torch_settings[@]}" > "$work/configure.log" 2>&1 ||
  { tail -n 20 "$work/configure.log"; exit 1; }
"$source/.venv/bin/ninja" -C "$work/build" > "$work/build.log" 2>&1 || { tail -n 20 "$work/build.log"; exit 1; }
OMP_NUM_THREADS=1 "$work/build/consumer"
