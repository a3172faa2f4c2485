#!/usr/bin/env bash
# The exercises that are kernels build and pass without LibTorch and nvcc, and the tests of kernels and of the microscope need
# neither: configured where neither can be found.
# usage: kernels_only.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What ./tenfold exercise waits for on a machine that is not set up.
( root=$source
  source "$source/common/tools/setup.sh"
  for words in 30 "--hint 30" 52_ddp; do
    needs_libtorch $words || { echo "FAIL: ./tenfold exercise $words is set up without LibTorch"; exit 1; }
  done
  for words in "" map 40.2 40 "46 --hint" 40.9; do
    if needs_libtorch $words; then echo "FAIL: ./tenfold exercise $words waits for LibTorch"; exit 1; fi
  done
)

source "$source/tests/contract/build_settings.sh"
headers=$toolkit/include
unset CUDA_HOME CUDA_PATH CUDACXX Torch_DIR
export CCACHE_BASEDIR=$source
cd "$source"
env PATH=/usr/bin:/bin .venv/bin/cmake --preset kernels -B "$work/build" -DCMAKE_MAKE_PROGRAM="$source/.venv/bin/ninja" \
  -DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" -DTENFOLD_CUDA_HEADERS="$headers" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
if grep -iE '^(Torch_DIR|CMAKE_CUDA_COMPILER):' "$work/build/CMakeCache.txt"; then echo "FAIL: it looked for LibTorch or nvcc"; exit 1; fi

# ./tenfold test kernels has every test of a kernel that the whole tree has, but for the bindings to LibTorch; nothing that it
# would build mentions that, or a GPU's compiler.
.venv/bin/ctest --test-dir "$work/build" -N -L kernel >"$work/tests"
for file in tests/kernels/*_test.cpp; do
  test=kernel_$(basename "$file" .cpp)
  if [[ $test == *_torch_test ]]; then
    ! grep -qw "$test" "$work/tests" || { echo "FAIL: $test needs LibTorch and is among the tests"; exit 1; }
  else
    grep -qw "$test" "$work/tests" || { echo "FAIL: $test is not among the tests"; exit 1; }
  fi
done
for test in engine_test kernel_page_test access_pictures; do
  grep -qw "$test" "$work/tests" || { echo "FAIL: $test is not among the tests"; exit 1; }
done
.venv/bin/ninja -C "$work/build" -t commands kernel_tests >"$work/commands"
grep -q 'tests/kernels/softmax_test.cpp' "$work/commands" || { echo "FAIL: kernel_tests does not build them"; exit 1; }
if grep -iE 'libtorch|torch/include|/nvcc|-lcudart|CUDA_COMPILER' "$work/commands" | head -n 3 | grep .; then
  echo "FAIL: the tests of kernels want LibTorch or nvcc"; exit 1
fi

exercises=(40.1_map 40_coalescing)
.venv/bin/ninja -C "$work/build" "${exercises[@]/%/_exercise_solution}" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }
for exercise in "${exercises[@]}"; do "$work/build/exercises/${exercise}_exercise_solution" --gtest_brief=1; done
if ldd "$work/build/exercises/40.1_map_exercise_solution" | grep -iE 'torch|cuda'; then echo "FAIL: it links one of them"; exit 1; fi
echo "kernels' exercises and tests need neither LibTorch nor nvcc"
