"""What the Python twins of the benchmark programs share: timing, and a report in Google Benchmark's JSON."""

import argparse
import json
import re
import time


def run(answer, cases):
    """Times each case and prints the report.

    answer: a string that the C++ program must give as its context "answer" too (e.g. a hash of the results).
    cases: name -> (function, bytes that one call works through); the names are those of the C++ benchmarks.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--min-time", type=float, default=0.5, help="seconds per case")
    parser.add_argument("--filter", default="", help="regular expression: the cases to time")
    arguments = parser.parse_args()
    report = []
    for name, (function, size) in cases.items():
        if not re.search(arguments.filter, name):
            continue
        function()  # warm
        calls, start = 0, time.perf_counter()
        while True:
            function()
            calls += 1
            seconds = time.perf_counter() - start
            if seconds >= arguments.min_time:
                break
        report.append({"name": name, "iterations": calls, "real_time": seconds / calls * 1e3, "time_unit": "ms",
                       "bytes_per_second": size * calls / seconds})
    print(json.dumps({"context": {"answer": answer}, "benchmarks": report}))
