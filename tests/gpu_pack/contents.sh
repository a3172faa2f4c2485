#!/usr/bin/env bash
# gpu-pack: what is in a pack, how large it is, and what is refused.
# usage: contents.sh CHECKOUT
set -euo pipefail
root=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pack=$scratch/pack

stop() { echo "FAILED: $*" >&2; exit 1; }

# refused CODE WORDS COMMAND...: one line that holds the words, and that exit code.
refused() {
  local code=$1 words=$2 status=0 said
  shift 2
  said=$("$@" 2>&1) || status=$?
  [ "$status" = "$code" ] || stop "expected exit code $code, got $status from: $*: $said"
  [ "$(wc -l <<<"$said")" = 1 ] || stop "expected one line from: $*: $said"
  grep -qF -- "$words" <<<"$said" || stop "expected '$words' in: $said"
}

"$root/tenfold" gpu-pack --out "$pack" >"$scratch/said"

# --- contents
for file in third_party/include/{nlohmann/json.hpp,CLI/CLI.hpp,gloo/config.h,gtest/gtest.h,gmock/gmock.h,benchmark/benchmark.h,zlib.h,zconf.h,png.h,turbojpeg.h} \
            third_party/googletest/src/{gtest-all,gtest_main,gmock-all}.cc third_party/lib/lib{z,png16,turbojpeg}.a tenfold CMakeLists.txt; do
  [ -s "$pack/$file" ] || stop "the pack lacks $file"
done
[ -e "$pack/cache/data/.complete" ] || stop "the pack lacks the mark of complete data"
compgen -G "$pack/third_party/lib/libbenchmark.so*" >/dev/null || stop "the pack lacks Google Benchmark"
[ -z "$(ls "$pack/results" | grep -v '^compiler$')" ] || stop "the pack carries results of machines"
[ ! -e "$pack/docs/ranks" ] || stop "the pack carries results of ranks"
{ git -C "$root" ls-files -z -- . ':!results' ':!docs/ranks'; git -C "$root" ls-files -z -- results/compiler; } | while IFS= read -r -d '' file; do
  [ ! -e "$root/$file" ] || cmp -s "$root/$file" "$pack/$file" || stop "the pack's $file is not the checkout's"
done
for sums in "$pack"/cache/data/*/SHA256SUMS; do (cd "$(dirname "$sums")" && sha256sum --quiet -c SHA256SUMS) || stop "altered data: $sums"; done
for folder in .git .venv build out cache/probe cache/ccache cache/downloads cache/data/{openclipart,shards}; do [ ! -e "$pack/$folder" ] || stop "the pack carries $folder"; done
read -r commit state <"$pack/COMMIT"
[ "$commit" = "$(git -C "$root" rev-parse HEAD)" ] || stop "COMMIT names $commit"
expected=clean
[ -z "$(git -C "$root" status --porcelain -- . ':!results')" ] || expected=dirty
[ "$state" = "$expected" ] || stop "COMMIT says $state in a checkout that is $expected"

# --- size
bytes=$(find "$pack" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%d", sum }')
(( bytes < 60 * 1048576 )) || stop "the pack has $bytes bytes"
grep -qF "$(awk -v b="$bytes" 'BEGIN { printf "%.1f MiB", b / 1048576 }')" "$scratch/said" || stop "the printed size is not the pack's: $(cat "$scratch/said")"

# --- packing again replaces a pack, and nothing else
echo old >"$pack/old"
"$root/tenfold" gpu-pack --out "$pack" >/dev/null
[ ! -e "$pack/old" ] || stop "a file of the old pack is left"
mkdir "$scratch/other" && echo precious >"$scratch/other/file"
refused 2 "is no pack" "$root/tenfold" gpu-pack --out "$scratch/other"
[ "$(cat "$scratch/other/file")" = precious ] || stop "a folder that is no pack was touched"
refused 2 "among the sources" "$root/tenfold" gpu-pack --out "$root/docs/pack"
refused 2 "--nonsense is not known" "$root/tenfold" gpu-pack --nonsense
refused 2 "--out needs a folder" "$root/tenfold" gpu-pack --out
refused 2 "not a git checkout" "$pack/tenfold" gpu-pack --out "$scratch/again"
refused 2 "is no part" "$pack/tenfold" gpu-run nonsense
if ! nvidia-smi -L >/dev/null 2>&1; then refused 3 "there is no GPU here" "$pack/tenfold" gpu-run sanitize; fi
refused 2 "is no part" "$pack/tenfold" gpu-run
refused 2 "there is no 'nonsense'" "$pack/tenfold" gpu-run bench transpose nonsense
refused 2 "there is no 'nonsense'" "$pack/tenfold" gpu-run tests nonsense
refused 2 "'nonsense' names no lesson" "$pack/tenfold" gpu-run lessons nonsense
refused 2 "'99' names no lesson" "$pack/tenfold" gpu-run lessons 30 99
[ ! -e "$pack/build" ] || stop "something was set up for a call that was refused"

# --- a tree that is too large leaves nothing behind
large=$scratch/large
cp -r "$pack" "$large"
rm -rf "$large/COMMIT" "$large/third_party" "$large/cache"
head -c 30000000 /dev/urandom >"$large/large.bin"
git -C "$large" -c init.defaultBranch=main init -q
git -C "$large" add -A
git -C "$large" -c user.name=test -c user.email=test@example.com commit -q -m test
refused 3 "large.bin" "$large/tenfold" gpu-pack --out "$scratch/too_large"
compgen -G "$scratch/too_large*" >/dev/null && stop "a pack that is too large was kept"
rm "$large/large.bin"
refused 2 "not complete" env TENFOLD_CACHE="$scratch/nothing" "$large/tenfold" gpu-pack --out "$scratch/no_data"
"$large/tenfold" gpu-pack --out "$scratch/removed" >/dev/null
[ "$(cut -d ' ' -f 2 "$scratch/removed/COMMIT")" = dirty ] || stop "a removed file left the checkout clean"
echo "gpu-pack: $bytes bytes, all there"
