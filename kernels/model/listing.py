"""A kernel's machine code beside its source lines, with the control bits: what each instruction waits for, and for how long.

usage: listing.py KERNEL RUNG [NAME=N,...] [--gpu H100] [--line TEXT] [--hot] [--build build/dev]
       listing.py --write [KERNEL...]

Prints every basic block that runs: a source line, then its instructions. --line keeps what stands on source lines that hold TEXT
("sgemm.cuh:141"), --hot the block that takes most instructions. The shape is that of bench/ unless one is named. --write looks at every
rung and writes results/compiler/loads_in_flight.json, from which docs/nsight_compute.md is generated. Needs no GPU. Exit code 2, and one
line that says why and what to do, where it refuses.
"""

import argparse
import collections
import dataclasses
import datetime
import math
import signal

import control_bits
import gpu_model
import kernel_resources
import kernel_time
import machine_code
import warp_model
from programs import refuse

TARGET = kernel_time.root / "results" / "compiler" / "loads_in_flight.json"
GLOBAL_LOADS = {"LDG", "LD"}
EXAMPLE = ("reduction", 5)  # short, and it waits earlier than its source lets one think
HEAD = f"{'address':>9} {'stall':>5} {'yield':>5} {'sets':>4} {'frees':>5} {'waits':>7}  instruction"


@dataclasses.dataclass(frozen=True)
class InFlight:
    """Global loads of a warp that are on their way at one place of its code."""
    loads: tuple = ()  # (address, bytes of a lane, barrier)
    groups: tuple = ()  # of cp.async: tuples of (address, bytes of a lane); the last is still open

    @property
    def bytes(self):
        return 32 * (sum(load[1] for load in self.loads) + sum(copy[1] for group in self.groups for copy in group))

    @property
    def number(self):
        return len(self.loads) + sum(len(group) for group in self.groups)

    def behind(self, row):
        """After one more instruction has been issued."""
        loads, groups = [load for load in self.loads if load[2] not in row.control.waits], self.groups or ((),)
        if row.kind in GLOBAL_LOADS:
            loads = [load for load in loads if load[0] != row.address] + [(row.address, row.width, row.control.sets)]
        elif row.kind == "LDGSTS":
            groups = (*groups[:-1], (*groups[-1], (row.address, dict(machine_code.classes_of(row))["global load"])))
        elif row.kind == "LDGDEPBAR":
            groups = (*groups, ())
        elif row.kind == "DEPBAR":
            missing = control_bits.kept_groups(row)[1]
            groups = (*groups[:-1][len(groups) - 1 - missing:], ()) if len(groups) > missing else groups
        return InFlight(tuple(loads), groups)


def loads_in_flight(blocks, executions):
    """The most that a warp has on its way in the block where it loads the most bytes of global memory, over all its executions: along the
    way through the blocks that has most on arrival."""
    arriving = {}
    running = [i for i, times in enumerate(executions) if times > 1e-6]
    for start in running:  # the cheapest executions may leave out the blocks between a loop and what is before it
        todo = [] if start in arriving else [start]
        arriving.setdefault(start, InFlight())
        for _ in range(50 * len(blocks)):
            if not todo:
                break
            i = todo.pop(0)
            state = arriving[i]
            for row in blocks[i].instructions:
                state = state.behind(row)
            for to in blocks[i].to:
                if to in running and (to not in arriving or state.bytes > arriving[to].bytes):
                    arriving[to] = state
                    todo.append(to)

    def loaded(i):
        return executions[i] * sum(amount for row in blocks[i].instructions for name, amount in machine_code.classes_of(row) if name == "global load")

    place = max(arriving, key=loaded)
    state = most = arriving[place]
    for row in blocks[place].instructions:
        state = state.behind(row)
        most = max(most, state, key=lambda here: here.bytes)
    return most


def columns_of(row):
    control = row.control
    barrier = {None: "."}
    waits = ",".join(map(str, control.waits)) or "."
    guard = f"@{row.guard} " if row.guard else ""
    return (f"{row.address:#9x} {control.stall:5d} {'yes' if control.yields else '.':>5} {barrier.get(control.sets, control.sets):>4} "
            f"{barrier.get(control.frees, control.frees):>5} {waits:>7}  {guard}{row.name} {row.operands}".rstrip())


def source_text(line):
    """What stands there in this checkout."""
    path, _, number = line.partition(":")
    try:
        return (kernel_time.root / path).read_text().splitlines()[int(number) - 1].strip()
    except (OSError, IndexError):
        return ""


def hottest(blocks, executions):
    """Which block takes most instructions."""
    return max(range(len(blocks)), key=lambda i: executions[i] * len(blocks[i].instructions))


def lines_of(block, wanted=""):
    """Its instructions, each behind its source line, as far as that holds `wanted`."""
    last, lines = None, [HEAD]
    for row in block.instructions:
        if wanted not in (row.line or ""):
            continue
        if row.line != last:
            lines.append(f"{row.line}  {source_text(row.line)}" if row.line else "(no source line)")
            last = row.line
        lines.append(columns_of(row))
    return lines if len(lines) > 1 else []


def print_blocks(blocks, executions, wanted, hot):
    for i in [hottest(blocks, executions)] if hot else range(len(blocks)):
        lines = lines_of(blocks[i], wanted)
        if executions[i] > 1e-6 and lines:
            print(f"\nblock {blocks[i].address:#x}, {executions[i]:g} times a warp", *lines, sep="\n")


def measures(gpu, launched):
    """Of a rung's longest kernel, for results/compiler/loads_in_flight.json."""
    launch, solution, blocks, counts = max(launched, key=lambda item: item[0].seconds)
    most = loads_in_flight(blocks, solution.executions)
    warps = math.ceil(counts["threads_of_block"] / 32)
    resident = min(launch.occupancy.blocks, math.ceil(counts["grid_blocks"] / counts["launches"] / gpu["sms"]))
    return {"symbol": kernel_time.symbol_of(counts), "loads": most.number, "bytes_of_warp": most.bytes, "warps_on_sm": resident * warps,
            "bytes_on_sm": most.bytes * resident * warps}


def launched_on(tools, gpu, name, rung, shape, sample):
    """[(Launch, Solution, blocks, counts)] of the kernels of a rung, as kernel_time.launches_on, with their static shared memory."""
    counted = tools.counts(name, rung, shape, sample)
    launches = kernel_time.launches_on(tools, gpu, name, counted)
    resources = tools.machine_code(tools.operation(name).kernel, gpu["capability"])[1]
    statics = [kernel_time.static_shared(gpu, resources[kernel_time.symbol_of(counts)][1]) for counts in counted]
    return [(*item, counts | {"static_shared_bytes": static}) for item, counts, static in zip(launches, counted, statics)]


def example(tools, gpu):
    """The loop of EXAMPLE's longest kernel, for the page."""
    operation = tools.operation(EXAMPLE[0])
    found = launched_on(tools, gpu, operation.name, EXAMPLE[1], operation.shape, operation.sampled_blocks)
    _, solution, blocks, _ = max(found, key=lambda item: item[0].seconds)
    block = blocks[hottest(blocks, solution.executions)]
    return {"operation": operation.name, "rung": EXAMPLE[1], "times": solution.executions[blocks.index(block)], "lines": lines_of(block)}


def checked(tools, gpu):
    """What was counted and found right in every kernel: tests/kernels/control_bits_test.py asks for it, too."""
    total = collections.Counter()
    for kernel in kernel_time.kernels():
        for blocks in tools.machine_code(kernel, gpu["capability"])[0].values():
            found = control_bits.hazards(blocks, warp_model.dataflow)
            distances = control_bits.fixed_distances(blocks, warp_model.dataflow)
            total.update(kernels=1, loads=found.loads, uses=found.uses, wrong_uses=len(found.too_early), overwrites=found.overwrites,
                         wrong_overwrites=len(found.too_early_overwrites), chains=sum(distances.values()),
                         short_chains=sum(times for clocks, times in distances.items() if clocks < warp_model.ARITHMETIC_CLOCKS))
    return total


def write(tools, gpu, names):
    known = kernel_resources.entries_of(TARGET)
    for operation in [tools.operation(name) for name in names or tools.operations]:
        rungs = []
        for rung, name in enumerate(operation.rungs):
            try:
                found = launched_on(tools, gpu, operation.name, rung, operation.shape, operation.sampled_blocks)
            except (gpu_model.DoesNotFit, kernel_time.MissingCode, machine_code.NoSolution) as error:
                refuse(f"{operation.name} {rung}: {gpu['key']}: {error}")
            rungs.append({"name": name} | measures(gpu, found))
            print(f"{operation.name} {rung}: {rungs[-1]}", flush=True)
        known[operation.name] = kernel_resources.entry_of(operation, rungs)
    needed = gpu["dram_bytes_per_s"] * gpu["dram_latency"] / gpu["clock_hz"] / gpu["sms"]
    out = {"schema": "tenfold.loads_in_flight/1", "date": datetime.date.today().isoformat(), "nvcc": tools.nvcc, "gpu": gpu["key"],
           "dram_latency": gpu["dram_latency"], "bytes_needed_on_sm": round(needed), "example": example(tools, gpu),
           "checked": dict(checked(tools, gpu)) | {"clocks": warp_model.ARITHMETIC_CLOCKS}, "kernels": [known[name] for name in sorted(known)]}
    kernel_resources.write_json(TARGET, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = refuse
    parser.add_argument("kernel", nargs="?")
    parser.add_argument("rung", nargs="?")
    parser.add_argument("shape", nargs="?")
    parser.add_argument("--gpu", default="H100")
    parser.add_argument("--line", default="", metavar="TEXT")
    parser.add_argument("--hot", action="store_true")
    parser.add_argument("--write", nargs="*", metavar="KERNEL")
    parser.add_argument("--build", default="build/dev")
    options = parser.parse_args()
    tools = kernel_time.Tools(options.build)
    gpu = tools.gpu(options.gpu)
    if options.write is not None:
        if options.kernel is not None:
            refuse("expected --write KERNEL... or KERNEL RUNG, not both")
        return write(tools, gpu, options.write)
    if options.rung is None:
        refuse("expected KERNEL RUNG, as in: softmax 3")
    operation = tools.operation(options.kernel)
    try:
        found = launched_on(tools, gpu, options.kernel, options.rung, options.shape or operation.shape, operation.sampled_blocks)
    except (gpu_model.DoesNotFit, kernel_time.MissingCode, machine_code.NoSolution) as error:
        refuse(f"{options.gpu}: {error}")
    for launch, solution, blocks, counts in found:
        most = loads_in_flight(blocks, solution.executions)
        print(f"{launch.symbol}, for {gpu['capability']}: at most {most.number} global loads of a warp on their way at once, {most.bytes} bytes")
        print_blocks(blocks, solution.executions, options.line, options.hot)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a pager or head may not want all of it
    main()
