# Setting a machine up, one named step at a time; sourced by ./tenfold.
#
# A step that has succeeded leaves a stamp named after its inputs, so an interrupted set-up continues where it stopped
# and a finished one costs a few milliseconds. Everything that can be shared between clones lives in $TENFOLD_CACHE.

say() { printf '%s\n' "$*" >&2; }

# One clear line: what went wrong, and what to do about it. Exit code 3: the set-up failed.
fail() {
  say "tenfold: $1; ${2:+to fix: $2}"
  exit 3
}

# The same for a word that nobody knows: exit code 2.
refuse() {
  say "tenfold: $1; to fix: $2"
  exit 2
}

on_terminal() { [ -t 2 ] && [ -z "${CI:-}" ]; }

# step NUMBER TITLE FUNCTION [PATIENCE]: run FUNCTION with its output in a log, showing its last line (or a line each 30 s in a
# pipe). A step that is over before PATIENCE seconds are is not mentioned, unless it fails.
step() {
  local label="[$1] $2" log=$log_dir/$3.log patience=${4:-0} start=$SECONDS shown=0 status=0 announced=""
  mkdir -p "$log_dir"
  announce() {
    [ -n "$announced" ] || on_terminal || say "$label ..."
    announced=yes
  }
  (( patience > 0 )) || announce
  ( set -e; "$3" ) >"$log" 2>&1 &
  local worker=$!
  trap 'kill -- "$worker" 2>/dev/null; pkill -P "$worker" 2>/dev/null; say; say "tenfold: interrupted in \"${label}\"; call the same command again to continue"; exit 130' INT TERM
  while kill -0 "$worker" 2>/dev/null; do
    if (( SECONDS - start < patience )); then
      sleep 0.1
      continue
    fi
    announce
    if on_terminal; then
      printf '\r\033[K%s  %d s  %.60s' "$label" $((SECONDS - start)) "$(tail -c 300 "$log" | tr '\r' '\n' | tail -n 1)" >&2
    elif (( SECONDS - start >= shown + 30 )); then
      shown=$((SECONDS - start))
      say "    ${shown} s: $(tail -c 300 "$log" | tr '\r' '\n' | tail -n 1 | cut -c 1-100)"
    fi
    sleep 0.2
  done
  wait "$worker" || status=$?
  trap - INT TERM
  on_terminal && printf '\r\033[K' >&2
  if (( status != 0 )); then
    tail -n 15 "$log" | sed 's/^/    | /' >&2
    fail "\"$2\" failed" "$(grep -h '^tenfold-advice: ' "$log" | tail -n 1 | sed 's/^tenfold-advice: //' || true) (whole log: ${log#"$root"/})"
  fi
  [ -z "$announced" ] || say "$label: done in $((SECONDS - start)) s"
}

advise() { echo "tenfold-advice: $*"; }

# once NUMBER TITLE FUNCTION INPUTS [VARIANT]: a step that is skipped while its inputs are unchanged.
once() {
  local name=$3${5:+.$5} stamp
  stamp=$stamps/$name-$(printf '%s' "$4" | sha256sum | cut -c 1-16)
  [ -e "$stamp" ] && return
  step "$1" "$2" "$3"
  mkdir -p "$stamps"
  rm -f "$stamps/$name"-*
  touch "$stamp"
}

# --- 1 system libraries ------------------------------------------------------------------------------------------
system_packages=(g++ git python3-venv nlohmann-json3-dev libcli11-dev libgloo-dev ccache libgtest-dev libgmock-dev libbenchmark-dev zlib1g-dev libboost-context-dev
  libpng-dev libturbojpeg0-dev)

# Clang builds the tree in a third of g++'s time, and mold links it in a tenth of ld's. Wanted, never required: the first of
# these versions that is there. 16 comes first because it is the one that every change is built with.
clang_versions=(16 21 20 19 18 17)

installed_clangs() {
  local version
  for version in "${clang_versions[@]}"; do command -v "clang++-$version" || true; done
  command -v clang++ || true
}

# The C++ compiler: $CXX, or the first clang that is new enough and has its sanitizers, or g++.
choose_compiler() {
  local clang probe
  if [ -n "${CXX:-}" ]; then echo "$CXX"; return; fi
  probe=$(mktemp)
  for clang in $(installed_clangs); do
    if printf '#include <ranges>\n#if __clang_major__ < 16\n#error\n#endif\nint main() {}\n' |
      "$clang" -std=c++20 -fsanitize=thread -x c++ -o "$probe" - 2>/dev/null
    then
      rm -f "$probe"
      echo "$clang"
      return
    fi
  done
  rm -f "$probe"
  echo g++
}

# Packages of clang and mold that are not installed and that apt knows.
missing_wanted_packages() {
  local version
  command -v mold >/dev/null || echo mold
  [ "$(choose_compiler)" = g++ ] && [ -z "${CXX:-}" ] || return 0
  for version in "${clang_versions[@]}"; do
    if [ -n "$(apt-cache --quiet=2 search --names-only "^clang-$version\$" 2>/dev/null)" ]; then
      echo "clang-$version"
      echo "libclang-rt-$version-dev"
      return
    fi
  done
}

missing_system_packages() {
  local header package
  command -v g++ >/dev/null || echo g++
  command -v git >/dev/null || echo git
  command -v ccache >/dev/null || echo ccache
  python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
  for header in nlohmann/json.hpp:nlohmann-json3-dev CLI/CLI.hpp:libcli11-dev gloo/config.h:libgloo-dev zlib.h:zlib1g-dev \
                gtest/gtest.h:libgtest-dev gmock/gmock.h:libgmock-dev benchmark/benchmark.h:libbenchmark-dev \
                boost/context/detail/fcontext.hpp:libboost-context-dev png.h:libpng-dev turbojpeg.h:libturbojpeg0-dev; do
    package=${header#*:}
    echo "#include <${header%:*}>" | g++ -fsyntax-only -x c++ - 2>/dev/null || echo "$package"
  done
}

install_system_libraries() {
  install_required_packages
  install_wanted_packages || true
  echo "compiler: $(choose_compiler); linker: $(command -v mold || echo "the compiler's own")"
}

# Where they cannot be had, g++ and the default linker do the same work.
install_wanted_packages() {
  local wanted privilege=""
  command -v apt-get >/dev/null && [ -z "${TENFOLD_OFFLINE:-}" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 0
    privilege="sudo -n"
  fi
  wanted=$(missing_wanted_packages | tr '\n' ' ')
  [ -n "${wanted// /}" ] || return 0
  # shellcheck disable=SC2086
  $privilege env DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -q --no-install-recommends $wanted
}

install_required_packages() {
  local missing privilege=""
  missing=$(missing_system_packages | sort -u | tr '\n' ' ')
  [ -n "${missing// /}" ] || { echo "nothing is missing"; return 0; }
  echo "missing: $missing"
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then privilege="sudo -n"; else
      advise "sudo apt-get install $missing"
      return 1
    fi
  fi
  command -v apt-get >/dev/null || { advise "install these with your package manager (Debian names): $missing"; return 1; }
  advise "check the network, then: sudo apt-get update && sudo apt-get install $missing"
  [ -z "${TENFOLD_OFFLINE:-}" ] || return 1
  # shellcheck disable=SC2086
  { $privilege apt-get update -q && $privilege env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; }
}

# --- 2 Python packages -------------------------------------------------------------------------------------------
# The environment lives in the cache under the hash of what it holds, so the next clone links to it at once.
python_requirements() {
  cat "$root/requirements.txt"
  [ -n "$(toolkit)" ] || cat "$root/common/tools/requirements-nvcc.txt"
}

install_python_packages() { install_pinned "$(python_requirements)"; }
# Without LibTorch: tens of MB instead of gigabytes.
kernel_requirements() {
  grep -E '^(cmake|ninja)==' "$root/requirements.txt"
  [ -n "$(toolkit)" ] || cat "$root/common/tools/requirements-kernels.txt"
}
install_kernel_packages() { install_pinned "$(kernel_requirements)"; }
install_test_tools() { install_pinned "$(cat "$root/common/tools/requirements-test.txt")"; }

has_browser() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }
# The report is tested in a real browser. Wanted, never required: without one that test is skipped, and says so.
install_test_browser() {
  local privilege=""
  command -v apt-get >/dev/null && [ -z "${TENFOLD_OFFLINE:-}" ] || return 1
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 1
    privilege="sudo -n"
  fi
  $privilege apt-get update -q
  $privilege env DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -q --no-install-recommends chromium
}
want_test_browser() {
  ! has_browser || return 0
  say "[2/6] a browser, for the test of the report ..."
  install_test_browser >"$log_dir/install_test_browser.log" 2>&1 ||
    say "    none: that test is skipped; to run it: sudo apt-get install chromium"
}

install_pinned() {
  local wanted venv
  wanted=$(sed 's/ *#.*//' <<<"$1" | grep -v '^$')
  [ -z "${Torch_DIR:-}" ] || wanted=$(grep -v '^torch==' <<<"$wanted")
  venv=$TENFOLD_CACHE/venv/$({ python3 --version; grep '==' "$root/requirements.txt"; echo "${Torch_DIR:-}"; } | sha256sum | cut -c 1-16)
  mkdir -p "$TENFOLD_CACHE/venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  advise "check the network and the free space in $TENFOLD_CACHE (6 GB), then call the same command again"
  local file
  file=$(mktemp) && printf '%s\n' "$wanted" >"$file"
  # pip is asked only for what is not there: asking it about torch takes seconds.
  if ! "$venv/bin/python" - "$file" <<'PY'
import sys
from importlib.metadata import version, PackageNotFoundError
def there(line):
    name, pin = line.strip().split("==")
    try:
        return version(name) == pin
    except PackageNotFoundError:
        return False
sys.exit(not all(there(line) for line in open(sys.argv[1])))
PY
  then
    [ -z "${TENFOLD_OFFLINE:-}" ] || { echo "packages are missing and TENFOLD_OFFLINE is set"; return 1; }
    "$venv/bin/python" -m pip install --no-input --disable-pip-version-check --progress-bar off -r "$file"
  fi
  rm -f "$file"
  ln -sfn "$venv" "$root/.venv"
}

# --- 3 CUDA compiler ---------------------------------------------------------------------------------------------
# An installed CUDA 13 toolkit wins; TENFOLD_TOOLKIT=pip forces the PyPI one. LibTorch's CMake files ask for nvcc even
# when no kernel is built.
toolkit() {
  local candidate
  [ "${TENFOLD_TOOLKIT:-}" = pip ] && return
  for candidate in "${CUDA_HOME:-}" /usr/local/cuda-13 /usr/local/cuda; do
    if [ -n "$candidate" ] && [ -x "$candidate/bin/nvcc" ] && "$candidate/bin/nvcc" --version 2>/dev/null | grep -q 'release 13\.'; then
      echo "$candidate"
      return
    fi
  done
}

# Where link_cuda_compiler puts it: with the packages that it links to, so that every clone names its headers alike.
linked_toolkit() { echo "$(realpath "$root/.venv")/cuda"; }

# A toolkit folder of links into site-packages: unversioned library names added, lib64 beside lib.
link_cuda_compiler() {
  local site target library short
  site=$("$root/.venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  target=$(linked_toolkit)
  rm -rf "$target" && mkdir -p "$target/lib"
  for part in bin include nvvm; do ln -s "$site/nvidia/cu13/$part" "$target/$part"; done
  for library in "$site"/nvidia/cu13/lib/*; do
    ln -s "$library" "$target/lib/$(basename "$library")"
    short=$(basename "$library" | sed 's/\.so\..*/.so/')
    [ -e "$target/lib/$short" ] || ln -s "$library" "$target/lib/$short"
  done
  ln -s lib "$target/lib64"
  "$target/bin/nvcc" --version
}

# --- 4 data ------------------------------------------------------------------------------------------------------
fetch_data() { "$root/.venv/bin/python" "$root/common/data/fetch.py" "$TENFOLD_CACHE"; }

# Pictures to decode. A large download, so not a part of fetch_data: where it fails or is not wanted, the rest goes on.
fetch_openclipart() { "$root/.venv/bin/python" "$root/common/data/fetch.py" "$TENFOLD_CACHE" openclipart; }

# As the lessons read them: the files as they are, shrunk to JPEG, decoded. What is packed already stays.
pack_pictures() { for form in "" "--jpeg 256" "--raw 64"; do "$build/tenfold-driver" data pack $form; done; }

# The architectures that kernels are built for. The dev preset builds the whole list of CMakeLists.txt; who only runs
# lessons waits for one: this machine's, or the oldest as PTX, which every GPU's driver can finish.
cuda_archs() {
  local own
  if [ -n "${TENFOLD_CUDA_ARCHS:-}" ]; then echo "$TENFOLD_CUDA_ARCHS"; return; fi
  [ "$preset" = release ] || return 0
  own=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -E '^[0-9]+\.[0-9]+$' | sort -u | paste -sd ';' || true)
  echo "${own:-7.5+PTX}"
}

# --- 5 configure, 6 build ----------------------------------------------------------------------------------------
configure() {
  local cuda arguments=()
  cuda=$(toolkit)
  cuda=${cuda:-$(linked_toolkit)}
  export CUDA_HOME=$cuda CUDA_PATH=$cuda CUDACXX=$cuda/bin/nvcc
  arguments+=(-DCUDAToolkit_ROOT="$cuda" -DCUDA_TOOLKIT_ROOT_DIR="$cuda")
  if [ -n "${Torch_DIR:-}" ]; then arguments+=(-DTorch_DIR="$Torch_DIR"); else
    # Its real place, not the one below .venv: see TenfoldTorch.cmake. -I: PYTHONPATH may name another torch.
    arguments+=(-DTorch_DIR="$("$root/.venv/bin/python" -I -c \
      'import importlib.util as u, os; print(os.path.realpath(u.find_spec("torch").submodule_search_locations[0]))')/share/cmake/Torch")
  fi
  local archs
  archs=$(cuda_archs)
  [ -z "$archs" ] || arguments+=(-DTENFOLD_CUDA_ARCHS="$archs")
  # Another compiler than last time: CMake cannot change it in a folder that is configured.
  local compiler cached
  compiler=$(choose_compiler)
  cached=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
  [ "${cached##*/}" = "${compiler##*/}" ] || arguments+=(--fresh)
  arguments+=(-DCMAKE_CXX_COMPILER="$compiler")
  advise "read the log; a broken build folder is mended by: rm -rf ${build#"$root"/}"
  (cd "$root" && "$root/.venv/bin/cmake" --preset "$preset" -DCMAKE_MAKE_PROGRAM="$root/.venv/bin/ninja" "${arguments[@]}")
}

configure_kernels() {
  local cuda headers
  cuda=$(toolkit)
  headers=$cuda/include
  [ -n "$cuda" ] || headers=$("$root/.venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/nvidia/cu13/include
  advise "read the log; a broken build folder is mended by: rm -rf ${build#"$root"/}"
  (cd "$root" && "$root/.venv/bin/cmake" --preset kernels -DCMAKE_MAKE_PROGRAM="$root/.venv/bin/ninja" -DTENFOLD_CUDA_HEADERS="$headers" \
    -DCMAKE_CXX_COMPILER="$(choose_compiler)")
}

build_environment() {
  export CCACHE_DIR=$TENFOLD_CACHE/ccache CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=5G
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
  export NINJA_STATUS='[%f/%t] '
}

build_targets() {
  advise "read the error above; for a clean start: rm -rf ${build#"$root"/}"
  "$root/.venv/bin/ninja" -C "$build" ${TENFOLD_JOBS:+-j "$TENFOLD_JOBS"} "${targets[@]}"
}

# build_preset PRESET TARGET...: these targets in that preset's own folder, e.g. asan. The environment is set up already.
build_preset() {
  preset=$1 build=$root/build/$1
  targets=("${@:2}")
  build_environment
  [ -e "$build/build.ninja" ] || step 1/2 "configure ($preset)" configure
  step 2/2 "build ($preset)" build_targets
}

# lessons_named WORD...: the folders that these words mean, by name, number or a part of a name; a word that means none or
# several is left to the driver, which says so.
lessons_named() {
  local word folder found
  for word in "$@"; do
    found=()
    for folder in "$root"/lessons/*/; do
      folder=$(basename "$folder")
      case "$folder" in
        "$word" | "${word}_"*) found=("$folder"); break ;;
        *"$word"*) found+=("$folder") ;;
      esac
    done
    [ "${#found[@]}" != 1 ] || echo "${found[0]}"
  done
}

setup_usage() {
  cat <<'TEXT'
usage: ./tenfold setup [WHAT]
  lessons    every lesson: all that ./tenfold tour --all needs (without WHAT, too)
  core       the lessons of ./tenfold tour
  kernels    the exercises that are kernels: neither LibTorch nor data
  driver     only what reads results and lists lessons
  bench      the benchmarks
  tests      everything, and what the tests need
  NAME       one lesson, by number or name
Every other command sets up by itself what it needs; this does it before.
TEXT
}

# The exercises that are kernels, without LibTorch, nvcc and data: in a build folder of their own, in minutes.
set_up_kernels() {
  preset=kernels build=$root/build/kernels targets=(tenfold-driver tenfold_exercise_main tenfold_microscope)
  local pins
  pins=$(kernel_requirements; python3 --version)
  [ -e "$root/.venv/bin/python" ] || rm -f "$stamps"/install_kernel_packages-*
  once 1/4 "system libraries" install_system_libraries "${system_packages[*]} ${clang_versions[*]} mold"
  once 2/4 "Python packages (CMake, Ninja, CUDA's headers)" install_kernel_packages "$pins"
  build_environment
  [ -e "$build/build.ninja" ] || rm -f "$stamps/configure_kernels"-*
  once 3/4 "configure (kernels)" configure_kernels "$pins${CXX:-$(installed_clangs)}$(command -v mold || true)"
  step 4/4 "build (${targets[*]})" build_targets 2
}

# Whether one of these words means a lesson that launches no kernels, whose exercise then needs LibTorch.
needs_libtorch() {
  local lesson
  for lesson in $(lessons_named "$@"); do
    grep -qs KERNELS "$root/lessons/$lesson/CMakeLists.txt" || return 0
  done
  return 1
}

# set_up WHAT...: everything that WHAT needs, and no more: driver, core, lessons, bench, tests, or the targets of some
# lessons or kernels' pages. Fast when nothing has to be done.
set_up() {
  local tools="" data=yes pictures=yes
  case "$1" in
    driver) targets=(tenfold-driver) data="" pictures="" ;;
    core) targets=(tenfold_core_path) ;;
    lessons) targets=(tenfold_lessons) ;;
    bench) targets=(tenfold_lessons tenfold_bench) tools=yes ;;
    tests) targets=(all) tools=yes ;;
    *)
      targets=(tenfold-driver "$@")
      # A lesson names a large data set that it reads in its CMakeLists.txt.
      pictures=$(for name in "$@"; do grep -ls 'DATA openclipart' "$root/lessons/$name/CMakeLists.txt" || true; done)
      ;;
  esac
  local pins
  pins=$(python_requirements; python3 --version; echo "${Torch_DIR:-}"; toolkit)
  [ -e "$root/.venv/bin/python" ] || rm -f "$stamps"/install_python_packages-* "$stamps"/install_test_tools-*
  once 1/6 "system libraries" install_system_libraries "${system_packages[*]} ${clang_versions[*]} mold"
  once 2/6 "Python packages (torch, CMake, Ninja; 3 GB, a few minutes)" install_python_packages "$pins"
  # The Python twins of the benches need them too.
  [ -z "$tools" ] || once 2/6 "Python packages for tests (clang-format, clang-tidy, tiktoken, Pillow, vl-convert, playwright)" install_test_tools "$pins$(cat "$root/common/tools/requirements-test.txt")"
  [ -z "$tools" ] || want_test_browser
  [ -n "$(toolkit)" ] || once 3/6 "CUDA compiler from PyPI" link_cuda_compiler "$pins"
  if [ -n "$data" ]; then
    [ -e "$TENFOLD_CACHE/data/.complete" ] || rm -f "$stamps"/fetch_data-*
    once 4/6 "data (Fashion-MNIST, Shakespeare, GPT-2 vocabulary; 37 MB)" fetch_data "$(cat "$root/common/data/fetch.py")"
  fi
  # Without them, lessons and tests that need them are skipped.
  if [ -n "$pictures" ]; then
    [ -e "$TENFOLD_CACHE/data/openclipart/SHA256SUMS" ] || rm -f "$stamps"/fetch_openclipart-*
    [ -n "${TENFOLD_OFFLINE:-}" ] || once 4/6 "images (openclipart; 131 MB)" fetch_openclipart "$(cat "$root/common/data/fetch.py")"
  fi
  build_environment
  [ -e "$build/build.ninja" ] || rm -f "$stamps/configure.$preset"-*
  once 5/6 "configure ($preset)" configure "$pins$(cuda_archs)${CXX:-$(installed_clangs)}$(command -v mold || true)" "$preset"
  # Ninja knows whether there is something to do, but only looks for new files when it builds. A repeated call stays silent.
  step 6/6 "build (${targets[*]})" build_targets 2
  if [ -n "$pictures" ] && [ -e "$TENFOLD_CACHE/data/openclipart/SHA256SUMS" ]; then
    for shard in png jpeg256 raw64; do [ -e "$TENFOLD_CACHE/data/shards/openclipart-$shard-train.shard" ] || rm -f "$stamps"/pack_pictures-*; done
    once data "images into shards" pack_pictures "$(cat "$root"/common/data/{openclipart,pictures,shard_writer}.cpp)"
  fi
}
