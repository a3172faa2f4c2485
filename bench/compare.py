"""Times a benchmark program and its Python twin in turns on the same core, and prints how much faster the program is.

usage: compare.py PROGRAM PEER OUT.json [--rounds N] [--min-time SECONDS]

Every round runs both, each in a new process, the order changing from round to round, and in every round both must report
the same answer. The first round runs all there is, the others what can be compared. A ratio is the program's rate over the
twin's in the same round; printed are its median and the order-statistic interval that covers the true median with at least
95 % (docs/method.md), or the whole range, marked, when the rounds are too few for one. All rates are per second of wall
clock, on both sides.

Lines in the twin's file say more:
  # cores: all                         neither side is bound to one core
  # malloc: fixed                      both sides have glibc's thresholds fixed, at the harness's values (docs/method.md)
  # best: LABEL = OURS against THEIRS  compares the fastest of the benchmarks that match OURS (as file names do: png/*) with the
                                       twin's fastest that matches THEIRS; "own THEIRS" means the program's own. The fastest is the
                                       one with the highest median rate over all rounds, on each side, and stays the same in
                                       every round: the best of each round would flatter whoever varies more.
A twin may give numbers as "answer_near" beside its answer: the program's must be as many, each within the twin's "tolerance",
which is one number, or one for each.

OUT.json gets the program's last report and, under "peer", both sides' rates of every round and what "best" lines came to.
Exit codes: 0 compared; 1 the answers differ; 2 a side could not run; 77 the twin lacks its library or the data are not fetched.
"""

import argparse
import fnmatch
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile


# As common/measure/memory.h has them. Left alone they adapt to what a process has freed, so that one side would give the
# memory of its gradients back to the system after each update and fault it in again, and the other keep it.
FIXED_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(2000 << 20),
                "MALLOC_TOP_PAD_": str(64 << 20)}


def stop(code, message):
    print(f"compare.py: {message}", file=sys.stderr)
    sys.exit(code)


def report(command, cores, more_environment):
    """Runs one side; its JSON report."""
    def bind():
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)
    environment = os.environ | more_environment
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
    """Work per second of wall clock of each benchmark; where no work is counted, calls per second."""
    seconds = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    found = {}
    for row in text["benchmarks"]:
        if "error_message" in row:
            stop(2, f"{row['name']}: {row['error_message']}")
        rate = row.get("bytes_per_second") or row.get("items_per_second") or 1 / (row["real_time"] * seconds[row["time_unit"]])
        name = row["name"].removesuffix("/real_time")
        if name == row["name"] and "cpu_time" in row and ("bytes_per_second" in row or "items_per_second" in row):
            rate *= row["cpu_time"] / row["real_time"]  # Google Benchmark divides by processor time unless it is told otherwise
        found[name] = rate
    return found


def check_answers(program, peer, b, a):
    """Stops unless the contexts of both sides agree."""
    if "answer" not in a or "answer" not in b:
        stop(2, "a side gives no answer to compare")
    if a["answer"] != b["answer"]:
        stop(1, f"{program} and {peer} give different answers; their times mean nothing")
    ours, theirs = list(map(float, b.get("answer_near", "").split())), a.get("answer_near", [])
    if len(ours) != len(theirs):
        stop(1, f"{program} and {peer} give {len(ours)} and {len(theirs)} numbers as their answers; their times mean nothing")
    allowed = a["tolerance"] if isinstance(a["tolerance"], list) else [a["tolerance"]] * len(ours)
    for i, (x, y, apart) in enumerate(zip(ours, theirs, allowed, strict=True)):
        if not abs(x - y) <= apart:
            stop(1, f"{program} and {peer}: number {i} of their answers is {x:.9g} and {y:.9g}, {apart:g} are allowed; their times mean nothing")


def sizes(ours, theirs):
    """Bytes that both sides counted, by name: the program's context has them as "bytes: NAME"."""
    return [{"name": name, "program": int(ours[f"bytes: {name}"]), "peer": count}
            for name, count in theirs.get("sizes", {}).items() if f"bytes: {name}" in ours]


def families(peer):
    """(label, our pattern, theirs, whether theirs is the program's own too) of each "best" line of the twin."""
    lines = re.findall(r"^# best: (.+) = (\S+) against (own )?(\S+)$", peer.read_text(), re.MULTILINE)
    return [(label, ours, theirs, bool(own)) for label, ours, own, theirs in lines]


def what_to_compare(program, peer, ours, theirs):
    """The names that both have, the "best" lines that can be drawn, and for each side the expression for the benchmarks needed."""
    names, bests, wanted = [name for name in ours if name in theirs], [], [set(), set()]
    for row in families(peer):
        label, pattern, against, own = row
        mine, other = fnmatch.filter(ours, pattern), fnmatch.filter(ours if own else theirs, against)
        if mine and other:
            bests.append(row)
            wanted[0].update(mine)
            wanted[0 if own else 1].update(other)
        else:
            print(f"compare.py: {label}: left out, nothing matches {against if mine else pattern}", file=sys.stderr)
    if not names and not bests:
        stop(2, f"{program} and {peer.name} have no benchmark in common")
    return names, bests, ["^(" + "|".join(map(re.escape, sorted(side | set(names)))) + ")(/real_time)?$" for side in wanted]


def fastest(rows, pattern):
    """The name matching the pattern whose median rate over all rounds is the highest."""
    return max(fnmatch.filter(rows[0], pattern), key=lambda name: statistics.median(row[name] for row in rows))


def compared(pairs):
    """Ratio and interval of (program's rate, twin's rate) of all rounds."""
    ratios = [program / peer for program, peer in pairs]
    low, high, covered = interval(ratios)
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "covered": covered,
            "rounds": [{"program": program, "peer": peer} for program, peer in pairs]}


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
    says = arguments.peer.read_text()
    cores = None if re.search(r"^# cores: all$", says, re.MULTILINE) else allowed[-1:]
    environment = FIXED_MALLOC if re.search(r"^# malloc: fixed$", says, re.MULTILINE) else {}

    def ours(seconds, only=""):
        return report([str(arguments.program), "--benchmark_format=json", f"--benchmark_min_time={seconds}", f"--benchmark_filter={only or '.'}"], cores, environment)

    def theirs(seconds, only=""):
        return report([sys.executable, str(arguments.peer), f"--min-time={seconds}", f"--filter={only}"], cores, environment)

    can_draw = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    rounds, filters = [[], []], ["", ""]
    for i in range(arguments.rounds):
        sides = {}
        for side in ((ours, theirs) if i % 2 == 0 else (theirs, ours)):
            sides[side] = side(arguments.min_time, filters[0 if side is ours else 1])
        rounds[0].append(rates(sides[ours]))
        rounds[1].append(rates(sides[theirs]))
        check_answers(arguments.program.name, arguments.peer.name, sides[ours]["context"], sides[theirs]["context"])
        if i == 0:
            names, bests, filters = what_to_compare(arguments.program.name, arguments.peer, rounds[0][0], rounds[1][0])
        if can_draw:
            print(f"\r\033[Kround {i + 1} of {arguments.rounds}", end="", file=sys.stderr, flush=True)
    if can_draw:
        print("\r\033[K", end="", file=sys.stderr)

    result = sides[ours]
    if cores and "machine" in result["context"]:  # bound to one core the program took the machine for a smaller one
        quick = [f"--benchmark_filter=^{re.escape(next(iter(rounds[0][0])))}(/real_time)?$", "--benchmark_min_time=0.001"]
        unbound = report([str(arguments.program), "--benchmark_format=json", *quick], None, environment)
        result["context"] |= {key: unbound["context"][key] for key in ("machine", "hardware")}
    result["peer"] = {"file": arguments.peer.name, "cores": cores or allowed, "libraries": sides[theirs]["context"]["libraries"],
                      "sizes": sizes(result["context"], sides[theirs]["context"]), "benchmarks": [], "best": []}
    works = {row["name"].removesuffix("/real_time"): "bytes" if "bytes_per_second" in row else "items" for row in result["benchmarks"]}
    units = {"bytes": ("MB/s", 1e-6), "items": ("1/s", 1)}

    def verdict(found):
        return (f"{found['ratio']:6.2f}x  [{found['low']:.2f}, {found['high']:.2f}]" +
                ("" if found["covered"] else f"  (range of {arguments.rounds} rounds: too few for an interval)"))

    if names:
        width = max(map(len, names))
        print(f"{'':{width}}  {'ours':>10}  {'twin':>10}        ratio  [interval]")
    for name in names:
        found = compared([(mine[name], other[name]) for mine, other in zip(*rounds)])
        result["peer"]["benchmarks"].append({"name": name, "unit": works[name], **found})
        unit, scale = units[works[name]]
        mine, other = (statistics.median(row[side] for row in found["rounds"]) * scale for side in ("program", "peer"))
        print(f"{name:{width}}  {mine:10.1f}  {other:10.1f} {unit:5} {verdict(found)}")
    for label, pattern, against, own in bests:
        them = rounds[0 if own else 1]
        mine, other = fastest(rounds[0], pattern), fastest(them, against)
        found = compared([(row[mine], them_row[other]) for row, them_row in zip(rounds[0], them)])
        result["peer"]["best"].append({"label": label, "program": mine, "peer": other, "own": own, "unit": works[mine], **found})
        unit, scale = units[works[mine]]
        rate = [statistics.median(row[side] for row in found["rounds"]) * scale for side in ("program", "peer")]
        print(f"best, {label}: {mine} {rate[0]:.1f} against {'our own' if own else 'twin'} {other} {rate[1]:.1f} {unit} {verdict(found)}")

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
