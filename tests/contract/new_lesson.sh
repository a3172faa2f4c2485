#!/usr/bin/env bash
# A new lesson is a copied folder and nothing else: it must appear in list, tour, tests and README table.
# usage: new_lesson.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tenfold
mkdir -p "$tree"
(cd "$source" && tar cf - --exclude=./build --exclude=./out --exclude=./exercises --exclude=./.git --exclude=./.venv .) | tar xf - -C "$tree"
ln -s "$(readlink -f "$source/.venv")" "$tree/.venv"

copied=39_copied_lesson
cp -r "$tree/lessons/30_gradient_accumulation" "$tree/lessons/$copied"
sed -i 's/Lesson 30/Lesson 39/; s/30_gradient_accumulation/39_copied_lesson/; s/"Gradient accumulation"/"A copied lesson"/' "$tree/lessons/$copied/lesson.cpp"
sed -i 's/^# 30 .*/# 39 A copied lesson/' "$tree/lessons/$copied/README.md"

export TENFOLD_CACHE=${TENFOLD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenfold} root=$tree preset=${build##*/}
export CCACHE_DIR=$TENFOLD_CACHE/ccache CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
torch=$(sed -n 's/^Torch_DIR:[A-Z]*=//p' "$build/CMakeCache.txt")
toolkit=$(sed -n 's/^CUDA_TOOLKIT_ROOT_DIR:[A-Z]*=//p' "$build/CMakeCache.txt")
export CUDA_HOME=$toolkit CUDACXX=$toolkit/bin/nvcc
cd "$tree"
.venv/bin/cmake --preset "$preset" -DCMAKE_MAKE_PROGRAM="$tree/.venv/bin/ninja" -DTorch_DIR="$torch" -DCUDAToolkit_ROOT="$toolkit" \
  -DCUDA_TOOLKIT_ROOT_DIR="$toolkit" > "$work/configure.log" 2>&1 || { tail -n 20 "$work/configure.log"; exit 1; }
.venv/bin/ninja -C "build/$preset" "$copied" tenfold-driver > "$work/build.log" 2>&1 || { tail -n 20 "$work/build.log"; exit 1; }

driver=build/$preset/tenfold-driver
found() { grep -q "$copied" <<<"$2" || { echo "FAIL: $copied does not appear in: $1"; echo "$2" | head -n 40; exit 1; }; echo "ok: in $1"; }
found "list" "$("$driver" list)"
found "the tests" "$(.venv/bin/ctest --test-dir "build/$preset" -N)"
"$driver" report --write
found "the README's table" "$(cat README.md)"
# The tour runs what is built; here that is the copied lesson alone.
found "the tour" "$("$driver" tour --preset smoke --out "$work/out" 2>&1 || true)"
test -s "$work/out/$copied.json" || { echo "FAIL: the tour wrote no result file for $copied"; exit 1; }
echo "a copied folder is a lesson"
