"""Prints Ninja's targets for the tests that CTest's flags choose, one a line.

usage: test_targets.py BUILD CTEST NINJA [FLAGS...]

A test's targets are the programs of the build folder in its command and its REQUIRED_FILES. A test that names neither may
need anything: then the target is `all`. CTest leaves out the command of a test that is not built yet, so commands are read
from its files.
"""

import json
import pathlib
import re
import subprocess
import sys


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def targets_of_tests(build, ctest, ninja, flags):
    """{test: its targets}, in CTest's order."""
    build = build.resolve()
    chosen = json.loads(output_of(ctest, "--test-dir", build, "--show-only=json-v1", *flags))["tests"]
    outputs = {line.rsplit(": ", 1)[0] for line in output_of(ninja, "-C", build, "-t", "targets", "all").splitlines()}
    needed = {test["name"]: set() for test in chosen}
    for file in build.rglob("CTestTestfile.cmake"):
        for name, text in re.findall(r'^(?:add_test|set_tests_properties)\((?:"|\[=*\[)?([^"\]\s]+?)(?:"|\]=*\])? (.*)\)$',
                                     file.read_text(), re.MULTILINE):
            if name in needed:
                needed[name].update(re.findall(rf'{re.escape(str(build))}/([^";]+)', text))
    return {name: files & outputs or {"all"} for name, files in needed.items()}


def main():
    targets = set().union(*targets_of_tests(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]).values())
    print("\n".join(["all"] if "all" in targets else sorted(targets)))


if __name__ == "__main__":
    main()
