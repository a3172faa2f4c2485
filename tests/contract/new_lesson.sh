#!/usr/bin/env bash
# A new lesson is a copied folder and nothing else. Copies three unlike ones with ./tenfold new-lesson in a small tree,
# and builds and runs the copies alone: the time does not grow with the number of lessons.
# usage: new_lesson.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tenfold
stage() { echo "$SECONDS s: $1"; }
fail() { echo "FAIL: $1"; exit 1; }

# One with headers that install, one with kernels of its own and headers, one that counts.
originals=(52_ddp 43_fused_kernels 40_coalescing)
copies=(59_copied_headers 49_copied_kernels 48_copied_counts)

# Of the lessons only these and the ones whose headers they include, directly or not.
included=()
todo=("${originals[@]}")
for ((i = 0; i < ${#todo[@]}; ++i)); do
  for lesson in $(grep -rhoP '^#include "lessons/\K[^/]+' "$source/lessons/${todo[i]}" | sort -u); do
    [[ " ${included[*]} " == *" $lesson "* ]] || { included+=("$lesson"); todo+=("$lesson"); }
  done
done
mkdir -p "$tree"
(cd "$source" && tar cf - CMakeLists.txt CMakePresets.json README.md common fit kernels docs results lessons/CMakeLists.txt "${todo[@]/#/lessons/}" \
  tests/CMakeLists.txt tests/support) | tar xf - -C "$tree"
ln -s "$(readlink -f "$source/.venv")" "$tree/.venv"
cd "$tree"
# The pages speak of lessons that are not here; of them only the README's table is looked at.
rm -f docs/*.md
printf '%s\n' '# A small tree' '' '<!-- tenfold:begin lessons -->' '<!-- tenfold:end -->' >README.md

for ((i = 0; i < ${#originals[@]}; ++i)); do cp -r "lessons/${originals[i]}" "lessons/${copies[i]}"; done
source "$source/tests/contract/build_settings.sh"
preset=${build##*/}
export CCACHE_BASEDIR=$tree
configure() {
  .venv/bin/cmake --preset "$preset" -DCMAKE_MAKE_PROGRAM="$tree/.venv/bin/ninja" -DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON "${torch_settings[@]}" \
    >"$work/configure.log" 2>&1
}
# A copied header cannot install under the same name, and the message says what to do.
if configure; then fail "two headers install as <tenfold/ddp.h>, and nobody minds"; fi
tr -s ' \n' ' ' <"$work/configure.log" | grep -q 'already installs as <tenfold/.*In a copied lesson, delete this line' ||
  { tail -n 20 "$work/configure.log"; fail "the message does not say what to do about a copied header"; }
# The command that copies takes that line out.
for ((i = 0; i < ${#originals[@]}; ++i)); do
  rm -r "lessons/${copies[i]}"
  TENFOLD_SOURCE_DIR=$tree "$build/tenfold-driver" new-lesson "${copies[i]}" --from "${originals[i]}" >/dev/null
done
for lesson in "${originals[@]}"; do [[ " ${included[*]} " == *" $lesson "* ]] || rm -r "lessons/$lesson"; done
configure || { tail -n 20 "$work/configure.log"; exit 1; }
stage "configured"

.venv/bin/ninja -C "build/$preset" tenfold-driver "${copies[@]}" >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; exit 1; }
for lesson in "${included[@]}"; do [ ! -e "build/$preset/lessons/$lesson" ] || fail "$lesson was built, which nobody asked for"; done
stage "built"
# What is built stays built: the files that Ninja was told of are where they were named.
.venv/bin/ninja -C "build/$preset" -d explain tenfold-driver "${copies[@]}" >"$work/again.log" 2>&1
grep -q '^ninja: no work to do' "$work/again.log" || { head -n 20 "$work/again.log"; fail "an unchanged tree is built again"; }

driver=build/$preset/tenfold-driver
for copy in "${copies[@]}"; do
  preset_of_run=check
  [ "$copy" != "${copies[2]}" ] || preset_of_run=smoke  # which counts, and has nothing that agrees
  "$driver" run "${copy%%_*}" --preset "$preset_of_run" --out "$work/out" >"$work/run.log" 2>&1 || { tail -n 20 "$work/run.log"; fail "$copy exits with an error"; }
  test -s "$work/out/$copy.json" || fail "the run wrote no result file for $copy"
  stage "ran $copy"
done
"$driver" list >"$work/list"
.venv/bin/ctest --test-dir "build/$preset" -N >"$work/tests"
[ ${#included[@]} -eq 0 ] || .venv/bin/ninja -C "build/$preset" "${included[@]}" >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; exit 1; }
"$driver" report --write >/dev/null
grep -q "${copies[0]}" README.md || fail "${copies[0]}, alone in its chapter, is not in: the README's table"
for copy in "${copies[@]}"; do
  grep -q "$copy" "$work/list" || fail "$copy is not in: list"
  grep -q "smoke.$copy" "$work/tests" || fail "$copy is not in: the tests"
  grep -q "$copy" docs/results.md || fail "$copy is not in: the page of results"
done
echo "a copied folder is a lesson"
