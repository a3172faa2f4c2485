# ./tenfold test kernels; sourced by ./tenfold, after setup.sh.

test_kernels_usage() {
  cat <<'TEXT'
usage: ./tenfold test kernels [NAME...] [CTEST FLAGS...]
Builds and tests the kernels and the microscope without LibTorch, nvcc and data, in a build folder of their own.
  NAME   only the tests of this kernel, as tests/kernels/NAME_test.cpp is called; "microscope" and "page" name the others
Examples: ./tenfold test kernels      ./tenfold test kernels softmax      ./tenfold test kernels -R reduction -V
TEXT
}

# What may be named: the tests of kernels that need no LibTorch.
kernel_test_names() {
  local file name
  for file in "$root"/tests/kernels/*_test.cpp; do
    name=$(basename "$file" _test.cpp)
    [[ $name == *_torch ]] || echo "$name"
  done
}

# kernel_test_target NAME: the program that tests it.
kernel_test_target() {
  case "$1" in
    microscope) echo engine_test ;;
    page) echo kernel_page_test ;;
    *) echo "kernel_$1_test" ;;
  esac
}

# run_kernel_tests [NAME...] [CTEST FLAGS...]: exit code 2 on a name that is none, 3 when the build or a test fails.
run_kernel_tests() {
  local chosen=() programs flags=() name
  case " $* " in *" -h "* | *" --help "*) test_kernels_usage; return 0 ;; esac
  while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
    name=$1
    case "$name" in
      microscope | page) ;;
      *)
        kernel_test_names | grep -xF -- "$name" >/dev/null ||
          refuse "test kernels: there is no test of a kernel '$name'" "name some of: $(kernel_test_names | tr '\n' ' ')microscope page"
        ;;
    esac
    chosen+=("$(kernel_test_target "$name")")
    shift
  done
  flags=(-L kernel -LE slow "$@")
  if [ "${#chosen[@]}" -gt 0 ]; then
    programs=$(IFS='|'; echo "${chosen[*]}")
    flags+=(-R "^($programs)\$")
  else
    chosen=(kernel_tests)
  fi
  set_up_kernels "${chosen[@]}"
  "$root/.venv/bin/ctest" --test-dir "$build" --output-on-failure -j 2 --no-tests=error "${flags[@]}" ||
    fail "tests of kernels failed; see above" "./tenfold test kernels NAME --verbose runs those of one kernel"
}
