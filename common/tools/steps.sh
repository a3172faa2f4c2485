# Messages, named steps with progress, locks, and folders that can be written; sourced by setup.sh.
#
# A step that has succeeded leaves a stamp named after its inputs, so an interrupted set-up continues where it stopped.

say() { printf '%s\n' "$*" >&2 || true; }

# A line: what went wrong, and what to do about it. Exit code 3: the set-up failed.
fail() {
  say "tenfold: $1; ${2:+to fix: $2}"
  exit 3
}

# The same for a word that nobody knows: exit code 2.
refuse() {
  say "tenfold: $1; to fix: $2"
  exit 2
}

on_terminal() { [ -t 2 ] && [ -z "${CI:-}" ] && [ "${TERM:-dumb}" != dumb ]; }

# writable FOLDER ADVICE: makes the folder, or says why it cannot be used.
writable() {
  local problem=""
  problem=$(mkdir -p -- "$1" 2>&1) || fail "${problem#mkdir: }" "$2"
  [ -w "$1" ] || fail "$1 cannot be written by $(id -un 2>/dev/null || id -u)" "$2"
}

advise() { echo "tenfold-advice: $*"; }

# step NUMBER TITLE FUNCTION [PATIENCE]: run FUNCTION with its output in a log, showing its last line (or a line each 30 s in a
# pipe). A step that is over before PATIENCE seconds are is not mentioned, unless it fails.
step() {
  local label="[$1] $2" log=$log_dir/$3.log patience=${4:-0} start=$SECONDS shown=0 status=0 announced="" naps=0 worker
  mkdir -p "$log_dir"
  announce() {
    [ -n "$announced" ] || on_terminal || say "$label ..."
    announced=yes
  }
  (( patience > 0 )) || announce
  # A process group of its own, so that whatever it has started ends with it.
  set -m
  ( set +m -e; "$3" ) >"$log" 2>&1 </dev/null &
  worker=$!
  set +m
  end_worker() { kill -- "-$worker" 2>/dev/null || true; wait "$worker" 2>/dev/null || true; }
  trap 'trap "" INT TERM HUP; end_worker; say; say "tenfold: interrupted in \"${label}\"; call the same command again to continue"; trap - EXIT; exit 130' INT TERM HUP
  trap end_worker EXIT
  while kill -0 "$worker" 2>/dev/null; do
    if (( SECONDS - start < patience )); then
      if (( ++naps < 40 )); then sleep 0.02; else sleep 0.1; fi
      continue
    fi
    announce
    if on_terminal; then
      printf '\r\033[K%s  %d s  %.60s' "$label" $((SECONDS - start)) "$(tail -c 300 "$log" | tr '\r' '\n' | tail -n 1)" >&2
    elif (( SECONDS - start >= shown + 30 )); then
      shown=$((SECONDS - start))
      say "    ${shown} s: $(tail -c 300 "$log" | tr '\r' '\n' | tail -n 1 | cut -c 1-100)"
    fi
    sleep 0.2
  done
  wait "$worker" || status=$?
  trap - INT TERM HUP EXIT
  [ -z "$announced" ] || ! on_terminal || printf '\r\033[K' >&2
  if (( status != 0 )); then
    # What the step itself has said in a line needs no log.
    if tail -n 1 "$log" | grep '^tenfold: .*; to fix: ' >&2; then exit 3; fi
    tail -n 15 "$log" | sed 's/^/    | /' >&2 || true
    fail "\"$2\" failed" "$(grep -h '^tenfold-advice: ' "$log" | tail -n 1 | sed 's/^tenfold-advice: //' || true) (whole log: ${log#"$root"/})"
  fi
  [ -z "$announced" ] || say "$label: done in $((SECONDS - start)) s"
}

# once NUMBER TITLE FUNCTION INPUTS [VARIANT]: a step that is skipped while its inputs are unchanged. Its stamp lies in
# $made_in, with what the step has made, where that is not this build folder.
once() {
  local name=$3${5:+.$5} folder=${made_in:-$stamps} stamp
  stamp=$folder/$name-$(printf '%s' "$4" | sha256sum | cut -c 1-16)
  [ -e "$stamp" ] && return
  step "$1" "$2" "$3"
  mkdir -p "$folder"
  rm -f "$folder/$name"-*
  touch "$stamp"
}

# One call at a time sets up and builds in this checkout. What a killed call has left running keeps the lock until it ends.
lock_checkout() {
  writable "$root/build" "clone into a folder that you can write"
  command -v flock >/dev/null || return 0
  exec {checkout_lock}>"$root/build/.lock"
  flock -n "$checkout_lock" || { say "waiting for another ./tenfold that builds here ..."; flock "$checkout_lock"; }
}
unlock_checkout() { [ -z "${checkout_lock:-}" ] || exec {checkout_lock}>&-; }
