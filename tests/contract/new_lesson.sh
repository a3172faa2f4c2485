#!/usr/bin/env bash
# A new lesson is a copied folder and nothing else: it must appear in list, tour --all, tests and README table.
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

source "$source/tests/contract/build_settings.sh"
preset=${build##*/}
export CCACHE_BASEDIR=$tree
cd "$tree"
.venv/bin/cmake --preset "$preset" -DCMAKE_MAKE_PROGRAM="$tree/.venv/bin/ninja" "${torch_settings[@]}" > "$work/configure.log" 2>&1 ||
  { tail -n 20 "$work/configure.log"; exit 1; }
.venv/bin/ninja -C "build/$preset" tenfold_lessons > "$work/build.log" 2>&1 || { tail -n 20 "$work/build.log"; exit 1; }

driver=build/$preset/tenfold-driver
found() { grep -q "$copied" <<<"$2" || { echo "FAIL: $copied does not appear in: $1"; echo "$2" | head -n 40; exit 1; }; echo "ok: in $1"; }
found "list" "$("$driver" list)"
found "the tests" "$(.venv/bin/ctest --test-dir "build/$preset" -N)"
"$driver" report --write
found "the README's table" "$(cat README.md)"
# With the lessons that ship.
found "the tour" "$("$driver" tour --all --preset smoke --out "$work/out" 2>&1 || true)"
test -s "$work/out/$copied.json" || { echo "FAIL: the tour wrote no result file for $copied"; exit 1; }
echo "a copied folder is a lesson"
