#!/usr/bin/env bash
# Builds the tests of common/ with AddressSanitizer and UndefinedBehaviorSanitizer and runs them.
# usage: common/tools/sanitize.sh [--minutes N] [--third] [CTEST REGULAR EXPRESSION]   (default: all tests labelled common)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
log_dir=$root/build/log stamps=$root/build/setup
source "$root/common/tools/setup.sh"
choose_cache
configure_preset asan
# LibTorch keeps global state until the end, so leaks are not reported; LibTorch itself is not instrumented.
# One test asks for more memory than there is: that must fail as an allocation, not as an error.
export ASAN_OPTIONS=detect_leaks=0:detect_container_overflow=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
exec "$root/.venv/bin/python" -B "$root/common/tools/sanitize.py" "$build" "$@"
