#!/usr/bin/env bash
# A new kernel is a copied folder and its test, and nothing else: copies one in a small tree without LibTorch, builds the copy
# and asks it what the page, the model of its time and CTest need.
# usage: new_kernel.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tenfold
fail() { echo "FAIL: $1"; exit 1; }

mkdir -p "$tree/kernels" "$tree/tests/kernels"
(cd "$source" && tar cf - CMakeLists.txt CMakePresets.json common lessons/CMakeLists.txt tests/CMakeLists.txt tests/support tests/kernels/*.h \
  tests/kernels/CMakeLists.txt $(find kernels -maxdepth 1 -type f) kernels/warm_ups/CMakeLists.txt kernels/model) | tar xf - -C "$tree"
ln -s "$(readlink -f "$source/.venv")" "$tree/.venv"
cp -r "$source/kernels/transpose" "$tree/kernels/flipped"
cp "$source/tests/kernels/transpose_test.cpp" "$tree/tests/kernels/flipped_test.cpp"
cd "$tree"
rm -f kernels/flipped/transpose_survey.h
for file in kernels/flipped/transpose*; do mv "$file" "${file/transpose/flipped}"; done
sed -i 's/transpose/flipped/g; s/Transpose/Flipped/g' kernels/flipped/* tests/kernels/flipped_test.cpp

source "$source/tests/contract/build_settings.sh"
export CCACHE_BASEDIR=$tree
.venv/bin/cmake --preset kernels -DCMAKE_MAKE_PROGRAM="$tree/.venv/bin/ninja" -DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" \
  -DTENFOLD_CUDA_HEADERS="$toolkit/include" >"$work/configure.log" 2>&1 || { tail -n 20 "$work/configure.log"; exit 1; }
.venv/bin/ninja -C build/kernels kernel_flipped kernel_flipped_test >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; exit 1; }

page=build/kernels/kernels/flipped
"$page" --shape rows=33,columns=40 >"$work/page" || { cat "$work/page"; fail "its page exits with an error"; }
"$page" --describe | grep -q '"name": "flipped"' || fail "it does not describe itself"
"$page" counts flipped 4 rows=64,columns=64 4 | grep -q '"symbol": ".*flipped_vectorised' || fail "its launches are not counted"
.venv/bin/python -c 'import sys; sys.path.insert(0, "kernels/model"); import kernel_time; sys.exit(kernel_time.kernels() != ["flipped"])' ||
  fail "the model of time does not see it"
.venv/bin/ctest --test-dir build/kernels -R '^kernel_flipped_test$' --no-tests=error >"$work/test" || { cat "$work/test"; fail "its test fails"; }
echo "a copied folder is a kernel"
