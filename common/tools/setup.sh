# Setting a machine up, one named step at a time; sourced by ./tenfold. Everything that can be shared between clones lies in
# $TENFOLD_CACHE. Where nothing has changed since the last call, set_up only asks Ninja.

# shellcheck source=steps.sh
source "$root/common/tools/steps.sh"
# shellcheck source=system_packages.sh
source "$root/common/tools/system_packages.sh"

# --- paths -------------------------------------------------------------------------------------------------------
# Where downloads, Python packages, data and the compiler's cache lie: $TENFOLD_CACHE, or the user's folder for such things.
choose_cache() {
  local home=${HOME:-}
  [ -n "$home" ] || home=~  # as the system's list of users has it
  export TENFOLD_CACHE=${TENFOLD_CACHE:-${XDG_CACHE_HOME:-$home/.cache}/tenfold}
  absolute TENFOLD_CACHE
}

# absolute VARIABLE...: paths that came from outside are meant from where the user stands.
absolute() {
  local name
  for name in "$@"; do
    [ -z "${!name:-}" ] || [[ "${!name}" = /* ]] || export "$name=$PWD/${!name}"
  done
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

# Sets $environment: the folder of this Python and these pins. What was made in it is marked in $environment.made, unless it is
# not whole.
find_environment() {
  environment=$TENFOLD_CACHE/venv/$({ python3 --version; grep '==' "$root/requirements.txt"; echo "${Torch_DIR:-}"; } | sha256sum | cut -c 1-16)
  if [ -e "$environment.unfinished" ] || [ ! -x "$environment/bin/python" ]; then rm -rf "$environment.made"; fi
  [ "$(readlink "$root/.venv")" != "$environment" ] || return 0
  [ ! -e "$root/.venv/bin/.of-this-machine" ] || rm -r "$root/.venv"  # gpu-run's
  [ -L "$root/.venv" ] || [ ! -e "$root/.venv" ] || fail "$root/.venv is not this script's" "move it away, then call the same command again"
  ln -sfn "$environment" "$root/.venv"
}

# Makes the environment where it is missing or was left half made. It is used in place, so that a mark beside it, not its
# name, says that it is not whole.
make_environment() {
  writable "$TENFOLD_CACHE/venv" "set TENFOLD_CACHE to a folder that you can write"
  exec {environment_lock}>"$environment.lock"
  ! command -v flock >/dev/null || flock "$environment_lock"  # another clone may be making it
  if [ -e "$environment.unfinished" ] || ! "$environment/bin/python" -I -m pip --version >/dev/null 2>&1; then
    advise "check the free space in $TENFOLD_CACHE (6 GB), then call the same command again"
    rm -rf "$environment" "$environment.made"
    touch "$environment.unfinished"
    python3 -I -m venv "$environment"
    rm "$environment.unfinished"
  fi
}

# Scripts that somebody has installed through a checkout's link (.venv/bin/pip install) name that checkout; now the environment.
mend_scripts() {
  local scripts
  mapfile -t scripts < <(grep -lIE '^#!.*/\.venv/bin/python[0-9.]*$' "$environment"/bin/* 2>/dev/null)
  [ -z "${scripts[*]-}" ] || sed -i "1s|^#!.*|#!$environment/bin/python|" "${scripts[@]}"
}

# has_pinned FILE: whether the environment has these lines NAME==VERSION. Asking pip about torch takes seconds.
has_pinned() {
  "$root/.venv/bin/python" -I - "$1" <<'PY'
import sys
from importlib.metadata import version, PackageNotFoundError
def has(line):
    name, pin = line.strip().split("==")
    try:
        return version(name) == pin
    except PackageNotFoundError:
        return False
sys.exit(not all(has(line) for line in open(sys.argv[1])))
PY
}

install_pinned() {
  local wanted file
  make_environment
  wanted=$(sed 's/ *#.*//' <<<"$1" | grep -v '^$')
  [ -z "${Torch_DIR:-}" ] || wanted=$(grep -v '^torch==' <<<"$wanted")
  file=$environment.wanted  # under the environment's lock, and written over the next time
  printf '%s\n' "$wanted" >"$file"
  if ! has_pinned "$file"; then
    [ -z "${TENFOLD_OFFLINE:-}" ] || { advise "unset TENFOLD_OFFLINE"; echo "packages are missing and TENFOLD_OFFLINE is set"; return 1; }
    advise "check the network and the free space in $TENFOLD_CACHE (6 GB), then call the same command again"
    # Until pip is done, nobody may take what there is for whole.
    touch "$environment.unfinished"
    # By its own path, not through this checkout's link: pip writes it into the first line of the scripts that it installs, and
    # these must run for other checkouts when this one is gone.
    PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 "$environment/bin/python" -I -m pip install --no-input --disable-pip-version-check --progress-bar off -r "$file"
    if ! has_pinned "$file"; then
      advise "see what ${root}/.venv/bin/python -m pip config list says: target, prefix and root must not be set; then call again"
      echo "pip has put the packages elsewhere"
      return 1
    fi
    rm "$environment.unfinished"
  fi
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
fetch_data() { "$root/.venv/bin/python" -I "$root/common/data/fetch.py" "$TENFOLD_CACHE"; }

# Pictures to decode. A large download, so not a part of fetch_data: where it fails or is not wanted, the rest goes on.
fetch_openclipart() { "$root/.venv/bin/python" -I "$root/common/data/fetch.py" "$TENFOLD_CACHE" openclipart; }

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
  arguments+=(-DTENFOLD_THOROUGH="${TENFOLD_THOROUGH:-}")
  arguments+=(-DCMAKE_CXX_COMPILER="$(choose_compiler)")
  run_cmake "${arguments[@]}"
}

configure_kernels() {
  local cuda headers
  cuda=$(toolkit)
  headers=$cuda/include
  [ -n "$cuda" ] || headers=$("$root/.venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/nvidia/cu13/include
  run_cmake -DTENFOLD_CUDA_HEADERS="$headers" -DCMAKE_CXX_COMPILER="$(choose_compiler)"
}

# run_cmake SETTING...: configures $preset; from nothing where CMake cannot go on: another compiler, a build folder that was
# copied with its tree, a call that was interrupted.
run_cmake() {
  local unfinished=$build/.configuring compiler settings=("$@")
  compiler=$(cached_setting CMAKE_CXX_COMPILER)
  if [ -e "$unfinished" ] || [ "$(cached_setting CMAKE_HOME_DIRECTORY)" != "$root" ] ||
    [ "${compiler##*/}" != "$(sed 's|.*/||' <<<"${settings[-1]#*=}")" ]; then settings+=(--fresh); fi
  advise "read the log; a broken build folder is mended by: rm -rf ${build#"$root"/}"
  mkdir -p "$build"
  touch "$unfinished"
  (cd "$root" && "$root/.venv/bin/cmake" --preset "$preset" -DCMAKE_MAKE_PROGRAM="$root/.venv/bin/ninja" "${settings[@]}")
  rm "$unfinished"
}
cached_setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null || true; }

build_environment() {
  export CCACHE_DIR=$TENFOLD_CACHE/ccache CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=5G
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
  export NINJA_STATUS='[%f/%t] '
}

# How many compilers may run at once: $TENFOLD_JOBS; nothing, which is Ninja's own choice, unless they would not fit into
# memory. The largest take 1.5 GB each.
compiler_jobs() {
  local available limit jobs
  if [ -n "${TENFOLD_JOBS:-}" ]; then echo "$TENFOLD_JOBS"; return; fi
  available=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null || true)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || true)
  [[ ! "$limit" =~ ^[0-9]+$ ]] || (( limit / 1024 >= ${available:-0} && ${available:-0} > 0 )) || available=$((limit / 1024))
  jobs=$((${available:-0} / 1500000))
  (( ${available:-0} == 0 || jobs >= $(nproc) + 2 )) || echo $((jobs > 1 ? jobs : 1))
}

build_targets() {
  local jobs
  advise "read the error above; if a compiler was killed, it had too little memory: TENFOLD_JOBS=1; for a clean start: rm -rf ${build#"$root"/}"
  jobs=$(compiler_jobs)
  "$root/.venv/bin/ninja" -C "$build" ${jobs:+-j "$jobs"} "${targets[@]}"
}

# configure_preset PRESET: that preset's own folder, e.g. asan. The environment is set up already.
configure_preset() {
  preset=$1 build=$root/build/$1
  build_environment
  [ -e "$build/build.ninja" ] || step 1/2 "configure ($preset)" configure
}

# build_preset PRESET TARGET...: these targets in it.
build_preset() {
  configure_preset "$1"
  targets=("${@:2}")
  step 2/2 "build ($preset)" build_targets
}

# lessons_named WORD...: the folders that these words mean, by name, number or a part of a name; a word that means none or
# several is left to the driver, which says so.
lessons_named() {
  local word folder found
  for word in "$@"; do
    found=()
    for folder in "$root"/lessons/*/; do
      folder=${folder%/} folder=${folder##*/}
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
  kernels    what kernels' pages, tests and exercises need: neither LibTorch nor data
  driver     only what reads results and lists lessons
  bench      the benchmarks
  tests      everything, and what the tests need
  NAME       one lesson, by number or name
Every other command sets up by itself what it needs; this does it before.
TEXT
}

# set_up_kernels [TARGET...]: kernels, their pages, tests and exercises without LibTorch, nvcc and data, in a build folder of
# their own, in minutes; without a target what the exercises need.
set_up_kernels() {
  preset=kernels build=$root/build/kernels
  targets=("${@:-tenfold-driver}")
  [ $# -gt 0 ] || targets+=(tenfold_exercise_main tenfold_microscope)
  local pins
  begin_set_up kernels "${targets[@]}" && return
  pins=$(kernel_requirements; python3 --version)
  once 1/4 "system libraries" install_system_libraries "$system_packages ${clang_versions[*]} lld"
  find_environment
  made_in=$environment.made once 2/4 "Python packages (CMake, Ninja, CUDA's headers)" install_kernel_packages "$pins"
  mend_scripts
  [ -e "$build/build.ninja" ] || rm -f "$stamps/configure_kernels"-*
  once 3/4 "configure (kernels)" configure_kernels "$root $pins${CXX:-$(installed_clangs)}$(command -v ld.lld || true)"
  step 4/4 "build (${targets[*]})" build_targets 2
  end_set_up
}

# Whether one of these words means a lesson that launches no kernels, whose exercise then needs LibTorch.
needs_libtorch() {
  local lesson
  for lesson in $(lessons_named "$@"); do
    grep -qs KERNELS "$root/lessons/$lesson/CMakeLists.txt" || return 0
  done
  return 1
}

# What the last complete set-up saw, as far as it can be seen without starting a program: everything that decides what a step
# does. Sets $seen and $seen_file.
what_is_seen() {
  local path name
  seen="$preset $* $root $TENFOLD_CACHE ${CXX:-} ${Torch_DIR:-} ${CUDA_HOME:-} ${TENFOLD_TOOLKIT:-} ${TENFOLD_CUDA_ARCHS:-} ${TENFOLD_THOROUGH:-} $PATH"
  for path in /dev/nvidiactl "${CUDA_HOME:-/none}/bin/nvcc" /usr/local/cuda-13/bin/nvcc /usr/local/cuda/bin/nvcc; do
    [ ! -e "$path" ] || seen+=" $path"
  done
  for name in "${clang_versions[@]/#/clang++-}" clang++ ld.lld ccache; do
    ! command -v "$name" >/dev/null || seen+=" $name"
  done
  name="$preset-$*"
  seen_file=$stamps/all-${name//[^A-Za-z0-9_-]/.}
  # Which targets a test needs, only CMake knows: then the steps are gone through again.
  (( ${#name} < 200 )) && [ -z "${chosen_targets:-}" ] || seen_file=""
}

# begin_set_up WHAT...: takes the checkout's lock. Where nothing has changed since a set-up of WHAT was complete, asks Ninja
# for the targets, and is true: nothing is left to do.
begin_set_up() {
  unset PYTHONPATH PYTHONHOME  # the environment's own packages, and no others
  check_settings
  lock_checkout
  build_environment
  what_is_seen "$@"
  if nothing_has_changed; then
    step build "${targets[*]}" build_targets 2
    unlock_checkout
    return
  fi
  check_machine
  return 1
}

# Whether the environment's Python is the one that it was made with: after an upgrade of the system's, its packages lie in
# the folder of another version.
environment_has_its_python() {
  local python
  python=$(readlink -f -- "$root/.venv/bin/python") && [ -x "$python" ] && compgen -G "$root/.venv/lib/${python##*/}*/site-packages" >/dev/null
}

nothing_has_changed() {
  local file last
  [ -n "$seen_file" ] && IFS= read -r last 2>/dev/null <"$seen_file" && [ "$last" = "$seen" ] || return 1
  [ -x "$root/.venv/bin/ninja" ] && environment_has_its_python && [ -e "$build/build.ninja" ] && [ ! -e "$build/.configuring" ] && [ -z "$(unfinished_parts)" ] || return 1
  for file in requirements.txt common/tools/{setup,steps,system_packages}.sh common/tools/requirements-{nvcc,kernels,test}.txt \
              common/data/{fetch.py,openclipart.cpp,pictures.cpp,shard_writer.cpp}; do
    [ "$seen_file" -nt "$root/$file" ] || return 1
  done
}

end_set_up() {
  [ -z "$seen_file" ] || printf '%s\n' "$seen" >"$seen_file"
  unlock_checkout
}

# What an earlier set-up has made and somebody has taken away since.
unfinished_parts() {
  local shard
  [ "$preset" != kernels ] && [ -n "$data" ] || return 0
  [ -e "$TENFOLD_CACHE/data/.complete" ] || echo data
  [ -e "$TENFOLD_CACHE/data/openclipart/SHA256SUMS" ] && [ -n "$pictures" ] || return 0
  for shard in png jpeg256 raw64; do [ -e "$TENFOLD_CACHE/data/shards/openclipart-$shard-train.shard" ] || echo "$shard"; done
}

# set_up WHAT...: everything that WHAT needs, and no more: driver, core, lessons, bench, tests, or the targets of some
# lessons or kernels' pages. Fast when nothing has to be done. $chosen_targets, where it is set, is called when the build
# folder is configured, and sets what to build instead.
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
  begin_set_up "$@" && return
  local pins
  pins=$(python_requirements; python3 --version; echo "${Torch_DIR:-}"; toolkit)
  once 1/6 "system libraries" install_system_libraries "$system_packages ${clang_versions[*]} lld"
  find_environment
  made_in=$environment.made once 2/6 "Python packages (torch, CMake, Ninja; 3 GB, a few minutes)" install_python_packages "$pins"
  # The Python twins of the benches need them too.
  [ -z "$tools" ] || made_in=$environment.made once 2/6 "Python packages for tests (clang-format, clang-tidy, tiktoken, Pillow, vl-convert, playwright)" \
    install_test_tools "$pins$(cat "$root/common/tools/requirements-test.txt")"
  mend_scripts
  [ -z "$tools" ] || want_test_browser
  [ -n "$(toolkit)" ] || made_in=$environment.made once 3/6 "CUDA compiler from PyPI" link_cuda_compiler "$pins"
  if [ -n "$data" ]; then
    [ -e "$TENFOLD_CACHE/data/.complete" ] || rm -f "$stamps"/fetch_data-*
    once 4/6 "data (Fashion-MNIST, Shakespeare, GPT-2 vocabulary; 37 MB)" fetch_data "$(cat "$root/common/data/fetch.py")"
  fi
  # Without them, lessons and tests that need them are skipped.
  if [ -n "$pictures" ]; then
    [ -e "$TENFOLD_CACHE/data/openclipart/SHA256SUMS" ] || rm -f "$stamps"/fetch_openclipart-*
    [ -n "${TENFOLD_OFFLINE:-}" ] || once 4/6 "images (openclipart; 131 MB)" fetch_openclipart "$(cat "$root/common/data/fetch.py")"
  fi
  [ -e "$build/build.ninja" ] || rm -f "$stamps/configure.$preset"-*
  once 5/6 "configure ($preset)" configure "$root $pins$(cuda_archs)${TENFOLD_THOROUGH:-}${CXX:-$(installed_clangs)}$(command -v ld.lld || true)" "$preset"
  [ -z "${chosen_targets:-}" ] || "$chosen_targets"
  # Ninja knows whether there is something to do, but only looks for new files when it builds. A repeated call stays silent.
  step 6/6 "build (${targets[*]:0:4}${targets[4]:+ ...})" build_targets 2
  if [ -n "$pictures" ] && [ -e "$TENFOLD_CACHE/data/openclipart/SHA256SUMS" ]; then
    for shard in png jpeg256 raw64; do [ -e "$TENFOLD_CACHE/data/shards/openclipart-$shard-train.shard" ] || rm -f "$stamps"/pack_pictures-*; done
    once data "images into shards" pack_pictures "$(cat "$root"/common/data/{openclipart,pictures,shard_writer}.cpp)"
  fi
  end_set_up
}
