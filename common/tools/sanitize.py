"""Builds and runs the tests of common/ in a build folder that is configured with sanitizers.

From an empty compiler cache that takes an hour of two cores, so that --minutes ends the building: the tests that are built by then
run, the others are left for the next time. Tests whose own sources changed last come first; the others take turns, from
another one on after each commit; with --third only a third of them.
"""

import argparse
import pathlib
import signal
import subprocess
import sys
import time

from test_targets import output_of, targets_of_tests

root = pathlib.Path(__file__).resolve().parents[2]
tools = pathlib.Path(sys.executable).parent


def in_turn(tests, third, commits=6):
    """The tests in the folders of tests/ that the newest commits or the work tree changed, then the others in turn, or a third."""
    git = ["git", "-C", root]
    last = output_of(*git, "rev-list", "--max-count", str(commits + 1), "HEAD").split()[-1]
    changed = {pathlib.Path(name).parts[1] for name in output_of(*git, "diff", "--name-only", last, "--", "tests").split()}
    first = [name for name in tests if name.removesuffix("_test") in changed]
    others = [name for name in tests if name not in first]
    turn = int(output_of(*git, "rev-list", "--count", "HEAD")) % max(1, len(others))
    others = others[turn:] + others[:turn]
    return first + (others[:-(-len(others) // 3)] if third else others)


def build_until(deadline, build, targets):
    """Whether Ninja was done by then. It is stopped as by Ctrl-C, which leaves no half-written file."""
    ninja = subprocess.Popen([tools / "ninja", "-C", build, "--quiet", *targets])
    try:
        status = ninja.wait(max(0.0, deadline - time.monotonic()) if deadline else None)
    except subprocess.TimeoutExpired:
        ninja.send_signal(signal.SIGINT)
        ninja.wait()
        return False
    if status != 0:
        sys.exit(status)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="folder of the build")
    parser.add_argument("tests", nargs="?", help="CTest's regular expression (default: all tests labelled common)")
    parser.add_argument("--minutes", type=float, help="what is not built by then is left for the next time")
    parser.add_argument("--third", action="store_true", help="of the tests whose sources are as they were a third, in turn")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else None
    flags = ["-L", "common"] + (["-R", options.tests] if options.tests else [])
    needed = targets_of_tests(options.build, tools / "ctest", tools / "ninja", flags)
    if not needed:
        sys.exit(f"sanitize: {options.tests} names no test of common/; to fix: ctest -N -L common lists them")
    built = []
    chosen = in_turn(list(needed), options.third)
    for name in chosen:
        if not build_until(deadline, options.build, needed[name]):
            break
        built.append(name)
        print(f"sanitize: {len(built)} of {len(chosen)} built, {name}", flush=True)
    if not built:
        sys.exit("sanitize: no test was built in this time; to fix: give more --minutes")
    left = len(chosen) - len(built)
    print(f"sanitize: {len(built)} to run" + (f", {left} left for the next time" if left else ""), flush=True)
    names = f"^({'|'.join(built)})$"
    return subprocess.run([tools / "ctest", "--test-dir", options.build, "--output-on-failure", "-j", "2", "--no-tests=error",
                           "-L", "common", "-R", names]).returncode


if __name__ == "__main__":
    sys.exit(main())
