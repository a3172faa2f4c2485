"""What the Python twins of the benchmark programs share: timing, a report in Google Benchmark's JSON, and the data."""

import argparse
import importlib.metadata
import json
import mmap
import os
import pathlib
import platform
import re
import struct
import time


def data_folder():
    """Where `./tenfold` keeps the data."""
    cache = os.environ.get("TENFOLD_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tenfold"
    return pathlib.Path(cache) / "data"


def shard_records(path):
    """A shard, mapped, and (offset, bytes) of each record; common/data/shard.h gives the layout."""
    with open(path, "rb") as file:
        shard = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    count, index = (struct.unpack_from("<Q", shard, at)[0] for at in (56, 64))
    return shard, [struct.unpack_from("<QQ", shard, index + 32 * i) for i in range(count)]


def shard_names(shard):
    """The names of a mapped shard's records."""
    classes, count, at = (struct.unpack_from("<Q", shard, at)[0] for at in (48, 56, 72))
    strings = []
    for _ in range(1 + classes + count):  # the note, the classes, the records
        size = struct.unpack_from("<I", shard, at)[0]
        strings.append(shard[at + 4:at + 4 + size].decode())
        at += 4 + size
    return strings[1 + classes:]


def shard_labels(shard):
    """The labels of a mapped shard's records."""
    count, index = (struct.unpack_from("<Q", shard, at)[0] for at in (56, 64))
    return [struct.unpack_from("<I", shard, index + 32 * i + 16)[0] for i in range(count)]


def run(answer, cases, work="bytes", near=(), tolerance=0, libraries=(), sizes=None):
    """Times each case and prints the report.

    answer: a string that the C++ program must give as its context "answer" too (e.g. a hash of the results).
    cases: name -> (function, bytes or items that one call works through); the names are those of the C++ benchmarks.
    work: "bytes" or "items".
    libraries: distributions whose versions belong into the report; Python's own always does.
    near: numbers that the C++ program gives as its context "answer_near", each at most `tolerance` away, which is one number, or one for each.
    sizes: {name: bytes}; the C++ program gives its own as its context "bytes: name".
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
                       f"{work}_per_second": size * calls / seconds})
    versions = {"Python": platform.python_version()} | {name: importlib.metadata.version(name) for name in libraries}
    context = {"answer": answer, "answer_near": list(near), "tolerance": tolerance, "libraries": versions, "sizes": sizes or {}}
    print(json.dumps({"context": context, "benchmarks": report}))
