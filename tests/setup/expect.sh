# What the tests of the set-up share; sourced by them after `source` and `work` are set.
failed=0

# expect NAME STATUS TEXT: checks the last call's exit status and output.
expect() {
  if [ "$status" != "$2" ] || ! grep -q -- "$3" <<<"$output"; then
    echo "FAIL: $1: expected exit $2 and '$3', got exit $status and:"
    printf '%s\n' "$output" | tail -n 8
    failed=1
  else
    echo "ok: $1"
  fi
}
check() { if ! eval "$2"; then echo "FAIL: $1"; failed=1; else echo "ok: $1"; fi; }

# copy_tree TARGET: what set-up, the driver and the kernels' exercises are made of.
copy_tree() {
  mkdir -p "$1"
  (cd "$source" && tar cf - tenfold requirements.txt common CMakeLists.txt CMakePresets.json kernels lessons tests/CMakeLists.txt tests/support) | tar xf - -C "$1"
}
