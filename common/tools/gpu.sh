# A GPU machine without a network: `gpu-pack` makes a small tree here, `gpu-run` (gpu_run.sh) builds and runs it there.
# Sourced by ./tenfold after setup.sh.

pack_limit_mib=60

# --- gpu-pack ----------------------------------------------------------------------------------------------------
gpu_pack_usage() {
  cat <<TEXT
usage: ./tenfold gpu-pack [--out DIR]
Makes a tree of at most $pack_limit_mib MiB in DIR (default out/gpu-pack) that builds without a network on a Linux machine with
g++, CMake, Ninja, the CUDA 13 compiler and a python3 that has torch: the sources as they are here, the libraries that
such a machine may lack, and the data. There: ./tenfold gpu-run build, then the other parts (./tenfold gpu-run --help).
TEXT
}

# The folder in which the compiler finds a header; empty when it does not.
folder_of_header() {
  echo "#include <$1>" | g++ -x c++ -std=c++20 -M - 2>/dev/null | tr ' \\' '\n\n' | grep -m 1 "/$1\$" | sed "s|/$1\$||" || true
}

# What a bare machine may lack. Headers go to one include folder; TenfoldThirdParty.cmake makes targets of them.
pack_third_party() {
  local target=$1 header folder library name
  mkdir -p "$target/include" "$target/lib" "$target/googletest/src" "$target/licences"
  for header in nlohmann/json.hpp CLI/CLI.hpp gloo/config.h benchmark/benchmark.h zlib.h zconf.h png.h pngconf.h pnglibconf.h turbojpeg.h; do
    folder=$(folder_of_header "$header")
    [ -n "$folder" ] || fail "the header $header is not installed here" "./tenfold setup tests"
    cp -rL "$folder/${header%%/*}" "$target/include/"
  done
  [ -d /usr/src/googletest ] || fail "GoogleTest's sources are not in /usr/src/googletest" "./tenfold setup tests"
  for folder in googletest googlemock; do
    cp -r /usr/src/googletest/$folder/include/. "$target/include/"
    cp -r /usr/src/googletest/$folder/src/. "$target/googletest/src/"
  done
  # Of Boost only what the microscope's fibers include.
  header=boost/context/detail/fcontext.hpp
  folder=$(folder_of_header "$header")
  [ -n "$folder" ] || fail "the header $header is not installed here" "./tenfold setup tests"
  (cd "$folder" && echo "#include <$header>" | g++ -M -I. -x c++ - | tr -s ' \\' '\n' | sed -n 's#.*\(boost/.*\)#\1#p' | sort -u |
    xargs cp --parents -t "$target/include")
  for library in libz.a libpng16.a libturbojpeg.a libbenchmark.so libboost_context.a; do
    folder=$(g++ -print-file-name="$library")
    [ -e "$folder" ] || fail "the library $library is not installed here" "./tenfold setup tests"
    # A shared library is looked for by the name it carries inside.
    name=$(objdump -p "$folder" 2>/dev/null | awk '$1 == "SONAME" { print $2 }')
    cp -L "$folder" "$target/lib/${name:-$library}"
  done
  for name in nlohmann-json3-dev libcli11-dev libgloo-dev libbenchmark-dev zlib1g-dev googletest 'libboost1.*-dev' libpng-dev libturbojpeg0-dev; do
    for file in /usr/share/doc/$name/copyright; do
      [ ! -e "$file" ] || cp -L "$file" "$target/licences/$(basename "$(dirname "$file")")"
    done
  done
}

bytes_below() { find "$1" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%d", sum }'; }
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }

# The checkout's files below some paths, as git names them, new ones too.
files_of() { git -C "$root" ls-files -z --cached --others --exclude-standard --deduplicate -- "$@"; }

gpu_pack() {
  local out=$root/out/gpu-pack state=clean commit total part
  while [ $# -gt 0 ]; do
    case "$1" in
      --out) [ -n "${2:-}" ] || refuse "gpu-pack: --out needs a folder" "./tenfold gpu-pack --out DIR"
             out=$(realpath -m -- "$2"); shift ;;
      -h | --help) gpu_pack_usage; return 0 ;;
      *) refuse "gpu-pack: $1 is not known" "./tenfold gpu-pack [--out DIR]" ;;
    esac
    shift
  done
  [ "$(git -C "$root" rev-parse --show-toplevel 2>/dev/null)" = "$root" ] && commit=$(git -C "$root" rev-parse --verify -q HEAD) ||
    refuse "gpu-pack: $root is not a git checkout with a commit, so nothing says which code this is" "pack in a clone"
  [ -e "$TENFOLD_CACHE/data/.complete" ] || refuse "gpu-pack: the data in $TENFOLD_CACHE is not complete" "./tenfold setup"
  if [ -e "$out" ] && [ ! -e "$out/COMMIT" ] && [ -n "$(ls -A "$out" 2>/dev/null || echo a file)" ]; then
    refuse "gpu-pack: $out is there and is no pack" "name an empty folder with --out"
  fi
  case "$out/" in "$root"/*)
    git -C "$root" check-ignore -q "$out" || refuse "gpu-pack: $out lies among the sources" "name a folder below out/, or outside the checkout" ;;
  esac
  [ -z "$(git -C "$root" status --porcelain -- . ':!results')" ] || state=dirty

  # Made beside and renamed at the end, so an interrupted call leaves no half pack.
  packing=$out.partial.$$
  trap 'rm -rf "$packing"' EXIT
  mkdir -p "$packing" || refuse "gpu-pack: $packing cannot be made" "name another folder with --out"
  # Without the results of machines and of ranks, which grow with every lesson and which nothing there reads.
  { files_of . ':!results' ':!docs/ranks'; files_of results/compiler; } |
    while IFS= read -r -d '' file; do [ ! -e "$root/$file" ] || printf '%s\0' "$file"; done |
    tar -C "$root" --null --files-from=- -cf - | tar -C "$packing" -xf -
  echo "$commit $state" >"$packing/COMMIT"
  # What is changed in the pack later is not of this commit.
  (cd "$packing" && find CMakeLists.txt bench common fit kernels lessons -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \
    -o -name '*.cmake' -o -name CMakeLists.txt \) -print0 | LC_ALL=C sort -z | xargs -0 sha256sum) >"$packing/SHA256SUMS"
  part="sources $(mib "$(bytes_below "$packing")")"
  pack_third_party "$packing/third_party"
  part+=", libraries $(mib "$(bytes_below "$packing/third_party")")"
  mkdir -p "$packing/cache"
  # Without the pictures, for which there is no room. The cache may be links to a larger disk.
  tar -C "$TENFOLD_CACHE" -h --exclude=data/openclipart --exclude=data/openclipart.partial --exclude=data/shards -cf - data |
    tar -C "$packing/cache" -xf -
  part+=", data $(mib "$(bytes_below "$packing/cache")")"

  total=$(bytes_below "$packing")
  if (( total > pack_limit_mib * 1048576 )); then
    fail "the pack has $(mib "$total") ($part), more than $pack_limit_mib MiB; nothing was kept" \
      "take away or let git ignore $(cd "$packing" && find . -type f -printf '%s %P\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-), its largest file"
  fi
  rm -rf "$out"
  mv "$packing" "$out"
  echo "packed ${commit:0:10} ($state) into ${out#"$PWD"/}: $(mib "$total") ($part)"
  echo "copy that folder to the GPU machine and call there: ./tenfold gpu-run build"
}

source "$root/common/tools/gpu_run.sh"
