"""Runs CTest, and says at the end what failed and where its output lies.

usage: run_tests.py CTEST BUILD LOGS [--again LIST] [FLAGS...]

--again: a test that failed is run once more, alone. Where it passes then, it is unsteady; that is no failure while the test
stands in LIST, a file of lines "NAME REASON", and no more than three tests have failed. The outputs of failed tests are kept
as LOGS/NAME.log and LOGS/NAME.again.log. Exit status: 0, or 1 where tests have failed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

most_unsteady = 3  # more than a few have a cause in common


def listed(file):
    """The unsteady tests that are known, each with its reason."""
    reasons = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        name, _, reason = line.partition(" ")
        if not line.strip() or line.startswith("#"):
            continue
        if not reason.strip():
            sys.exit(f"{file}:{number}: test '{name}' has no reason; to fix: write it behind the name")
        reasons[name] = reason.strip()
    return reasons


def failed_tests(report):
    """Names and outputs of the tests that failed, in the order in which they ran; also those that could not be started."""
    tree = xml.etree.ElementTree.parse(report)
    return {case.get("name"): case.findtext("system-out") or "" for case in tree.iter("testcase")
            if case.get("status") == "fail" or case.find("failure") is not None}


def shown(path):
    return os.path.relpath(path)


def main():
    ctest, build, logs, flags = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:]
    known = None
    if "--again" in flags:
        place = flags.index("--again")
        known = listed(pathlib.Path(flags[place + 1]))
        del flags[place:place + 2]
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    report = logs / "all.xml"
    # Two at a time: what compares times or memory of processes asks for the machine alone.
    status = subprocess.run([ctest, "--test-dir", build, "--output-on-failure", "-j", "2", "--no-tests=error",
                             "--test-output-size-failed", "1000000", "--output-junit", report.resolve(), *flags]).returncode
    sys.stdout.flush()
    if status == 0:
        return 0
    if not report.exists():  # CTest itself has said what is wrong
        return 1
    failed = failed_tests(report)
    for name, output in failed.items():
        (logs / f"{name}.log").write_text(output)
    steady = dict.fromkeys(failed)
    unsteady = {}
    if known is not None and len(failed) <= most_unsteady:
        for name in failed:
            with open(logs / f"{name}.again.log", "w") as log:
                again = subprocess.run([ctest, "--test-dir", build, "--output-on-failure", "--no-tests=error", "-R",
                                        f"^{re.escape(name)}$"], stdout=log, stderr=subprocess.STDOUT)
            if again.returncode == 0:
                unsteady[name] = known.get(name)
                del steady[name]
    print()
    for name in steady:
        print(f"failed:   {name}  {shown(logs / f'{name}.log')}")
    for name, reason in unsteady.items():
        print(f"unsteady: {name}  {shown(logs / f'{name}.log')}  passed alone; " +
              (f"known: {reason}" if reason else "not listed in tests/unsteady.txt, which makes it a failure"))
    if known is not None and len(failed) > most_unsteady:
        print(f"{len(failed)} tests failed: more than {most_unsteady} are not run again")
    return 1 if steady or not failed or not all(unsteady.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
