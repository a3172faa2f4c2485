# A GPU machine without a network: `gpu-pack` makes a small tree here, `gpu-run` builds and runs it there. Sourced by
# ./tenfold after setup.sh, whose steps it shares.

pack_limit_mib=60
part_seconds=${TENFOLD_PART_SECONDS:-520}  # one part's share, its build included

# Bad input: one line, exit code 2.
refuse() {
  say "tenfold: $1; to fix: $2"
  exit 2
}

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
  for name in nlohmann-json3-dev libcli11-dev libgloo-dev libbenchmark-dev zlib1g-dev googletest libboost1.74-dev libpng-dev libturbojpeg0-dev; do
    [ ! -e "/usr/share/doc/$name/copyright" ] || cp -L "/usr/share/doc/$name/copyright" "$target/licences/$name"
  done
}

bytes_below() { find "$1" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%d", sum }'; }
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }

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
  git -C "$root" ls-files -z --cached --others --exclude-standard --deduplicate |
    while IFS= read -r -d '' file; do [ ! -e "$root/$file" ] || printf '%s\0' "$file"; done |
    tar -C "$root" --null --files-from=- -cf - | tar -C "$packing" -xf -
  echo "$commit $state" >"$packing/COMMIT"
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

# --- gpu-run -----------------------------------------------------------------------------------------------------
gpu_run_usage() {
  cat <<TEXT
usage: ./tenfold gpu-run PART, in an unpacked gpu-pack or in a checkout; each part ends within $part_seconds s
  build [TARGET...]        everything, or some of Ninja's targets
  tests [CTEST FLAGS...]   the tests labelled unit and gpu, or those that the flags choose
  sanitize [NAME...]       the kernels' tests under compute-sanitizer: memory, races, barriers; all kernels, or those named
  lessons [A..B] [FLAGS]   the lessons numbered A to B with --preset quick, one after the other, as far as time allows
  bench                    the benchmark programs
  probe                    what this machine can do at most, and what it has
A part leaves at most three files in \$OUT (default out/gpu). What was built and measured is kept, so a part that ran out of
time goes on when it is called again. Without a GPU everything runs on the CPU, as do lessons of more ranks than GPUs.
TEXT
}

gpu_left() { echo $((part_seconds - SECONDS > 1 ? part_seconds - SECONDS : 1)); }

# Stands in for the environment that `setup` makes: the tools of this machine under the names the driver looks for.
gpu_tools() {
  local tool python version bin=$root/.venv/bin
  if [ -x "$bin/python" ] && [ ! -e "$bin/.of-this-machine" ]; then return; fi
  for tool in g++ cmake ctest ninja python3; do
    command -v "$tool" >/dev/null || fail "$tool is not on PATH" "install it, or ./tenfold setup where there is a network"
  done
  python=$(command -v python3)
  version=$(python3 -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || true)
  [[ "$version" == 2.11* || -n "${Torch_DIR:-}" ]] ||
    fail "$python has ${version:+torch $version, not }torch 2.11${version:+}" "put a python3 that has torch 2.11 first on PATH, or set Torch_DIR"
  [ ! -L "$root/.venv" ] || rm "$root/.venv"
  mkdir -p "$bin"
  touch "$bin/.of-this-machine"
  # Scripts, not links: a linked python forgets which environment it belongs to.
  for tool in cmake ctest ninja python3; do printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$tool")" >"$bin/$tool"; done
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$bin/python"
  printf '#!/bin/sh\nexec "%s" -m torch.distributed.run "$@"\n' "$python" >"$bin/torchrun"
  chmod +x "$bin"/*
}

gpu_prepare() {
  local capabilities
  gpu_tools
  [ ! -d "$root/cache/data" ] || export TENFOLD_CACHE=$root/cache
  [ -e "$TENFOLD_CACHE/data/.complete" ] || fail "the data in $TENFOLD_CACHE is not complete" "unpack again, or ./tenfold setup where there is a network"
  capabilities=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | paste -sd ';' || true)
  device=cuda
  if [[ ! "$capabilities" =~ ^[0-9.\;]+$ ]]; then
    device=cpu capabilities=""
    say "gpu-run: nvidia-smi shows no GPU; what can run on the CPU runs with --device cpu"
  fi
  # Code for other GPUs than this one would only take time to compile.
  [ -z "$capabilities" ] || export TENFOLD_CUDA_ARCHS=${TENFOLD_CUDA_ARCHS:-$capabilities}
  if [ -z "$(toolkit)" ] && [ ! -x "$root/build/cuda/bin/nvcc" ]; then
    step 1/3 "CUDA compiler of the Python environment" link_cuda_compiler
  fi
  build_environment
  [ -e "$build/build.ninja" ] || rm -f "$stamps/configure.$preset"-*
  once 2/3 "configure ($preset${TENFOLD_CUDA_ARCHS:+, GPU architectures $TENFOLD_CUDA_ARCHS})" configure \
    "${TENFOLD_CUDA_ARCHS:-}$(toolkit)${Torch_DIR:-}$(cat "$root/COMMIT" 2>/dev/null)" "$preset"
}

# Goes on after an error: one file that does not compile must not cost the others their time on the GPU.
gpu_compile() {
  local status=0
  timeout "$(gpu_left)" "$root/.venv/bin/ninja" -C "$build" -j "$(nproc)" -k 0 "${gpu_targets[@]}" || status=$?
  echo "$status" >"$log_dir/gpu_build.status"
}

# gpu_build TARGET...: sets build_problem when not all of it was built.
gpu_build() {
  gpu_targets=("$@") build_problem=""
  step 3/3 "build (${gpu_targets[*]:0:4}${5:+ ...})" gpu_compile
  case "$(cat "$log_dir/gpu_build.status")" in
    0) return ;;
    124) build_problem="the build was not done in time; call the same command again to go on" ;;
    *) build_problem="not built: $(grep -h '^FAILED: ' "$log_dir/gpu_compile.log" | sed 's/^FAILED: //; s/^\[code=[0-9]*\] //' | cut -d ' ' -f 1 | tr '\n' ' ')" ;;
  esac
  worst=1
  say "gpu-run: $build_problem"
  grep -h -A 2 'error' "$log_dir/gpu_compile.log" | head -n 20 | sed 's/^/    | /' >&2 || true
}

# The programs that the chosen tests start, as Ninja's targets. ctest leaves out the command of a test that is not built
# yet, so commands are read from its files.
programs_of_tests() {
  "$root/.venv/bin/python" - "$root/.venv/bin" "$(realpath "$build")" "$@" <<'PY'
import json, pathlib, re, subprocess, sys
tools, build, flags = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
chosen = json.loads(said(tools / "ctest", "--test-dir", build, "--show-only=json-v1", *flags))["tests"]
names = {test["name"] for test in chosen}
outputs = {line.rsplit(": ", 1)[0] for line in said(tools / "ninja", "-C", build, "-t", "targets", "all").splitlines()}
found = set()
for file in build.rglob("CTestTestfile.cmake"):
    for name, command in re.findall(r'^add_test\((?:"|\[=*\[)?([^"\]]+?)(?:"|\]=*\])? (".*")\)$', file.read_text(), re.M):
        if name in names:
            found.update(re.findall(f'"{re.escape(str(build))}/([^"]+)"', command))
print("\n".join(sorted(found & outputs)))
PY
}

part_build() {
  local targets=("$@")
  [ $# -gt 0 ] || mapfile -t targets < <(echo tenfold_lessons; echo tenfold_bench; programs_of_tests -L '^(unit|gpu)$' -LE '^slow$')
  gpu_build "${targets[@]}"
  cp "$log_dir/gpu_compile.log" "$out/build.txt"
  table+="build            ${build_problem:-done}"$'\n'
}

part_tests() {
  local flags=("$@") targets status=0
  [ $# -gt 0 ] || flags=(-L '^(unit|gpu)$' -LE '^slow$')
  mapfile -t targets < <(programs_of_tests "${flags[@]}")
  [ -z "${targets[*]}" ] || gpu_build "${targets[@]}"
  timeout "$(gpu_left)" "$root/.venv/bin/ctest" --test-dir "$build" --output-on-failure --no-tests=error -j $((($(nproc) + 1) / 2)) \
    --output-junit "$out/tests.xml" "${flags[@]}" >"$out/tests.txt" 2>&1 || status=$?
  (( status == 0 )) || worst=1
  table+=$(grep -E 'tests? passed|tests failed|\*\*\*|^Total Test time' "$out/tests.txt" || tail -n 3 "$out/tests.txt")$'\n'
  [ "$status" != 124 ] || table+="the time was up before all tests had run"$'\n'
}

part_sanitize() {
  local checker kernel tool status targets=() names=("$@") known=()
  checker=$(PATH=$PATH:$(toolkit)/bin command -v compute-sanitizer) || fail "compute-sanitizer is not on PATH" "install NVIDIA's cuda-sanitizer package"
  for kernel in "$root"/tests/kernels/*_test.cpp; do
    kernel=$(basename "$kernel" _test.cpp)
    [[ "$kernel" = *_torch || "$kernel" = hand_counts || ! -d "$root/kernels/$kernel" ]] || known+=("$kernel")
  done
  for kernel in ${names[@]+"${names[@]}"}; do
    [[ " ${known[*]} " == *" $kernel "* ]] || refuse "gpu-run sanitize: '$kernel' is no kernel with a test" "name some of: ${known[*]}"
  done
  [ ${#names[@]} -gt 0 ] || names=("${known[@]}")
  for kernel in "${names[@]}"; do targets+=("kernel_gpu_${kernel}_test"); done
  gpu_build "${targets[@]}"
  : >"$out/sanitize.txt"
  for kernel in "${names[@]}"; do
    for tool in memcheck racecheck synccheck; do
      status=0
      timeout "$(gpu_left)" "$checker" --tool "$tool" --error-exitcode 9 "$build/tests/kernel_gpu_${kernel}_test" >>"$out/sanitize.txt" 2>&1 || status=$?
      case $status in
        0) table+="$kernel, $tool: clean"$'\n' ;;
        124) table+="$kernel, $tool: the time was up"$'\n'; worst=1 ;;
        *) table+="$kernel, $tool: exit code $status, see sanitize.txt"$'\n'; worst=1 ;;
      esac
    done
  done
}

# A program that an earlier call has left must not run under the name of sources that no longer compile.
not_built() { [ ! -x "$build/lessons/$1" ] || [[ "$build_problem" =~ lesson-objects/$1/|" common/"|tenfold_pch|"not done in time" ]]; }

part_lessons() {
  local first=0 last=99 folder name number status began ranks on wanted=$device names=() left=() preset_flag=(--preset quick)
  if [[ "${1:-}" =~ ^([0-9]{1,2})(\.\.([0-9]{1,2}))?$ ]]; then
    first=$((10#${BASH_REMATCH[1]})) last=$((10#${BASH_REMATCH[3]:-${BASH_REMATCH[1]}}))
    shift
  fi
  [[ "${1:-}" != [!-]* ]] || refuse "gpu-run lessons: '$1' is no range" "give two numbers, for example 30..39"
  [[ " $* " != *" --preset"* ]] || preset_flag=()
  [[ " $* " != *" --device"* ]] || wanted=""
  for folder in "$root"/lessons/[0-9][0-9]_*/; do
    name=$(basename "$folder") number=$((10#${name:0:2}))
    if [ -e "$folder/CMakeLists.txt" ] && (( number >= first && number <= last )); then names+=("$name"); fi
  done
  [ ${#names[@]} -gt 0 ] || refuse "gpu-run lessons: no lesson is numbered $first to $last" "./tenfold gpu-run lessons takes all"
  gpu_build tenfold-driver tenfold-probe "${names[@]}"
  # Predictions rest on this machine's own ceilings.
  compgen -G "$TENFOLD_CACHE/probe/*.json" >/dev/null || timeout "$(gpu_left)" "$build/tenfold-driver" probe >"$log_dir/probe.txt" 2>&1 || true
  local kept=$root/out/gpu-results
  mkdir -p "$kept"
  for name in "${names[@]}"; do
    if not_built "$name"; then table+="$name: not built"$'\n'; worst=1; continue; fi
    if (( $(gpu_left) < 30 )); then left+=("${name:0:2}"); continue; fi
    began=$SECONDS status=0 on=$wanted
    ranks=$(sed -n 's/^ *"ranks": \([0-9]*\).*/\1/p' "$build/lessons/$name.describe.json" 2>/dev/null || true)
    # NCCL wants a GPU for each rank.
    if [ "$on" = cuda ] && (( ${ranks:-1} > $(nvidia-smi -L | wc -l) )); then on=cpu; fi
    say "lesson $name${on:+ on $on} ..."
    timeout -s INT -k 10 "$(gpu_left)" "$build/tenfold-driver" run "$name" ${preset_flag[@]+"${preset_flag[@]}"} ${on:+--device "$on"} \
      --out "$kept" "$@" >"$kept/$name.log" 2>&1 </dev/null || status=$?
    case $status in
      0) table+="$name: done" ;;
      1) table+="$name: NOT VALID, or a trap was not caught"; worst=1 ;;
      77) table+="$name: cannot run here" ;;
      124 | 130) table+="$name: stopped, the time was up"; worst=1 ;;
      *) table+="$name: exit code $status: $(tail -n 1 "$kept/$name.log" | cut -c 1-100)"; worst=1 ;;
    esac
    table+="${on:+ on $on} ($((SECONDS - began)) s)"$'\n'
  done
  [ ${#left[@]} -eq 0 ] || { table+="no time was left for ${left[*]}; go on with: ./tenfold gpu-run lessons ${left[0]}..$last"$'\n'; worst=1; }
  ! compgen -G "$kept/*.log" >/dev/null || cat "$kept"/*.log >"$out/lessons.txt"
  tar -C "$kept" -czf "$out/lessons.tar.gz" .
}

part_bench() {
  local program name status kept=$root/out/bench
  gpu_build tenfold_bench
  mkdir -p "$kept"
  for program in "$build"/bench/*_bench; do
    [ -x "$program" ] || continue
    name=$(basename "$program" _bench) status=0
    say "benchmark $name ..."
    timeout "$(gpu_left)" "$program" --benchmark_out="$kept/$name.json" --benchmark_out_format=json >"$kept/$name.txt" 2>&1 || status=$?
    case $status in
      0) table+="$name: done"$'\n' ;;
      77) table+="$name: cannot run here"$'\n' ;;
      *) table+="$name: exit code $status$([ $status != 124 ] || echo ', the time was up')"$'\n'; worst=1 ;;
    esac
  done
  ! compgen -G "$kept/*.txt" >/dev/null || cat "$kept"/*.txt >"$out/bench.txt"
  tar -C "$kept" -czf "$out/bench.tar.gz" .
}

part_probe() {
  gpu_build tenfold-driver tenfold-probe
  "$build/tenfold-driver" doctor >"$out/doctor.txt" 2>&1 || true
  timeout "$(gpu_left)" "$build/tenfold-driver" probe >"$out/probe.txt" 2>&1 || worst=1
  cp "$TENFOLD_CACHE"/probe/*.json "$out/probe.json" 2>/dev/null || true
  table+=$(cat "$out/probe.txt")$'\n'
}

gpu_run() {
  local part=${1:-} out=${OUT:-$root/out/gpu} device worst=0 table="" build_problem=""
  case "$part" in
    build | tests | lessons | bench | probe) shift ;;
    sanitize)
      shift
      nvidia-smi -L >/dev/null 2>&1 || fail "gpu-run sanitize: there is no GPU here" "./tenfold kernel NAME looks for races and bounds without one" ;;
    -h | --help) gpu_run_usage; return 0 ;;
    *) refuse "gpu-run: '$part' is no part" "name one of build, tests, sanitize, lessons, bench, probe (see: ./tenfold gpu-run --help)" ;;
  esac
  mkdir -p "$out" 2>/dev/null && [ -w "$out" ] || refuse "gpu-run: $out cannot be written" "set OUT to another folder"
  out=$(realpath "$out")
  gpu_prepare
  "part_$part" "$@"
  printf '\n%s on %s, %s, commit %s, %s s\n%s' "$part" "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | grep . || echo CPU)" \
    "$device" "$(cut -c 1-10 "$root/COMMIT" 2>/dev/null || git -C "$root" rev-parse --short=10 HEAD)" "$SECONDS" "$table"
  echo "files in $out: $(cd "$out" && ls | tr '\n' ' ')"
  return "$worst"
}
