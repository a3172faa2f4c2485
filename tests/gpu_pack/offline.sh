#!/usr/bin/env bash
# A pack builds and runs where there is no network, no environment of this checkout, and none of the libraries that the
# pack brings: in a network namespace without interfaces and a mount namespace that hides the system's own headers.
# usage: offline.sh CHECKOUT
set -euo pipefail
root=$1
if [ "${2:-}" != inside ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  "$root/tenfold" gpu-pack --out "$scratch/pack"
  # The machine's python3 is one that has torch; here that is the checkout's, reached by a path that says nothing of it.
  mkdir "$scratch/bin"
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$(readlink -f "$root/.venv")/bin/python" >"$scratch/bin/python3"
  for tool in cmake ctest ninja; do
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v $tool || echo "$(readlink -f "$root/.venv")/bin/$tool")" >"$scratch/bin/$tool"
  done
  chmod +x "$scratch"/bin/*
  if unshare -m -n true 2>/dev/null; then
    namespaces=(unshare -m -n)
  elif unshare -r -m -n true 2>/dev/null; then
    namespaces=(unshare -r -m -n)
  else
    echo "namespaces are not allowed here, so nothing can be hidden"
    exit 77
  fi
  env -i HOME="$scratch" LANG=C.UTF-8 PATH="$scratch/bin:/usr/local/cuda/bin:/usr/bin:/bin" TENFOLD_PART_SECONDS=1500 TENFOLD_CUDA_ARCHS=9.0 \
    "${namespaces[@]}" "$0" "$root" inside "$scratch"
  exit
fi

scratch=$3 pack=$3/pack
stop() { echo "FAILED: $*" >&2; exit 1; }

mkdir "$scratch/empty"
for folder in /usr/include/{nlohmann,CLI,gloo,gtest,gmock,benchmark,boost,libpng16} /usr/src/googletest /usr/share/cmake/{nlohmann_json,CLI11,Gloo} \
              /usr/lib/*/cmake/{GTest,benchmark}; do
  [ ! -d "$folder" ] || mount --bind "$scratch/empty" "$folder"
done
: >"$scratch/nothing"
for file in /usr/include/{zlib.h,zconf.h,turbojpeg.h} /usr/lib/*/lib{z,png16,turbojpeg,gtest,gtest_main,gmock,boost_context}.a /usr/lib/*/libbenchmark.so* /usr/bin/ccache; do
  [ ! -f "$file" ] || [ -L "$file" ] || mount --bind "$scratch/nothing" "$file"
done
# A header that is hidden and still found would make the rest prove nothing.
for header in nlohmann/json.hpp CLI/CLI.hpp gtest/gtest.h gloo/config.h benchmark/benchmark.h boost/context/detail/fcontext.hpp png.h; do
  ! echo "#include <$header>" | g++ -fsyntax-only -x c++ - 2>/dev/null || stop "$header is still found"
done
[ "$(tail -n +3 /proc/net/dev | grep -vc '^ *lo:')" = 0 ] || stop "there is a network"

cd "$pack"
lesson=30_gradient_accumulation
./tenfold gpu-run build "$lesson" tokenizer_bench
# Without the compiler's cache, in a packed tree: what is built stays built.
ninja -C build/release -d explain "$lesson" >"$scratch/again" 2>&1
grep -q '^ninja: no work to do' "$scratch/again" || stop "an unchanged tree is built again: $(head -n 20 "$scratch/again")"
./tenfold gpu-run tests -R '^(base_test|data_test)$'
grep -q 'tests="2"' out/gpu/tests.xml || stop "two tests were to run: $(head -n 8 out/gpu/tests.xml)"
./tenfold gpu-run lessons "${lesson:0:2}" --preset smoke
./tenfold gpu-run lessons "${lesson:0:2}" --preset smoke | grep "$lesson: done before" >/dev/null || stop "a lesson ran a second time"
./tenfold gpu-run tests transpose
./tenfold gpu-run bench transpose

ldd build/release/bench/tokenizer_bench | grep "libbenchmark.*$pack" >/dev/null || stop "the benchmark does not use the packed library"
TENFOLD_CACHE=$PWD/cache build/release/bench/tokenizer_bench --benchmark_list_tests | grep . >/dev/null || stop "the benchmark program does not start"

result=out/gpu-results/$lesson.json
[ -s "$result" ] || stop "$lesson left no result"
grep -q "\"commit\": \"$(cut -d ' ' -f 1 COMMIT)\"" "$result" || stop "$result does not name the packed commit"
grep -q 'kernel_gpu_transpose_test' out/gpu/tests.xml || stop "the test of transpose was to run: $(head -n 8 out/gpu/tests.xml)"
grep -q 'No GPU here' out/gpu/bench.txt || stop "the benchmark of transpose was to say that there is no GPU: $(cat out/gpu/bench.txt)"
tar -tzf out/gpu/lessons.tar.gz | grep "$lesson.json" >/dev/null || stop "lessons.tar.gz lacks $lesson.json"
(( $(find out/gpu -type f | wc -l) <= 8 )) || stop "more than eight files in out/gpu"
[ ! -L .venv ] || stop ".venv leads out of the pack"
echo "$lesson, a kernel and two tests: built and run offline"
