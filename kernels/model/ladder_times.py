"""What the model makes of the ladders that others have timed: each rung of docs/published_ladders at its shape, on its GPU.

usage: ladder_times.py [LADDER...] [--write] [--build build/dev] [--out FILE]

Prints modelled and published time of every rung. --write writes results/compiler/ladder_times.json, or FILE, from which
docs/kernel_time.md is generated; all ladders then. What the model said before it was changed because of these tables stays
in results/compiler/ladder_times_frozen.json. Needs the machine code of their kernels for 7.5, 8.0 and 9.0, and no GPU.
Exit code 2, and one line that says why and what to do, where it refuses.
"""

import argparse
import datetime
import functools
import json
import statistics

import gpu_model
import kernel_resources
import kernel_time
import machine_code
from programs import refuse

LADDERS = kernel_time.root / "docs" / "published_ladders"
TARGET = kernel_time.root / "results" / "compiler" / "ladder_times.json"


def ladders(names):
    known = {file.stem: with_own_times(json.loads(file.read_text())) for file in sorted(LADDERS.glob("*.json"))}
    for name in names:
        if name not in known:
            refuse(f"there is no ladder '{name}'; to fix: take one of {', '.join(known)}")
    return {name: ladder for name, ladder in known.items() if not names or name in names}


def with_own_times(ladder):
    """A ladder of this project's own kernels names a report and its rungs; their times are medians on empty caches, as modelled."""
    if "report" not in ladder:
        return ladder
    rounds = {}
    for row in json.loads((kernel_time.root / ladder["report"]).read_text())["benchmarks"]:
        if row["run_type"] == "iteration" and not row.get("error_occurred"):
            rounds.setdefault(row["name"], []).append(row["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[row["time_unit"]])
    timed = {rung: rounds.get(f"{ladder['ladder']}/rung {rung}/cold") for rung in ladder["rungs"]}
    for rung, seconds in timed.items():
        if seconds is None:
            refuse(f"{ladder['report']} has no rung {rung} of '{ladder['ladder']}'; to fix: name in docs/published_ladders what it has")
    return ladder | {"rungs": [{"ours": rung, "seconds": statistics.median(seconds)} for rung, seconds in timed.items()]}


def published_seconds(ladder, rung):
    """Of a rung: given as seconds, or as a rate of the ladder's FLOPs or bytes."""
    if "seconds" in rung:
        return rung["seconds"]
    if "gflops_per_s" in rung:
        return ladder["flops"] / rung["gflops_per_s"] / 1e9
    return ladder["bytes"] / rung["gbytes_per_s"] / 1e9


def at_clock(gpu, clock_hz):
    """The GPU as its SMs and L2 were clocked; None: as it is."""
    if clock_hz is None:
        return gpu
    scaled = ("clock_hz", "flops_per_s", "tensor_flops_per_s", "tensor_int8_per_s", "tensor_fp8_per_s", "l2_bytes_per_s")
    return gpu | {name: gpu[name] * clock_hz / gpu["clock_hz"] for name in scaled}


def modelled(tools, ladder):
    operation = tools.operation(ladder["kernel"])
    if ladder["gpu"] not in tools.all_gpus:
        refuse(f"there is no GPU '{ladder['gpu']}'; to fix: take one of {', '.join(tools.all_gpus)}")
    gpu = at_clock(tools.all_gpus[ladder["gpu"]], ladder.get("clock_hz"))
    rungs = []
    for rung in ladder["rungs"]:
        # All blocks are alike where a ladder says so, as without a causal mask.
        counted = counts(tools, ladder["kernel"], rung["ours"], ladder["shape"], ladder.get("sampled_blocks", operation.sampled_blocks))
        try:
            launches = [launch for launch, _, _ in kernel_time.launches_on(tools, gpu, ladder["kernel"], counted)]
        except (gpu_model.DoesNotFit, kernel_time.MissingCode, machine_code.NoSolution) as error:
            refuse(f"{ladder['kernel']} {rung['ours']}: {ladder['gpu']}: {error}")
        times = kernel_time.times_of(launches)
        rungs.append({"ours": rung["ours"], **{name: times[name] for name in ("seconds", "bound", "bounds")}})
    return {"kernel": ladder["kernel"], "sources": kernel_resources.sources_hash(ladder["kernel"]), "rungs": rungs}


@functools.cache
def counts(tools, *words):
    return tools.counts(*words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = refuse
    parser.add_argument("ladders", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--out", default=TARGET)
    options = parser.parse_args()
    if options.write and options.ladders:
        refuse("--write writes all ladders; to fix: name none")
    tools, found = kernel_time.Tools(options.build), {}
    for name, ladder in ladders(options.ladders).items():
        found[name] = modelled(tools, ladder)
        for rung, published in zip(found[name]["rungs"], ladder["rungs"]):
            seconds = published_seconds(ladder, published)
            print(f"{name} {rung['ours']}: {1e6 * rung['seconds']:.1f} us by {rung['bound']}, published {1e6 * seconds:.1f} us: "
                  f"{rung['seconds'] / seconds:.2f}x", flush=True)
    if options.write:
        out = {"schema": "tenfold.ladder_times/1", "date": datetime.date.today().isoformat(), "nvcc": tools.nvcc, "ladders": found}
        kernel_resources.write_json(kernel_time.root.joinpath(options.out), out)


if __name__ == "__main__":
    main()
