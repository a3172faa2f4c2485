# What the system's package manager brings: libraries, compilers, a browser; sourced by setup.sh.

# Debian's names, with Fedora's and Arch's.
package_table='
g++ gcc-c++ gcc
git git git
python3-venv python3 python
nlohmann-json3-dev json-devel nlohmann-json
libcli11-dev cli11-devel cli11
libgloo-dev gloo-devel gloo
ccache ccache ccache
libgtest-dev gtest-devel gtest
libgmock-dev gmock-devel gtest
libbenchmark-dev google-benchmark-devel benchmark
zlib1g-dev zlib-devel zlib
libboost-context-dev boost-devel boost
libpng-dev libpng-devel libpng
libturbojpeg0-dev turbojpeg-devel libjpeg-turbo'
system_packages=$(cut -d ' ' -f 1 <<<"$package_table" | tr '\n' ' ')

# Clang builds the tree in a third of g++'s time, and lld links a lesson in half of ld's. Not mold: version 1.10 can lay out a
# program that has thread-local variables so that the loader refuses it. Wanted, never required: the first of these versions
# that is there. 16 comes first because it is the one that every change is built with.
clang_versions=(16 21 20 19 18 17)

installed_clangs() {
  local version
  for version in "${clang_versions[@]}"; do command -v "clang++-$version" || true; done
  command -v clang++ || true
}

# What cannot work is said before anything is downloaded.
check_machine() {
  local version
  [ "$(uname -sm)" = "Linux x86_64" ] || fail "this is $(uname -sm)" "use Linux on x86-64; nothing else is supported"
  [ ! -e /lib/ld-musl-x86_64.so.1 ] || [ -e /lib64/ld-linux-x86-64.so.2 ] ||
    fail "this system's C library is musl, and LibTorch needs glibc" "use Debian, Ubuntu, Fedora or Arch, for example in a container"
  if command -v python3 >/dev/null; then
    version=$(python3 -I -c 'import sys; print(*sys.version_info[:2], sep=".")' 2>/dev/null || true)
    [[ "$version" =~ ^3\.1[0-4]$ ]] || fail "python3 is version ${version:-unknown}, and torch 2.11 is made for 3.10 to 3.14" "put one of these first on PATH"
  fi
  [ -d "${TMPDIR:-/tmp}" ] && [ -w "${TMPDIR:-/tmp}" ] || fail "the folder for temporary files, ${TMPDIR:-/tmp}, cannot be written" "set TMPDIR to one that can"
  check_named_compiler
}

# What the environment says of the build, before anything is done with it.
check_settings() {
  [[ "${TENFOLD_JOBS:-1}" =~ ^[1-9][0-9]{0,2}$ ]] || refuse "TENFOLD_JOBS='$TENFOLD_JOBS' is no number of compilers" "set it to 1 to 999, or unset it"
  [[ "${TENFOLD_CUDA_ARCHS:-9.0}" =~ ^[0-9]+\.[0-9]a?(\+PTX)?([\;\ ][0-9]+\.[0-9]a?(\+PTX)?)*$ ]] ||
    refuse "TENFOLD_CUDA_ARCHS='$TENFOLD_CUDA_ARCHS' is no list of GPU architectures" "write for example TENFOLD_CUDA_ARCHS='8.0;9.0', or unset it"
}

# $CXX names a program and nothing else; ccache is called anyway.
check_named_compiler() {
  [ -n "${CXX:-}" ] || return 0
  CXX=${CXX#"${CXX%%[![:space:]]*}"}
  [[ "$CXX" != ccache\ * ]] || CXX=${CXX#ccache }
  if [[ "$CXX" = *[[:space:]]* ]] && ! command -v "$CXX" >/dev/null; then
    refuse "CXX='$CXX' holds more than a compiler" "CXX=${CXX%% *} CXXFLAGS='${CXX#* }'"
  fi
  [[ "$CXX" != */* ]] || absolute CXX
  command -v "$CXX" >/dev/null || refuse "CXX=$CXX is no program here" "name an installed C++20 compiler, or unset CXX"
  export CXX
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

# Packages of clang and lld that are not installed and that apt knows.
missing_wanted_packages() {
  local version
  command -v ld.lld >/dev/null || echo lld
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
  python3 -I -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
  for header in nlohmann/json.hpp:nlohmann-json3-dev CLI/CLI.hpp:libcli11-dev gloo/config.h:libgloo-dev zlib.h:zlib1g-dev \
                gtest/gtest.h:libgtest-dev gmock/gmock.h:libgmock-dev benchmark/benchmark.h:libbenchmark-dev \
                boost/context/detail/fcontext.hpp:libboost-context-dev png.h:libpng-dev turbojpeg.h:libturbojpeg0-dev; do
    package=${header#*:}
    echo "#include <${header%:*}>" | g++ -fsyntax-only -x c++ - 2>/dev/null || echo "$package"
  done
}

# as_root: how to become root here without being asked, or nothing where one is; fails where that is not possible.
as_root() {
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo >/dev/null && sudo -n true 2>/dev/null && echo "sudo -n"
}

# apt_install SECONDS PACKAGE...
apt_install() {
  local privilege limit=$1
  shift
  command -v apt-get >/dev/null && [ -z "${TENFOLD_OFFLINE:-}" ] && privilege=$(as_root) || return 1
  $privilege env DEBIAN_FRONTEND=noninteractive timeout "$limit" apt-get install -y -q --no-install-recommends "$@"
}

# command_to_install PACKAGE...: what to type on this distribution, from Debian's names. Only Debian and Ubuntu were tried.
command_to_install() {
  local family names column=1
  family=$(. "${os_release:-/etc/os-release}" 2>/dev/null && echo " ${ID:-} ${ID_LIKE:-} " || true)
  case "$family" in
    *" debian "* | *" ubuntu "*) echo "sudo apt-get update && sudo apt-get install $*"; return ;;
    *" fedora "* | *" rhel "*) column=2 ;;
    *" arch "*) column=3 ;;
  esac
  names=$(for name in "$@"; do
    awk -v name="$name" -v column="$column" '$1 == name { print $column; known = 1 } END { if (!known) print name }' <<<"$package_table"
  done | sort -u | tr '\n' ' ')
  case $column in
    2) echo "sudo dnf install $names(untried)" ;;
    3) echo "sudo pacman -S $names(untried)" ;;
    *) echo "install these with your package manager (Debian's names): $names" ;;
  esac
}

install_system_libraries() {
  install_required_packages
  install_wanted_packages || true
  echo "compiler: $(choose_compiler); linker: $(command -v ld.lld || echo "the compiler's own")"
}

# Where they cannot be had, g++ and the default linker do the same work.
install_wanted_packages() {
  local wanted
  wanted=$(missing_wanted_packages | tr '\n' ' ')
  # shellcheck disable=SC2086
  [ -z "${wanted// /}" ] || apt_install 600 $wanted
}

install_required_packages() {
  local missing privilege
  missing=$(missing_system_packages | sort -u | tr '\n' ' ')
  [ -n "${missing// /}" ] || { echo "nothing is missing"; return 0; }
  echo "missing: $missing"
  # shellcheck disable=SC2086
  advise "$(command_to_install $missing)"
  command -v apt-get >/dev/null && [ -z "${TENFOLD_OFFLINE:-}" ] && privilege=$(as_root) || return 1
  # shellcheck disable=SC2086
  $privilege apt-get update -q && apt_install 1200 $missing
}

has_browser() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }
install_test_browser() {
  local privilege
  command -v apt-get >/dev/null && [ -z "${TENFOLD_OFFLINE:-}" ] && privilege=$(as_root) || return 1
  $privilege apt-get update -q && apt_install 300 chromium
}
# The report is tested in a real browser. Wanted, never required: without one that test is skipped, and says so. Where none
# could be had, nobody waits for it again on that day.
want_test_browser() {
  ! has_browser && [ -z "$(find "$stamps/no_browser" -mtime -1 2>/dev/null)" ] || return 0
  say "[2/6] a browser, for the test of the report ..."
  mkdir -p "$log_dir" "$stamps"
  install_test_browser >"$log_dir/install_test_browser.log" 2>&1 && return
  touch "$stamps/no_browser"
  say "    none: that test is skipped; to run it: $(command_to_install chromium)"
}
