"""A report of Nsight Compute held against what we count and model, cell by cell.

usage: nsight_compute.py REPORT.csv    ours beside the report's, of every kernel that both have
       nsight_compute.py --metrics     the metrics, as ncu's --metrics takes them

docs/nsight_compute.md has the command that records REPORT.csv. What is ours stands in results/compiler/nsight_compute.json, which
nsight_sheet.py writes. No report of a card has been read so far. Any python3 will do. Exit code 1: a number is not as it should be; 2,
and one line that says why and what to do, where it refuses.
"""

import argparse
import collections
import csv
import json
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "common" / "tools"))
from programs import refuse

from nsight_metrics import METRICS

TARGET = root / "results" / "compiler" / "nsight_compute.json"
NAMESPACE = "7tenfold7kernels"  # in the mangled name of each of our kernels
LINE = "{:<72} {:>14} {:>14} {:>7}  {}"


def number_of(text):
    """Nothing where the report has none ("n/a")."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def report_of(path):
    """{mangled name: {metric: mean over its launches}} of what ncu --csv --page raw prints: a row of names, one of units, one for each
    launch. What ncu and the program print around it is passed over."""
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except OSError as error:
        refuse(f"cannot read {path}: {error.strerror}; to fix: name a report as docs/nsight_compute.md records it")
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        refuse(f"{path} has no line that begins with \"ID\"; to fix: record it with --csv --page raw")
    rows = list(csv.reader(line for line in lines[begin:] if line.startswith('"')))
    names, units = rows[0], dict(zip(rows[0], rows[1] if len(rows) > 1 else []))
    if "Metric Name" in names:
        refuse(f"{path} is of another page, a row for each metric; to fix: record it with --page raw")
    scaled = [f"{name} in {unit}" for name, unit in units.items() if unit in ("Kbyte", "Mbyte", "Gbyte", "us", "ms", "usecond", "msecond")]
    if scaled:
        refuse(f"{path} has {scaled[0]}; to fix: record it with --print-units base")
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows[2:]:
        launch = dict(zip(names, row))
        for metric in METRICS:
            value = number_of(launch.get(metric.name, ""))
            if value is not None:
                found[launch["Kernel Name"]][metric.name].append((number_of(launch.get("launch__grid_size", "")), value))
    if not any(NAMESPACE in name for name in found):
        refuse(f"{path} has none of our kernels; to fix: record it with --print-kernel-base mangled")
    return found


def mean_of(values, grid):
    """Over the launches of this grid; over all where the report does not say."""
    kept = [value for of_grid, value in values if grid is None or of_grid in (None, grid)]
    return sum(kept) / len(kept) if kept else None


def compared(launch, report):
    """[(metric, ours, measured, whether it is as it should be)] of one kernel."""
    ours, rows = launch["values"], []
    grid = ours.get("launch__grid_size")
    measured = {name: mean_of(values, grid) for name, values in report.get(launch["symbol"], {}).items()}
    duration = measured.get("gpu__time_duration.sum")
    for metric in METRICS:
        mine, theirs = ours.get(metric.name), measured.get(metric.name)
        if mine is None or theirs is None:
            continue
        if metric.of_time:  # seconds of a bound: its share of the time that was measured, in nanoseconds
            if not duration:
                continue
            mine = 100 * mine / (duration * 1e-9)
        rows.append((metric, mine, theirs, metric.agrees(mine, theirs)))
    return rows


def print_comparison(sheet, report):
    wrong = shown = 0
    for entry in sheet["kernels"]:
        for number, rung in enumerate(entry["rungs"]):
            for launch in rung["launches"]:
                rows = compared(launch, report)
                if not rows:
                    continue
                print(f"\n{entry['operation']} {number} {rung['name']}, {entry['type']}, {entry['shape']}: {launch['symbol']}")
                print(LINE.format("metric", "ours", sheet["gpu"] + " report", "ratio", ""))
                for metric, mine, theirs, right in rows:
                    ratio = f"{theirs / mine:.3g}" if mine else "-"
                    print(LINE.format(metric.name, f"{mine:.6g}", f"{theirs:.6g}", ratio, "" if right else f"should be {metric.rule}").rstrip())
                    wrong, shown = wrong + (not right), shown + 1
    print(f"\n{shown - wrong} of {shown} numbers are as they should be")
    return shown, wrong


def sheet_of():
    try:
        return json.loads(TARGET.read_text())
    except (OSError, ValueError) as error:
        refuse(f"cannot read {TARGET}: {error}; to fix: take it from git again, or write it with kernels/model/nsight_sheet.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = refuse
    parser.add_argument("report", nargs="?")
    parser.add_argument("--metrics", action="store_true")
    options = parser.parse_args()
    if options.metrics:
        print(",".join(metric.name for metric in METRICS))
    elif options.report is None:
        refuse("expected REPORT.csv or --metrics")
    else:
        shown, wrong = print_comparison(sheet_of(), report_of(options.report))
        if shown == 0:
            refuse(f"{options.report} has no kernel at a shape of {TARGET.name}; to fix: record a program of bench/")
        sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
