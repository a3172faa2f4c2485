#!/usr/bin/env bash
# Builds with g++ what every part of the tree has some of, where clang builds the rest: the driver, the harness, the kernels'
# operators, a lesson of each kind and the tests of the harness, which then run. Part of `./tenfold test --all`.
# usage: common/tools/gcc.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
log_dir=$root/build/log stamps=$root/build/setup
export CXX=g++
source "$root/common/tools/setup.sh"
choose_cache
build_preset gcc tenfold-driver tenfold_kernel_survey 30_gradient_accumulation 40_coalescing 10_parallel_loading_test 52_ddp_test \
  harness_test result_test pages_test models_test measure_test
for program in harness_test result_test pages_test; do OMP_NUM_THREADS=1 "$build/tests/$program" --gtest_brief=1; done
