#!/usr/bin/env python3
"""Runs the lesson of known answers many times and counts what it is called.

usage: power.py PROGRAM RUNS [FLAGS...]     e.g. power.py build/dev/tests/99_power 25 --preset quick --case gpt --case mlp

Prints, for each case: how often identical code was called SAME, how often FASTER or SLOWER (false), how often code that is
5 % slower was found, what code that is 2 % slower was called, and the median width of the intervals. Beside other load:
start it yourself, and keep it running until the table is printed.
"""

import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile


def run(program, flags, file):
    done = subprocess.run([program, *flags, "--json", file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"power.py: {program} ended with exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(pathlib.Path(file).read_text())


def main():
    if len(sys.argv) < 3 or not sys.argv[2].isdigit():
        sys.exit(__doc__.strip())
    program, runs, flags = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    labels = collections.defaultdict(collections.Counter)
    widths, rounds, seconds = collections.defaultdict(list), collections.defaultdict(list), []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(runs):
            result = run(program, flags, f"{folder}/{i}.json")
            for case in result["cases"]:
                rounds[case["name"]].append(len(case["variants"][0]["blocks"][0]["build"]))
                for verdict in case["verdicts"]:
                    speed = verdict["speed"]
                    labels[case["name"], verdict["technique"]][speed["label"]] += 1
                    widths[case["name"]].append(speed["high"] / speed["low"] - 1)
            print(f"\r{i + 1} of {runs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("| case | rounds | identical: SAME | AMBIGUOUS | false | 5 % slower found | 2 % slower: SLOWER | SAME | AMBIGUOUS | median width |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in rounds:
        same, two, five = (labels[name, technique] for technique in ("identical", "2 % slower", "5 % slower"))
        false = same["FASTER"] + same["SLOWER"] + two["FASTER"] + five["FASTER"]
        cells = [name, f"{statistics.median(rounds[name]):.0f}", f"{same['SAME']} of {runs}", same["AMBIGUOUS"], false,
                 f"{five['SLOWER']} of {runs}", two["SLOWER"], two["SAME"], two["AMBIGUOUS"], f"{100 * statistics.median(widths[name]):.1f} %"]
        print("| " + " | ".join(map(str, cells)) + " |")


main()
