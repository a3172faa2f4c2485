# ./tenfold test; sourced by ./tenfold.

test_usage() {
  cat <<'TEXT'
usage: ./tenfold test [--all] [--again] [--minutes N] [CTEST FLAGS...]
       ./tenfold test kernels [NAME...] [CTEST FLAGS...]   kernels and the microscope alone, without LibTorch
Sets up, builds and runs the tests. Labels: unit, lesson, dry, dist, gpu, bench, slow.
  --all   also what takes long (label slow), and a build of some of it with g++
  --again what fails runs once more, alone: tests/unsteady.txt lists what may pass only then
  --minutes N  what has not ended by then is left out, and named: the long tests of lessons come last
With flags that choose tests (-R, -L, -E, -LE, -I) only what these tests need is built.
Examples: ./tenfold test -L unit      ./tenfold test -R smoke.30
TEXT
}

# The targets of the tests that $flags choose, for set_up.
choose_test_targets() {
  mapfile -t targets < <("$root/.venv/bin/python" -I "$root/common/tools/test_targets.py" "$build" "$root/.venv/bin/ctest" \
    "$root/.venv/bin/ninja" "${flags[@]}")
  [ -n "${targets[*]}" ] || refuse "test: ${chosen[*]} chooses no test" "./tenfold test -N lists them"
}

# To list tests, none is built.
choose_no_targets() { targets=(tenfold-driver); }

run_tests() {
  local flags=() all="" again=() minutes=() chosen=() chosen_targets=""
  while [ $# -gt 0 ]; do
    case "$1" in
      --minutes)
        [[ ${2-} =~ ^[0-9]*[1-9][0-9]*$ ]] || refuse "test: --minutes '${2-}' is no number of minutes" "./tenfold test --minutes 20"
        minutes=(--minutes "$2")
        shift 2
        continue ;;
      --all) all=1; shift; continue ;;
      --again) again=(--again "$root/tests/unsteady.txt"); shift; continue ;;
      -h | --help) test_usage; return 0 ;;
      -N | --show-only*) chosen_targets=choose_no_targets ;;
      -R | -L | -E | -LE | -I | --tests-regex* | --label-regex* | --exclude-regex* | --label-exclude* | -[RL]?*)
        [ -n "$chosen_targets" ] || chosen_targets=choose_test_targets ;;
    esac
    flags+=("$1")
    shift
  done
  chosen=(${flags[@]+"${flags[@]}"})
  [ -n "$all" ] || flags+=(-LE slow)
  set_up tests
  local status=0
  "$root/.venv/bin/python" -I "$root/common/tools/run_tests.py" "$root/.venv/bin/ctest" "$build" "$log_dir/tests" \
    ${again[@]+"${again[@]}"} ${minutes[@]+"${minutes[@]}"} "${flags[@]}" || status=$?
  if [ "$status" = 0 ] && [ -n "$all" ]; then "$root/common/tools/gcc.sh" || status=$?; fi
  [ "$status" = 0 ] || fail "tests failed; see above" "./tenfold test -R NAME --verbose runs one of them again"
}
