"""common/tools/run_tests.py against the real CTest: what passes, fails, and passes only when it runs again.

usage: run_again.py SOURCE
"""

import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
ctest = source / ".venv/bin/ctest"
failures = []


def outcome(tests, listed, flags=(), properties=""):
    """Exit status, output, and kept logs of a run; `tests` are names with the shell command that each is."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "CTestTestfile.cmake").write_text("".join(
            f'add_test([=[{name}]=] "/bin/sh" "-c" [=[{command.replace("WORK", folder)}]=])\n' for name, command in tests.items()) + properties)
        (work / "unsteady.txt").write_text(listed)
        call = subprocess.run([sys.executable, "-I", source / "common/tools/run_tests.py", ctest, folder, work / "logs", *flags],
                              cwd=work, capture_output=True, text=True)
        logs = {log.name: log.read_text() for log in sorted((work / "logs").glob("*.log"))}
        return call.returncode, call.stdout + call.stderr, logs


def expect(name, run, status, *texts, logs=()):
    code, output, kept = run
    missing = [text for text in texts if text not in output]
    if code != status or missing or sorted(logs) != sorted(kept):
        failures.append(name)
        print(f"FAIL: {name}: exit {code} instead of {status}, without {missing}, logs {sorted(kept)}:\n{output}")
    else:
        print(f"ok: {name}")


# Fails in its first run only.
flaky = "echo attempt; test -e WORK/NAME || { touch WORK/NAME; exit 1; }"
again = ("--again", "unsteady.txt")
known = "# a comment\n\na.flaky a port of the machine that others take\n"

expect("all pass", outcome({"a": "true", "b": "true"}, known, again), 0, "100% tests passed")
expect("one fails", outcome({"a": "true", "bad": "echo why; exit 3"}, known), 1, "why", "failed:   bad  logs/bad.log", logs=["bad.log"])
expect("one fails twice", outcome({"a": "true", "bad": "exit 3"}, known, again), 1, "failed:   bad", logs=["bad.again.log", "bad.log"])
expect("listed, passes alone", outcome({"a.flaky": flaky.replace("NAME", "x"), "b": "true"}, known, again), 0,
       "unsteady: a.flaky", "known: a port of the machine that others take", logs=["a.flaky.again.log", "a.flaky.log"])
expect("listed, but not run again", outcome({"a.flaky": flaky.replace("NAME", "x")}, known), 1, "failed:   a.flaky", logs=["a.flaky.log"])
expect("not listed, passes alone", outcome({"another": flaky.replace("NAME", "x")}, known, again), 1, "unsteady: another",
       "not listed in tests/unsteady.txt", logs=["another.again.log", "another.log"])
expect("a listed name is no pattern", outcome({"aXflaky": flaky.replace("NAME", "x")}, known, again), 1, "unsteady: aXflaky",
       logs=["aXflaky.again.log", "aXflaky.log"])
expect("one of each", outcome({"a.flaky": flaky.replace("NAME", "x"), "bad": "exit 1"}, known, again), 1, "unsteady: a.flaky", "failed:   bad",
       logs=["a.flaky.again.log", "a.flaky.log", "bad.again.log", "bad.log"])
many = {name: flaky.replace("NAME", name) for name in ["p", "q", "r", "s"]}
all_known = "".join(f"{name} known\n" for name in many)
expect("three that are known", outcome(dict(list(many.items())[:3]), all_known, again), 0, "unsteady: p", "unsteady: r",
       logs=[f"{name}{kind}.log" for name in "pqr" for kind in ["", ".again"]])
expect("four that are known", outcome(many, all_known, again), 1, "4 tests failed: more than 3 are not run again",
       logs=[f"{name}.log" for name in many])
expect("an output of two megabytes", outcome({"long": "head -c 2000000 /dev/zero | tr '\\0' x; exit 1"}, known), 1, logs=["long.log"])
expect("killed by a signal", outcome({"killed": "kill -SEGV $$"}, known, again), 1, "failed:   killed",
       logs=["killed.again.log", "killed.log"])
expect("a program that is not there", outcome({"a": "true"}, known, ("--test-dir", "nowhere")), 1)
expect("no test chosen", outcome({"a": "true"}, known, ("-R", "nothing_is_called_so")), 1, "No tests were found")
expect("only shown", outcome({"bad": "exit 1"}, known, ("-N",)), 0, "bad")
expect("a line without its reason", outcome({"a": "true"}, "a.flaky\n", again), 1, "unsteady.txt:1: test 'a.flaky' has no reason")
# A quarter of a minute: what should end in it takes no time, also beside a busy neighbour, and the others take five.
in_time = ("--minutes", "0.25")
last = "set_tests_properties(later PROPERTIES COST -2)\nset_tests_properties(last PROPERTIES COST -3)\n"
endless = {"last": "true", "later": "sleep 300", "long": "sleep 300", "a": "true"}
with concurrent.futures.ThreadPoolExecutor() as both:  # each sleeps for all of its time
    passing = both.submit(outcome, endless, known, in_time, last)
    failing = both.submit(outcome, endless | {"b": "echo why; exit 3"}, known, again + in_time, last)
expect("no time left", passing.result(), 0, "left out: 3 of 4 tests", "0.25 minutes", ": last later long")
expect("no time left, and one fails", failing.result(), 1, "left out: 3 of 5 tests", "failed:   b", logs=["b.again.log", "b.log"])
expect("all in time", outcome({"a": "true", "b": "true"}, known, ("--minutes", "5")), 0, "100% tests passed")
expect("its own limit", outcome({"a": "sleep 300"}, known, ("--minutes", "5"), "set_tests_properties(a PROPERTIES TIMEOUT 1)\n"), 1,
       "failed:   a", logs=["a.log"])
sys.exit(1 if failures else 0)
