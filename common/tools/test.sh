# ./tenfold test; sourced by ./tenfold.

test_usage() {
  cat <<'TEXT'
usage: ./tenfold test [--all] [CTEST FLAGS...]
Sets up, builds and runs the tests. Labels: unit, lesson, dist, gpu, bench, slow.
  --all   also what takes long (label slow), and a build of some of it with g++
Examples: ./tenfold test -L unit      ./tenfold test -R smoke.30
TEXT
}

run_tests() {
  local flags=() all=""
  for argument in "$@"; do
    case "$argument" in
      --all) all=1 ;;
      -h | --help) test_usage; return 0 ;;
      *) flags+=("$argument") ;;
    esac
  done
  [ -n "$all" ] || flags+=(-LE slow)
  set_up tests
  # Two at a time: what compares times or memory of processes asks for the machine alone.
  local status=0
  "$root/.venv/bin/ctest" --test-dir "$build" --output-on-failure -j 2 --no-tests=error "${flags[@]}" || status=$?
  if [ "$status" = 0 ] && [ -n "$all" ]; then "$root/common/tools/gcc.sh" || status=$?; fi
  [ "$status" = 0 ] || fail "tests failed; see above" "./tenfold test -R NAME --verbose runs one of them again"
}
