"""Runs CTest, and says at the end what failed and where its output lies.

usage: run_tests.py CTEST BUILD LOGS [--again LIST] [--minutes N] [FLAGS...]

--again: a test that failed is run once more, alone. Where it passes then, it is unsteady; that is no failure while the test
stands in LIST, a file of lines "NAME REASON", and no more than three tests have failed. The outputs of failed tests are kept
as LOGS/NAME.log and LOGS/NAME.again.log.
--minutes: after this time no test goes on; those that have not ended by then are named, and are no failures.
Exit status: 0, or 1 where tests have failed.
"""

import datetime
import json
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


def tests_of(report):
    """Of the tests that began, in their order: name to seconds; and of those that failed, also those that could not be
    started: name to how and output."""
    seconds, failed = {}, {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name, failure = case.get("name"), case.find("failure")
        seconds[name] = float(case.get("time") or 0)
        if case.get("status") == "fail" or failure is not None:
            failed[name] = ("" if failure is None else failure.get("message", "")), case.findtext("system-out") or ""
    return seconds, failed


def value_of(option, flags):
    """Of `option VALUE` in `flags`, which loses both; None where it does not stand there."""
    if option not in flags:
        return None
    place = flags.index(option)
    if place + 1 == len(flags):
        sys.exit(f"run_tests.py: {option} has no value")
    value = flags[place + 1]
    del flags[place:place + 2]
    return value


def limits_of_tests(ctest, build, flags):
    """Of the tests that the flags choose: name to the seconds after which CTest ends it."""
    listing = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1", *flags], capture_output=True, text=True, check=True)
    limits = {}
    for test in json.loads(listing.stdout)["tests"]:
        limits[test["name"]] = next((p["value"] for p in test.get("properties", []) if p["name"] == "TIMEOUT"), 1500.0)
    return limits


def shown(path):
    return os.path.relpath(path)


def main():
    ctest, build, logs, flags = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:]
    again, minutes = value_of("--again", flags), value_of("--minutes", flags)
    known = listed(pathlib.Path(again)) if again else None
    stop, limits = [], {}
    if minutes:
        limits = limits_of_tests(ctest, build, flags)
        # CTest takes a time of the day, on this machine's clock.
        stop = ["--stop-time", (datetime.datetime.now() + datetime.timedelta(minutes=float(minutes))).strftime("%H:%M:%S")]
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    report = logs / "all.xml"
    # Two at a time: what compares times or memory of processes asks for the machine alone.
    status = subprocess.run([ctest, "--test-dir", build, "--output-on-failure", "-j", "2", "--no-tests=error",
                             "--test-output-size-failed", "1000000", "--output-junit", report.resolve(), *stop, *flags]).returncode
    sys.stdout.flush()
    if status == 0 and not minutes:
        return 0
    if not report.exists():  # CTest itself has said what is wrong
        return 1
    seconds, failed = tests_of(report)
    left_out = [name for name in limits if name not in seconds]
    for name, (how, _) in list(failed.items()):
        if how == "Timeout" and seconds[name] < limits.get(name, 0):  # of the whole run, and not the test's own
            left_out.append(name)
            del failed[name]
    for name, (_, output) in failed.items():
        (logs / f"{name}.log").write_text(output)
    steady = dict.fromkeys(failed)
    unsteady = {}
    if known is not None and len(failed) <= most_unsteady:
        for name in failed:
            with open(logs / f"{name}.again.log", "w") as log:
                alone = subprocess.run([ctest, "--test-dir", build, "--output-on-failure", "--no-tests=error", "-R",
                                        f"^{re.escape(name)}$"], stdout=log, stderr=subprocess.STDOUT)
            if alone.returncode == 0:
                unsteady[name] = known.get(name)
                del steady[name]
    print()
    if left_out:
        print(f"left out: {len(left_out)} of {len(limits)} tests, which {minutes} minutes were too short for: {' '.join(left_out)}")
    for name in steady:
        print(f"failed:   {name}  {shown(logs / f'{name}.log')}")
    for name, reason in unsteady.items():
        print(f"unsteady: {name}  {shown(logs / f'{name}.log')}  passed alone; " +
              (f"known: {reason}" if reason else "not listed in tests/unsteady.txt, which makes it a failure"))
    if known is not None and len(failed) > most_unsteady:
        print(f"{len(failed)} tests failed: more than {most_unsteady} are not run again")
    # CTest's own failure, where it names no test, is one.
    unexplained = status != 0 and not failed and not left_out
    return 1 if steady or unexplained or not all(unsteady.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
