# Running the benchmark programs; sourced by ./tenfold after setup.sh.

# run_bench [--peers] [NAME...]: builds and runs the programs named (all when none is), each one's JSON report in out/bench/NAME.json.
# With --peers only those with a Python twin, both in turns; prints the ratio with its interval.
run_bench() {
  local peers="" names=() known=() name program status=0 worst=0
  for program in "$root"/bench/*_bench.cpp; do
    name=$(basename "$program" _bench.cpp)
    [ -e "$program" ] && known+=("$name")
  done
  while [ $# -gt 0 ]; do
    case "$1" in
      --peers) peers=1 ;;
      -h|--help)
        echo "usage: ./tenfold bench [--peers] [NAME...]; NAME: ${known[*]:-none}"
        return 0 ;;
      -*) refuse "bench: $1 is no option" "./tenfold bench [--peers] [NAME...]" ;;
      *)
        name=${1%_bench}
        [[ " ${known[*]:-} " == *" $name "* ]] || refuse "bench: there is no benchmark $1" "name some of: ${known[*]:-none}"
        names+=("$name") ;;
    esac
    shift
  done
  for name in ${names[@]+"${names[@]}"}; do
    [ -z "$peers" ] || [ -e "$root/bench/peers/$name.py" ] || refuse "bench: $name has no Python twin" "leave out --peers"
  done
  [ ${#names[@]} -gt 0 ] || names=(${known[@]+"${known[@]}"})

  set_up bench
  mkdir -p "$root/out/bench"
  for name in ${names[@]+"${names[@]}"}; do
    program=$build/bench/${name}_bench
    [ -z "$peers" ] || [ -e "$root/bench/peers/$name.py" ] || continue
    [ -x "$program" ] || fail "$program was not built" "./tenfold setup bench"
    echo "== $name"
    status=0
    if [ -n "$peers" ]; then
      "$root/.venv/bin/python" "$root/bench/compare.py" "$program" "$root/bench/peers/$name.py" "$root/out/bench/$name.json" || status=$?
    else
      "$program" --benchmark_out="$root/out/bench/$name.json.partial" --benchmark_out_format=json || status=$?
      if [ "$status" = 0 ]; then
        # A kernel's ladder writes no report where there is no GPU.
        [ ! -e "$root/out/bench/$name.json.partial" ] || mv "$root/out/bench/$name.json.partial" "$root/out/bench/$name.json"
      else
        rm -f "$root/out/bench/$name.json.partial"
      fi
    fi
    # A twin whose library is not installed is skipped; it has said so.
    [ "$status" = 77 ] || [ "$status" = 0 ] || worst=$status
  done
  return "$worst"
}
