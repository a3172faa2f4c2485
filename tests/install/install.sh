#!/usr/bin/env bash
# Installs a component into a new folder and builds a small project of somebody else against it.
# usage: install.sh techniques|kernels SOURCE BUILD
set -euo pipefail
kind=$1 source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source "$source/tests/contract/build_settings.sh"
export CCACHE_BASEDIR=$work
cmake=$source/.venv/bin/cmake
components=(techniques)
[ "$kind" = techniques ] || components=(kernels microscope kernels_torch)
for component in "${components[@]}"; do
  "$cmake" --install "$build" --component "$component" --prefix "$work/prefix" >"$work/install.log"
done
if grep -rn '#include "' "$work/prefix/include"; then echo "FAIL: an installed header includes a file of the tree"; exit 1; fi
if grep -rn "$source\|$build" "$work/prefix" --include='*.h' --include='*.cmake'; then echo "FAIL: an installed file names a folder of the tree"; exit 1; fi
# Each header by itself takes seconds; where lessons have their long tests in turn, their headers do, too.
thorough=$(cached TENFOLD_THOROUGH) alone=""
for header in "$work"/prefix/include/tenfold/*.h; do
  of=("$source"/lessons/*/"${header##*/}")
  number=${of[0]#"$source/lessons/"}
  if [ -z "$thorough" ] || [ ! -e "${of[0]}" ] || [[ ";$thorough;" == *";${number:0:2};"* ]]; then alone+=";$(basename "$header" .h)"; fi
done
# What is compiled lies below $work, and so has the same names for the compiler cache in every clone.
cp -r "$source/tests/install/$kind" "$work/user"
"$cmake" -S "$work/user" -B "$work/build" -G Ninja -DCMAKE_MAKE_PROGRAM="$source/.venv/bin/ninja" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$(cached CCACHE)" \
  -DCMAKE_PREFIX_PATH="$work/prefix" -DALONE="$alone" "${torch_settings[@]}" >"$work/configure.log" 2>&1 || { tail -n 20 "$work/configure.log"; exit 1; }
"$source/.venv/bin/ninja" -C "$work/build" >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; exit 1; }
OMP_NUM_THREADS=1 "$work/build/user"
if [ "$kind" = kernels ]; then
  PYTHONPATH=$(dirname "$(find "$work/prefix" -name tenfold_operators.py)") OMP_NUM_THREADS=1 "$source/.venv/bin/python" -W ignore -c '
import tenfold_operators, torch
assert str(tenfold_operators.library()).startswith("'"$work"'"), tenfold_operators.library()
x = torch.randn(4, 8)
assert torch.allclose(torch.ops.tenfold.softmax(x), torch.softmax(x, -1)), "the installed operator is wrong"'
fi
