"""Times a benchmark program and its Python twin in turns on the same core, and prints how much faster the program is.

usage: compare.py PROGRAM PEER OUT.json [--rounds N] [--min-time SECONDS]

First both run once and must report the same answer. Then every round runs both, each in a new process, the order
changing from round to round. A ratio is the program's rate over the twin's in the same round; printed are its median
and the order-statistic interval that covers the true median with at least 95 % (docs/method.md), or the whole range,
marked, when the rounds are too few for one. A twin holding the line "# cores: all" is not bound to one core, nor is its
program. OUT.json gets the program's last report and, under "peer", both sides' rates of every round.
Exit codes: 0 compared; 1 the answers differ; 2 a side could not run; 77 the twin lacks its library.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile


def stop(code, message):
    print(f"compare.py: {message}", file=sys.stderr)
    sys.exit(code)


def report(command, cores):
    """Runs one side; its JSON report."""
    def bind():
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)
    environment = dict(os.environ)
    if cores:
        environment.update(OMP_NUM_THREADS=str(len(cores)), MKL_NUM_THREADS=str(len(cores)))
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=bind)
    except OSError as error:
        stop(2, f"{command[0]}: {error.strerror}; to fix: ./tenfold setup bench")
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if done.returncode == 77:
        stop(77, last)
    if done.returncode != 0:
        stop(2, f"{' '.join(command[:2])} failed with exit code {done.returncode}: {last}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        stop(2, f"{command[0]} printed no JSON report: {error}")


def rates(text):
    """Work per second of each benchmark; where no work is counted, calls per second."""
    seconds = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    found = {}
    for row in text["benchmarks"]:
        if "error_message" in row:
            stop(2, f"{row['name']}: {row['error_message']}")
        found[row["name"]] = row.get("bytes_per_second") or row.get("items_per_second") or 1 / (row["real_time"] * seconds[row["time_unit"]])
    return found


def interval(values, coverage=0.95):
    """Low, high, and whether they cover the median as often as asked: the rule of common/measure/statistics."""
    values, n, best = sorted(values), len(values), 0
    for k in range(1, n // 2 + 1):
        if 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n >= coverage:
            best = k
    return (values[best - 1], values[n - best], True) if best else (values[0], values[-1], False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("peer", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--min-time", type=float, default=0.5)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        stop(2, "--rounds must be at least 1")

    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    cores = None if re.search(r"^# cores: all$", arguments.peer.read_text(), re.MULTILINE) else allowed[-1:]

    def ours(seconds, only=""):
        return report([str(arguments.program), "--benchmark_format=json", f"--benchmark_min_time={seconds}", f"--benchmark_filter={only or '.'}"], cores)

    def theirs(seconds, only=""):
        return report([sys.executable, str(arguments.peer), f"--min-time={seconds}", f"--filter={only}"], cores)

    b, a = ours(0.001), theirs(0.001)  # ours first: it says best what is wrong with the data
    if "answer" not in a["context"] or "answer" not in b["context"]:
        stop(2, "a side gives no answer to compare")
    if a["context"]["answer"] != b["context"]["answer"]:
        stop(1, f"{arguments.program.name} and {arguments.peer.name} give different answers; nothing was timed")
    names = [name for name in rates(b) if name in rates(a)]
    if not names:
        stop(2, f"{arguments.program.name} and {arguments.peer.name} have no benchmark in common")
    only = "^(" + "|".join(map(re.escape, names)) + ")$"

    rounds = {name: [] for name in names}
    for i in range(arguments.rounds):
        sides = {}
        for side in ((ours, theirs) if i % 2 == 0 else (theirs, ours)):
            sides[side] = side(arguments.min_time, only)
        for name in names:
            rounds[name].append({"program": rates(sides[ours])[name], "peer": rates(sides[theirs])[name]})
        if sys.stderr.isatty():
            print(f"\r\033[Kround {i + 1} of {arguments.rounds}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)

    result = sides[ours]
    result["peer"] = {"file": arguments.peer.name, "cores": cores or allowed, "benchmarks": []}
    units = {row["name"]: ("MB/s", 1e-6) if "bytes_per_second" in row else ("1/s", 1) for row in result["benchmarks"]}
    width = max(map(len, names))
    print(f"{'':{width}}  {'ours':>10}  {'twin':>10}        ratio  [interval]")
    for name in names:
        ratios = [row["program"] / row["peer"] for row in rounds[name]]
        low, high, covered = interval(ratios)
        middle = statistics.median(ratios)
        result["peer"]["benchmarks"].append({"name": name, "ratio": middle, "low": low, "high": high, "covered": covered, "rounds": rounds[name]})
        unit, scale = units[name]
        mine, other = (statistics.median(row[side] for row in rounds[name]) * scale for side in ("program", "peer"))
        print(f"{name:{width}}  {mine:10.1f}  {other:10.1f} {unit:5} {middle:6.2f}x  [{low:.2f}, {high:.2f}]" +
              ("" if covered else f"  (range of {arguments.rounds} rounds: too few for an interval)"))

    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=arguments.out.parent, prefix=arguments.out.name, delete=False) as file:
        json.dump(result, file, indent=1)
    os.chmod(file.name, 0o644)
    os.replace(file.name, arguments.out)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        stop(130, "interrupted; nothing was written")
