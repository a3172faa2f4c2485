# A GPU machine without a network: `gpu-run` builds there what gpu-pack made, and runs it in parts of under 8 minutes. Sourced by
# gpu.sh, after setup.sh, whose steps it shares.

build_percent=60
part_seconds=${TENFOLD_PART_SECONDS:-470}  # one part's time, its build included: under 8 minutes

gpu_run_usage() {
  cat <<TEXT
usage: ./tenfold gpu-run PART [NAME...] [FLAGS], in an unpacked gpu-pack or in a checkout; each part ends within $part_seconds s
  build [TARGET...]              what the other parts need, or some of Ninja's targets
  tests [KERNEL...] [FLAGS]      every rung of the kernels against its reference on the GPU; with CTest's flags, what they choose
  sanitize [KERNEL...]           the kernels' tests under compute-sanitizer: memory, races, barriers
  lessons [A..B | core | NAME...] [FLAGS]  lessons with --preset quick: all, those numbered A to B, the core path, or by name
  bench [NAME...]                the benchmark programs of the kernels, or those named
  probe                          what this machine can do at most, and what it has
A part builds what it needs in at most $build_percent % of its time, and gives each program a share of the rest. What has a result
is not run again, so the same call goes on where the last one ended; where that was on another machine, name what is left, as
the summary's last line does. A part leaves at most three files in \$OUT (default out/gpu). Without a GPU everything runs on
the CPU, as do lessons of more ranks than GPUs.
TEXT
}

gpu_left() { echo $((part_seconds - SECONDS > 1 ? part_seconds - SECONDS : 1)); }

# gpu_check_names PART WORD...: refuses a name that the part does not know, before anything is set up.
gpu_check_names() {
  local word known part=$1
  shift
  case "$part" in
    tests | sanitize) known=$(kernels_with_a_test) ;;
    bench) known=$(cd "$root/bench" && ls ./*_bench.cpp | sed 's|^\./||; s/_bench\.cpp$//') ;;
    lessons) lessons_chosen "$@" >/dev/null || exit $?; return ;;
    *) return 0 ;;
  esac
  for word in "$@"; do
    grep -qxF -- "$word" <<<"$known" || refuse "gpu-run $part: there is no '$word'" "name some of: $(paste -sd ' ' <<<"$known")"
  done
}

# share_of_time PROGRAMS: an equal share of what is left, in seconds, for the first of so many programs.
share_of_time() { echo $(($(gpu_left) / $1 > 1 ? $(gpu_left) / $1 : 1)); }

# Stands in for the environment that `setup` makes: the tools of this machine under the names the driver looks for.
gpu_tools() {
  local tool python version bin=$root/.venv/bin
  if [ -x "$bin/python" ] && [ ! -e "$bin/.of-this-machine" ]; then return; fi
  for tool in g++ cmake ctest ninja python3; do
    command -v "$tool" >/dev/null || fail "$tool is not on PATH" "install it, or ./tenfold setup where there is a network"
  done
  python=$(command -v python3)
  version=$(python3 -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || true)
  version=${version:+torch $version, not 2.11}
  [[ "$version" == "torch 2.11"* || -n "${Torch_DIR:-}" ]] ||
    fail "$python has ${version:-no torch; 2.11 is needed}" "put a python3 that has torch 2.11 first on PATH, or set Torch_DIR"
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
  if [ -z "$(toolkit)" ] && [ ! -x "$(linked_toolkit)/bin/nvcc" ]; then
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
  timeout "$compile_seconds" "$root/.venv/bin/ninja" -C "$build" -j "$(nproc)" -k 0 "${gpu_targets[@]}" || status=$?
  echo "$status" >"$log_dir/gpu_build.status"
}

# gpu_build TARGET...: sets build_problem when not all of it was built. The build leaves time for what was asked for.
gpu_build() {
  gpu_targets=("$@") build_problem="" compile_seconds=$((part_seconds * build_percent / 100 - SECONDS))
  [ "$part" != build ] || compile_seconds=$(gpu_left)
  (( compile_seconds > 0 )) || compile_seconds=1
  step 3/3 "build (${gpu_targets[*]:0:4}${5:+ ...})" gpu_compile
  case "$(cat "$log_dir/gpu_build.status")" in
    0) return ;;
    124) build_problem="the build was not done in time; call the same command again to go on" unfinished=yes ;;
    *) build_problem="not built: $(grep -h '^FAILED: ' "$log_dir/gpu_compile.log" | sed 's/^FAILED: //; s/^\[code=[0-9]*\] //' | cut -d ' ' -f 1 | tr '\n' ' ')" ;;
  esac
  worst=1
  say "gpu-run: $build_problem"
  grep -h -A 2 'error' "$log_dir/gpu_compile.log" | head -n 20 | sed 's/^/    | /' >&2 || true
}

# programs_of_tests FLAGS...: Ninja's targets for the tests that they choose.
programs_of_tests() {
  "$root/.venv/bin/python" "$root/common/tools/test_targets.py" "$build" "$root/.venv/bin/ctest" "$root/.venv/bin/ninja" "$@"
}

# What CTest runs unless flags say otherwise, one word a line: the kernels' tests on the GPU, all or those named.
kernel_test_flags() {
  local names
  names=$(IFS='|'; echo "$*")
  printf '%s\n' -L '^gpu$' -R "^kernel_(gpu_)?(${names:-.*})(_torch)?_test\$"
}

part_build() {
  local targets=("$@") flags
  mapfile -t flags < <(kernel_test_flags)
  [ $# -gt 0 ] || mapfile -t targets < <(echo tenfold_core_path; echo tenfold-probe; kernel_benches | sed 's/$/_bench/'; programs_of_tests "${flags[@]}")
  gpu_build "${targets[@]}"
  cp "$log_dir/gpu_compile.log" "$out/build.txt"
  table+="build            ${build_problem:-done}"$'\n'
}

# Marks tests that have passed on this GPU, from CTest's report.
mark_passed() {
  [ "$device" = cuda ] && [ -e "$out/tests.xml" ] || return 0
  mkdir -p "$build/gpu_passed"
  "$root/.venv/bin/python" - "$out/tests.xml" "$build/gpu_passed" <<'PY'
import pathlib, sys, xml.etree.ElementTree as tree
for case in tree.parse(sys.argv[1]).iter("testcase"):
    if case.get("status") == "run":
        (pathlib.Path(sys.argv[2]) / case.get("name")).touch()
PY
}

# The tests whose program has passed since it was built.
passed_before() {
  local mark
  for mark in "$build"/gpu_passed/*; do
    [ ! "$mark" -nt "$build/tests/$(basename "$mark")" ] || basename "$mark"
  done
}

part_tests() {
  local flags=() names=() targets status=0 left passed
  while [[ "${1:-}" == [!-]* ]]; do names+=("$1"); shift; done
  if [ $# = 0 ] || [ ${#names[@]} -gt 0 ]; then mapfile -t flags < <(kernel_test_flags ${names[@]+"${names[@]}"}); fi
  flags+=("$@")
  mapfile -t targets < <(programs_of_tests "${flags[@]}")
  [ -z "${targets[*]}" ] || gpu_build "${targets[@]}"
  passed=$(passed_before)
  if [ -n "$passed" ]; then flags+=(-E "^($(paste -sd '|' <<<"$passed"))\$"); else flags+=(--no-tests=error); fi
  left=$(gpu_left)
  # At its stop time CTest still writes its report.
  timeout "$((left + 10))" "$root/.venv/bin/ctest" --test-dir "$build" --output-on-failure -j $((($(nproc) + 1) / 2)) \
    --stop-time "$(date -d "+$left seconds" '+%H:%M:%S %z')" --output-junit "$out/tests.xml" "${flags[@]}" >"$out/tests.txt" 2>&1 || status=$?
  (( status == 0 )) || worst=1
  mark_passed
  table+=$(grep -E 'tests? passed|tests failed|No tests were found|\*\*\*|^Total Test time|SKIPPED|Skipped' "$out/tests.txt" | sort -u || tail -n 3 "$out/tests.txt")$'\n'
  # What a test that passed has left out, with the reason.
  table+=$(grep -hoE '^(from rung [0-9]+ on: .*|not a Hopper GPU|needs [0-9].* of free memory)$' "$out/tests.xml" 2>/dev/null | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/  left out, \1 x: \2/' || true)
  table=${table%$'\n'}$'\n'
  [ -z "$passed" ] || table+="passed before, and not run again: $(paste -sd ' ' <<<"$passed"); all of them: rm -r ${build#"$root"/}/gpu_passed"$'\n'
  ! grep -q 'stop time' "$out/tests.txt" || table+="the time was up before all tests had run; go on with the same call"$'\n'
}

# Kernels with tests of their own on a GPU.
kernels_with_a_test() {
  local kernel
  for kernel in "$root"/tests/kernels/*_test.cpp; do
    kernel=$(basename "$kernel" _test.cpp)
    [[ "$kernel" = *_torch || ! -d "$root/kernels/$kernel" ]] || echo "$kernel"
  done
}

part_sanitize() {
  local checker kernel tool status runs share targets=() names=("$@") left=()
  checker=$(PATH=$PATH:$(toolkit)/bin command -v compute-sanitizer) || fail "compute-sanitizer is not on PATH" "install NVIDIA's cuda-sanitizer package"
  [ $# -gt 0 ] || mapfile -t names < <(kernels_with_a_test)
  for kernel in "${names[@]}"; do targets+=("kernel_gpu_${kernel}_test"); done
  gpu_build "${targets[@]}"
  : >"$out/sanitize.txt"
  runs=$((3 * ${#names[@]}))
  for kernel in "${names[@]}"; do
    for tool in memcheck racecheck synccheck; do
      status=0 share=$((2 * $(share_of_time "$runs"))) runs=$((runs - 1))  # short ones leave some of theirs
      (( share < $(gpu_left) )) || share=$(gpu_left)
      timeout "$share" "$checker" --tool "$tool" --error-exitcode 9 "$build/tests/kernel_gpu_${kernel}_test" >>"$out/sanitize.txt" 2>&1 || status=$?
      case $status in
        0) table+="$kernel, $tool: clean"$'\n' ;;
        124) table+="$kernel, $tool: its time was up"$'\n'; [[ " ${left[*]} " == *" $kernel "* ]] || left+=("$kernel"); worst=1 ;;
        *) table+="$kernel, $tool: exit code $status, see sanitize.txt"$'\n'; worst=1 ;;
      esac
    done
  done
  [ ${#left[@]} -eq 0 ] || table+="go on with: ./tenfold gpu-run sanitize ${left[*]}"$'\n'
}

# not_built PROGRAM: one that an earlier call has left must not run under the name of sources that are newer.
not_built() {
  [ -x "$1" ] || return 0
  [ -n "$build_problem" ] || return 1
  [ -n "$(find "$root"/{bench,common,fit,kernels,lessons} -type f \( -name '*.h' -o -name '*.c*' \) -newer "$1" -print -quit)" ]
}

# lessons_chosen WORD...: the lessons that the words name, in order; all without a word.
lessons_chosen() {
  local word folder name number found
  [ $# -gt 0 ] || set -- 00..99
  for word in "$@"; do
    found=()
    if [[ "$word" =~ ^([0-9]{1,2})(\.\.([0-9]{1,2}))?$ ]]; then
      for folder in "$root"/lessons/[0-9][0-9]_*/; do
        name=$(basename "$folder") number=$((10#${name:0:2}))
        if [ -e "$folder/CMakeLists.txt" ] && (( number >= 10#${BASH_REMATCH[1]} && number <= 10#${BASH_REMATCH[3]:-${BASH_REMATCH[1]}} )); then found+=("$name"); fi
      done
    elif [ "$word" = core ]; then
      for folder in $(grep -lE '^ *\{?\.core = true' "$root"/lessons/*/lesson.cpp); do found+=("$(basename "$(dirname "$folder")")"); done
    else
      mapfile -t found < <(lessons_named "$word")
    fi
    [ ${#found[@]} -gt 0 ] || refuse "gpu-run lessons: '$word' names no lesson" "give a name, two numbers, for example 30..39, or core"
    printf '%s\n' "${found[@]}"
  done | sort -u
}

# The most ranks that a part of a lesson has where there is one GPU: what takes as many as there are has two, or more where its mesh
# needs them.
ranks_of_parts() {
  { echo 1
    sed -n 's/^ *"\(ranks\|multiple_of\)": \([0-9][0-9]*\).*/\2/p' "$1" 2>/dev/null || true
    ! grep -q '^ *"multiple_of":' "$1" 2>/dev/null || echo 2
  } | sort -n | tail -n 1
}

part_lessons() {
  local name status began ranks on share number=0 wanted=$device words=() names=() left=() preset_flag=(--preset quick) chosen
  while [[ "${1:-}" == [!-]* ]]; do words+=("$1"); shift; done
  [[ " $* " != *" --preset"* ]] || preset_flag=()
  [[ " $* " != *" --device"* ]] || wanted=""
  chosen=$(lessons_chosen ${words[@]+"${words[@]}"}) || exit $?
  mapfile -t names <<<"$chosen"
  gpu_build tenfold-driver tenfold-probe "${names[@]}"
  # Predictions rest on this machine's own ceilings.
  compgen -G "$TENFOLD_CACHE/probe/*.json" >/dev/null || timeout "$(gpu_left)" "$build/tenfold-driver" probe >"$log_dir/probe.txt" 2>&1 || true
  local kept=$root/out/gpu-results
  mkdir -p "$kept"
  for name in "${names[@]}"; do
    share=$((2 * $(share_of_time $((${#names[@]} - number))))) number=$((number + 1))  # short ones leave some of theirs
    if not_built "$build/lessons/$name"; then table+="$name: not built"$'\n'; left+=("$name"); worst=1; continue; fi
    if { [ "$kept/$name.json" -nt "$build/lessons/$name" ] || [ "$kept/ranks/$name.json" -nt "$build/lessons/$name" ]; } &&
      [ "$(cat "$kept/$name.flags" 2>/dev/null)" = "${preset_flag[*]} $*" ]; then
      table+="$name: done before"$'\n'
      continue
    fi
    if (( $(gpu_left) < 20 )); then left+=("$name"); continue; fi
    began=$SECONDS status=0 on=$wanted
    (( share < $(gpu_left) )) || share=$(gpu_left)
    ranks=$(ranks_of_parts "$build/lessons/$name.describe.json")
    # NCCL wants a GPU for each rank: parts with more ranks run on the CPU, the lesson's others on a GPU.
    if [ "$on" = cuda ] && { [[ " $* " == *" --ranks"* ]] || (( ranks > $(nvidia-smi -L | wc -l) )); }; then on=auto; fi
    say "lesson $name${on:+ on $on} ..."
    rm -f "$kept/$name.flags"  # until it is done; a call whose time was up has left the cases that it finished
    # A lesson looks for the signal between blocks; a long block of a slow baseline takes its time.
    timeout -s INT -k 60 "$share" "$build/tenfold-driver" run "$name" --resume ${preset_flag[@]+"${preset_flag[@]}"} ${on:+--device "$on"} \
      --out "$kept" "$@" >"$kept/$name.log" 2>&1 </dev/null || status=$?
    case $status in
      0) table+="$name: done" ;;
      1) table+="$name: NOT VALID, or a trap was not caught"; worst=1 ;;
      77) table+="$name: cannot run here" ;;
      124 | 130 | 137) table+="$name: stopped, its time was up"; left+=("$name"); worst=1 ;;
      *) table+="$name: exit code $status: $(tail -n 1 "$kept/$name.log" | cut -c 1-100)"; worst=1 ;;
    esac
    [ $status -gt 1 ] || echo "${preset_flag[*]} $*" >"$kept/$name.flags"
    table+="${on:+ on $on} ($((SECONDS - began)) s)"$'\n'
  done
  [ ${#left[@]} -eq 0 ] || { table+="go on with: ./tenfold gpu-run lessons ${left[*]}${1:+ $*}"$'\n'; worst=1; }
  ! compgen -G "$kept/*.log" >/dev/null || cat "$kept"/*.log >"$out/lessons.txt"
  tar -C "$kept" -czf "$out/lessons.tar.gz" .
}

# The benchmark programs of kernels: they fit themselves to a time.
kernel_benches() { grep -l '^#include "ladder.h"' "$root"/bench/*_bench.cpp | xargs -n 1 basename | sed 's/_bench\.cpp$//'; }

part_bench() {
  local name status share number=0 kept=$root/out/bench names=("$@") ladders left=() budget
  ladders=" $(kernel_benches | tr '\n' ' ')"
  [ $# -gt 0 ] || mapfile -t names < <(kernel_benches)
  gpu_build "${names[@]/%/_bench}"
  mkdir -p "$kept"
  for name in "${names[@]}"; do
    share=$(share_of_time $((${#names[@]} - number))) number=$((number + 1)) status=0
    if not_built "$build/bench/${name}_bench"; then table+="$name: not built"$'\n'; left+=("$name"); worst=1; continue; fi
    if [ "$kept/$name.json" -nt "$build/bench/${name}_bench" ]; then table+="$name: done before"$'\n'; continue; fi
    if (( $(gpu_left) < 10 )); then left+=("$name"); continue; fi
    budget=()
    [[ "$ladders" != *" $name "* ]] || budget=(--budget=$((share * 4 / 5)))  # the rest: to start, and to end a launch
    say "benchmark $name, $share s ..."
    (( share >= 20 )) || share=20  # less and it has only loaded its libraries
    (( share < $(gpu_left) )) || share=$(gpu_left)
    timeout -k 5 "$share" "$build/bench/${name}_bench" ${budget[@]+"${budget[@]}"} --benchmark_out="$kept/$name.json.partial" \
      --benchmark_out_format=json >"$kept/$name.txt" 2>&1 || status=$?
    case $status in
      0) table+="$name: done"$'\n' ;;
      1) table+="$name: $(grep -m 1 -E 'FAILED|wrong' "$kept/$name.txt" || echo 'exit code 1')"$'\n'; worst=1 ;;
      77) table+="$name: cannot run here"$'\n' ;;
      *) table+="$name: exit code $status$([ $status != 124 ] || echo ', its time was up')"$'\n'; left+=("$name"); worst=1 ;;
    esac
    # A program that was stopped leaves what it had measured, if it writes as it goes.
    [ ! -s "$kept/$name.json.partial" ] || { (( status > 1 )) || mv "$kept/$name.json.partial" "$kept/$name.json"; }
    table+=$(grep -hE 'skipped: |the time was up|^No GPU here' "$kept/$name.txt" | sed 's/^ */  /' || true)
    table=${table%$'\n'}$'\n'
  done
  [ ${#left[@]} -eq 0 ] || { table+="go on with: ./tenfold gpu-run bench ${left[*]}"$'\n'; worst=1; }
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
  local part=${1:-} out=${OUT:-$root/out/gpu} device worst=0 table="" build_problem="" unfinished="" compile_seconds
  case "$part" in
    build | tests | lessons | bench | probe) shift ;;
    sanitize)
      shift
      nvidia-smi -L >/dev/null 2>&1 || fail "gpu-run sanitize: there is no GPU here" "./tenfold kernel NAME looks for races and bounds without one" ;;
    -h | --help) gpu_run_usage; return 0 ;;
    *) refuse "gpu-run: '$part' is no part" "name one of build, tests, sanitize, lessons, bench, probe (see: ./tenfold gpu-run --help)" ;;
  esac
  local words=() word
  for word in "$@"; do
    [[ "$word" == [!-]* ]] || break
    words+=("$word")
  done
  gpu_check_names "$part" ${words[@]+"${words[@]}"}
  mkdir -p "$out" 2>/dev/null && [ -w "$out" ] || refuse "gpu-run: $out cannot be written" "set OUT to another folder"
  out=$(realpath "$out")
  gpu_prepare
  "part_$part" "$@"
  # What is built in the time that is left need not be built by the next call.
  compile_seconds=$(gpu_left)
  if [ -n "$unfinished" ] && (( compile_seconds > 5 )); then step 3/3 "build on" gpu_compile; fi
  printf '\n%s on %s, %s, commit %s, %s s\n%s' "$part" "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | grep . || echo CPU)" \
    "$device" "$(cut -c 1-10 "$root/COMMIT" 2>/dev/null || git -C "$root" rev-parse --short=10 HEAD)" "$SECONDS" "$table"
  echo "files in $out: $(cd "$out" && ls | tr '\n' ' ')"
  return "$worst"
}
