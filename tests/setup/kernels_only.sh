#!/usr/bin/env bash
# The exercises that are kernels build and pass without LibTorch and nvcc: configured where neither can be found.
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
exercises=(40.1_map 40_coalescing)
.venv/bin/ninja -C "$work/build" "${exercises[@]/%/_exercise_solution}" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }
for exercise in "${exercises[@]}"; do "$work/build/exercises/${exercise}_exercise_solution" --gtest_brief=1; done
if ldd "$work/build/exercises/40.1_map_exercise_solution" | grep -iE 'torch|cuda'; then echo "FAIL: it links one of them"; exit 1; fi
echo "a kernel's exercise needs neither LibTorch nor nvcc"
