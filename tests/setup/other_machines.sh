#!/usr/bin/env bash
# The set-up on machines that are not ours: shells with settings of their own, closed streams, folders that cannot be written,
# environments that were left half made, another user, no package lists. Nothing is downloaded.
# usage: other_machines.sh SOURCE
set -u
source=$1
real_cache=${TENFOLD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tenfold}
work=$(mktemp -d)
cleanup() { umount "$work/read-only" 2>/dev/null; rm -rf "$work"; }
trap cleanup EXIT
. "$source/tests/setup/expect.sh"
tree=$work/tree
copy_tree "$tree"
export CI=1 TENFOLD_OFFLINE=1
unset TENFOLD_PRESET

# in_tree COMMAND...: its output and exit status, from inside the tree.
in_tree() { output=$(cd "$tree" && "$@" 2>&1); status=$?; }

# --- the caller's shell
in_tree env -u HOME -u XDG_CACHE_HOME -u TENFOLD_CACHE ./tenfold help
expect "without HOME" 0 '/tenfold tour'
output=$(cd "$work" && CDPATH=.:/tmp tree/tenfold help 2>&1); status=$?
expect "with CDPATH" 0 '/tenfold tour'
ln -s "$tree/tenfold" "$work/link"
output=$(cd / && "$work/link" setup nosuch 2>&1); status=$?
expect "started through a link" 2 "there is no 'nosuch'"
in_tree env GIT_DIR=/nowhere GIT_WORK_TREE=/ ./tenfold setup nosuch
expect "called by a git hook" 2 "there is no 'nosuch'"
in_tree env TENFOLD_PRESET=relaese ./tenfold setup kernels
expect "a preset that is none" 2 'TENFOLD_PRESET=relaese is no preset; to fix: '
for streams in '2>&-' '>&- 2>&-' '<&- 2>&-'; do
  (cd "$tree" && eval "./tenfold setup --help $streams" >/dev/null); status=$? output=""
  expect "streams closed: $streams" 0 ''
done
for command in tets runn --nonsense; do
  in_tree env TENFOLD_CACHE="$work/none" ./tenfold $command
  expect "an unknown command sets nothing up: $command" 2 "'$command' is no command; to fix: ./tenfold help"
done
check "nothing was made for it" "[ ! -e '$work/none' ] && [ ! -e '$tree/build' ]"

# --- compilers and folders
in_tree env TENFOLD_CACHE="$work/none" CXX='g++ -m64' ./tenfold setup kernels
expect "CXX with flags" 2 "CXX='g++ -m64' holds more than a compiler; to fix: CXX=g++ CXXFLAGS='-m64'"
in_tree env TENFOLD_CACHE="$work/none" CXX=no-such-compiler ./tenfold setup kernels
expect "CXX that is not there" 2 'CXX=no-such-compiler is no program here; to fix: '
in_tree env TENFOLD_CACHE="$work/none" TMPDIR=/no/such/folder ./tenfold setup kernels
expect "no folder for temporary files" 3 'temporary files, /no/such/folder, cannot be written; to fix: set TMPDIR'
touch "$work/a-file"
in_tree env TENFOLD_CACHE="$work/a-file" ./tenfold setup kernels
expect "a cache that is a file" 3 'to fix: set TENFOLD_CACHE to a folder that you can write'
mkdir "$work/old-python" && printf '#!/bin/sh\necho 3.8\n' >"$work/old-python/python3" && chmod +x "$work/old-python/python3"
in_tree env TENFOLD_CACHE="$work/none" PATH="$work/old-python:$PATH" ./tenfold setup kernels
expect "a python3 that is too old" 3 'python3 is version 3.8, and torch 2.11 is made for 3.10 to 3.14; to fix: '
check "one line each" '[ "$(wc -l <<<"$output")" = 1 ]'

# --- an environment that was left half made
in_tree env TENFOLD_CACHE="$work/half" ./tenfold setup kernels
expect "packages without a network" 3 'packages are missing and TENFOLD_OFFLINE is set'
environment=$(readlink "$tree/.venv")
rm -rf "$environment" && python3 -m venv --without-pip "$environment"
in_tree env TENFOLD_CACHE="$work/half" ./tenfold setup kernels
check "an environment without pip is made again" "'$environment/bin/python' -m pip --version >/dev/null"
rm -rf "$environment/lib" && touch "$environment.unfinished"
in_tree env TENFOLD_CACHE="$work/half" ./tenfold setup kernels
check "one that was interrupted, too" "'$environment/bin/python' -m pip --version >/dev/null && [ ! -e '$environment.unfinished' ]"

# --- a whole set-up of the kernels' part, with what the cache has: from outside the tree, with foreign packages and settings
mkdir -p "$work/foreign/torch" "$work/elsewhere/.pip"
echo 'raise SystemExit("a foreign torch")' | tee "$work/foreign/torch/__init__.py" >"$work/foreign/sysconfig.py"
printf '[global]\nuser = true\n' >"$work/pip.conf"
relative=$(realpath --relative-to="$work" "$real_cache")
compiler=$(root=$source; . "$source/common/tools/setup.sh"; choose_compiler)
output=$(cd "$work" && PYTHONPATH=$work/foreign PIP_CONFIG_FILE=$work/pip.conf TENFOLD_CACHE=$relative CXX="ccache $compiler" \
  tree/tenfold setup kernels 2>&1); status=$?
expect "a relative cache, foreign packages, pip's user setting, CXX with ccache" 0 'ready: '
check "the link leads out of the tree" "[ -x '$tree/.venv/bin/ninja' ]"
check "no script of the environment ends with a checkout" "! grep -lIE '^#!.*/\.venv/' '$tree'/.venv/bin/*"
output=$(cd "$work" && TENFOLD_CACHE=$relative CXX="ccache $compiler" tree/tenfold setup kernels 2>&1); status=$?
expect "the second call" 0 '^ready: [0-9]* s$'
# Ninja is named where asking it takes a while.
check "says nothing else" '[ "$(grep -vc "^\[build\]" <<<"$output")" = 1 ]'
for name in .. . / ../common nosuch; do
  in_tree env TENFOLD_CACHE="$real_cache" CXX="ccache $compiler" ./tenfold kernel "$name"
  expect "a kernel that is none: $name" 2 "tenfold: unknown kernel '$name'; there are: "
done
output=$(cd "$work" && TENFOLD_CACHE=$relative CXX="ccache $compiler" tree/tenfold kernel strided_copy 2>&1); status=$?
expect "a kernel's page does not wait for LibTorch" 0 'sectors'
check "nothing else was set up" "[ ! -e '$tree/build/release/build.ninja' ]"

# --- a copy of the tree with its build folder: it builds itself, not the tree that it was copied from
cp -a "$tree" "$work/copy"
output=$(cd "$work/copy" && CXX=$compiler ./tenfold setup kernels 2>&1); status=$?
expect "a copied tree" 0 'ready: '
check "it was configured for itself" "grep -q 'CMAKE_HOME_DIRECTORY:INTERNAL=$work/copy\$' '$work/copy/build/kernels/CMakeCache.txt'"

# --- folders of others
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$work"
  as_nobody() { output=$(cd "$tree" && setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent "$@" 2>&1); status=$?; }
  as_nobody ./tenfold help
  expect "another user reads the help" 0 'tenfold'
  rm -f "$tree/build/setup"/all-*
  as_nobody env TENFOLD_CACHE="$work/theirs" ./tenfold setup kernels
  expect "a checkout of somebody else" 3 'build cannot be written by .*; to fix: clone into a folder that you can write'
  check "in one line" '[ "$(wc -l <<<"$output")" = 1 ]'
  copy_tree "$work/own" && chown -R 65534:65534 "$work/own"
  output=$(cd "$work/own" && setpriv --reuid=65534 --regid=65534 --clear-groups env -u TENFOLD_CACHE HOME=/nonexistent ./tenfold setup kernels 2>&1); status=$?
  expect "a home that is missing" 3 "^tenfold: cannot create directory .*; to fix: set TENFOLD_CACHE"
  check "said once" '[ "$(grep -c "to fix" <<<"$output")" = 1 ]'
fi
mkdir "$work/read-only"
if mount --bind "$tree" "$work/read-only" 2>/dev/null && mount -o remount,bind,ro "$work/read-only" 2>/dev/null; then
  output=$(cd "$work/read-only" && TENFOLD_CACHE="$work/new" ./tenfold setup kernels 2>&1); status=$?
  expect "a read-only checkout" 3 'to fix: clone into a folder that you can write'
  check "in one line as well" '[ "$(wc -l <<<"$output")" = 1 ]'
  output=$(cd "$work/read-only" && ./tenfold test --help 2>&1); status=$?
  expect "its help is there all the same" 0 'usage: ./tenfold test'
else
  echo "skipped: a read-only checkout (mounting is not permitted here)"
fi

# --- the words of other distributions
for system in 'ID=fedora:sudo dnf install .*json-devel' 'ID=manjaro ID_LIKE=arch:sudo pacman -S .*nlohmann-json' \
              'ID=ubuntu ID_LIKE=debian:sudo apt-get update && sudo apt-get install .*nlohmann-json3-dev' 'ID=void:package manager .*nlohmann-json3-dev'; do
  output=$(
    root=$source
    . "$source/common/tools/setup.sh"
    read -ra words <<<"${system%%:*}"
    printf '%s\n' "${words[@]}" >"$work/os-release"
    os_release=$work/os-release command_to_install nlohmann-json3-dev
  ) status=$?
  expect "packages on ${system%%:*}" 0 "${system#*:}"
done

# --- an upgrade of the system's Python, under packages that the new one does not see
upgraded=$work/upgraded
mkdir -p "$upgraded/.venv/bin" "$upgraded/.venv/lib/python3.11/site-packages"
for version in 3.11 3.12; do printf '#!/bin/sh\n' >"$upgraded/python$version"; chmod +x "$upgraded/python$version"; done
has_its_python() (root=$source; . "$source/common/tools/setup.sh"; root=$upgraded; environment_has_its_python)
ln -s "$upgraded/python3.11" "$upgraded/.venv/bin/python"
check "the Python that an environment was made with" has_its_python
ln -sfn "$upgraded/python3.12" "$upgraded/.venv/bin/python"
check "an upgraded Python" '! has_its_python'
rm "$upgraded/python3.12"
check "a Python that is gone" '! has_its_python'
exit $failed
