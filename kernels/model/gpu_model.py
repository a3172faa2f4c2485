"""How long a GPU takes for a kernel, and what holds it up: a time for each resource as if nothing else took any, the longest counts.

What goes in: what the microscope counted of some blocks (a kernel's program, asked for its counts), how often each basic block of the machine code runs
(machine_code.solve), registers and shared memory (ptxas), and what is published of the GPU. No number is fitted to a kernel.
"""

import collections
import dataclasses
import math
import re

import machine_code
from warp_model import BOX_CLOCKS, MEMORY, SCHEDULERS, STORES, Boxes, clocks_of_multiplier, clocks_of_warp, flops_of

# Threads of an SM in a clock: "Throughput of Native Arithmetic Instructions" of the CUDA C++ Programming Guide, where "compare, minimum,
# maximum" of floats have the rate of integers. Arithmetic on floats follows from the GPU's rate.
PIPES = {
    "special": (16, {"MUFU", "F2F", "F2I", "I2F", "FRND", "POPC"}),
    "integers": (64, {"IADD3", "LOP3", "SHF", "LEA", "ISETP", "IMNMX", "VIMNMX", "SEL", "PRMT", "IABS", "F2FP", "VIADD", "FSETP", "FMNMX", "FSEL"}),
    "shuffles": (32, {"SHFL"}),
}
# The pipe of arithmetic on floats takes IMAD, too, but only one of its halves where it has two: NVIDIA on its forum,
# https://forums.developer.nvidia.com/t/separate-cuda-core-pipeline-for-fp16-and-fp32/302018/7
FLOATS = {"FADD", "FMUL", "FFMA", "FADD2", "FFMA2"}
MULTIPLY_ADDS = {"IMAD"}
MULTIPLY_ADD_THREADS = 64  # of an SM in a clock


@dataclasses.dataclass
class Occupancy:
    blocks: int  # of an SM
    limit: str  # what allows no more


def shared_of_block(gpu, shared):
    """By CUDA's own rule (cuda_occupancy.h): with 1 KiB of the system's own from 8.0 on, in 128s (256s before)."""
    unit, own = (256, 0) if gpu["capability"].startswith("7.") else (128, 1024)
    return math.ceil((shared + own) / unit) * unit


def occupancy_limits(gpu, threads, registers, shared):
    """Blocks of an SM that each resource allows, by CUDA's own rule (cuda_occupancy.h): a quarter of an SM has a quarter of its registers
    and gives them to warps in 256s; shared memory goes to blocks as above."""
    warps = math.ceil(threads / 32)
    of_warp = math.ceil(registers * 32 / 256) * 256
    of_block = shared_of_block(gpu, shared)
    return {
        "threads": gpu["most_threads"] // (warps * 32),
        "blocks": gpu["most_blocks"],
        "registers": SCHEDULERS * (65536 // SCHEDULERS // of_warp) // warps if of_warp else 1 << 30,
        "shared memory": gpu["shared_bytes"] // of_block if of_block else 1 << 30,
    }


def occupancy(gpu, threads, registers, shared):
    limits = occupancy_limits(gpu, threads, registers, shared)
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limit)


def reads_by_level(counts, gpu, resident):
    """Sectors that one block reads from L1, L2 and DRAM. A block has its share of the caches: what the others touch in between is as
    much again for each."""
    shared = resident * shared_of_block(gpu, counts["shared_bytes"] + counts["static_shared_bytes"])
    l1 = max(0, gpu["l1_bytes"] - shared) / resident
    l2 = gpu["l2_bytes"] / (resident * gpu["sms"])
    first = sum(touches["first_reads"] for touches in counts["touches"].values())
    levels = collections.Counter()
    for distance, sectors in counts["reads_again"]:
        levels["L1" if distance <= l1 else "L2" if distance <= l2 else "DRAM"] += sectors
    return first / counts["blocks"], {level: sectors / counts["blocks"] for level, sectors in levels.items()}


@dataclasses.dataclass
class Launch:
    """One kernel's launches at a shape, on one GPU."""
    symbol: str
    bounds: dict  # {resource: seconds}
    least_seconds: float  # that DRAM's bytes alone take, each read once
    occupancy: Occupancy
    registers: int
    instructions: float  # of a block
    grid: int  # blocks of all launches
    dram_bytes: float
    unknown: str = ""  # a resource without a figure, that could hold the kernel up

    @property
    def bound(self):
        return max(self.bounds, key=lambda name: self.bounds[name])

    @property
    def seconds(self):
        return self.bounds[self.bound]


def arithmetic_clocks(gpu, issued):
    """{pipe: clocks of an SM} for what one warp issues, {opcode: times}."""
    float_threads = gpu["flops_per_s"] / 2 / gpu["sms"] / gpu["clock_hz"]
    on_floats, products = sum(issued[kind] for kind in FLOATS), sum(issued[kind] for kind in MULTIPLY_ADDS)
    clocks = {"FP32": 32 * max((on_floats + products) / float_threads, products / MULTIPLY_ADD_THREADS)}
    return clocks | {name: 32 * sum(issued[kind] for kind in kinds) / threads for name, (threads, kinds) in PIPES.items()}


def shared_loads(blocks, executions):
    """{line: {bytes of a lane: how often a warp issues such a load}}: nvcc makes one load of several."""
    found = collections.defaultdict(collections.Counter)
    for block, times in zip(blocks, executions):
        for instruction in block.instructions:
            if instruction.kind == "LDS" and instruction.line:
                found[instruction.line][instruction.width] += times
    return found


def wavefronts_of(access, loads):
    """Of an access to shared memory, when the machine code has these loads on its line: its bytes in loads of their widths, each with
    the passes that the microscope counted for that width. As the source has it where there is none, as for ldmatrix."""
    total = sum(width * times for width, times in loads.items())
    if access["kind"] != "load" or total == 0:
        return access["wavefronts"]
    passes = {access["bytes"]: access["wavefronts"], 8: access["wavefronts_8"], 16: access["wavefronts_16"]}
    return sum(width * times / total * access["bytes"] / width * (passes.get(width) or access["wavefronts"] * width / access["bytes"])
               for width, times in loads.items())


def l1_clocks(gpu, counts, issued, loads):
    """Clocks of an SM for one block's shared memory, global accesses and shuffles, which go the same way: a wavefront, a line of 128
    bytes of a request, or a shuffle each. That shuffles and shared loads add up was measured on an H100:
    https://github.com/Dao-AILab/quack/blob/c8ec317/AI/gpu_pipe_microbench_notes.md"""
    shared = sum(wavefronts_of(access, loads.get(access["where"], {})) for access in counts["accesses"] if access["space"] == "shared")
    lines = sum(access["lines"] for access in counts["accesses"] if access["space"] == "global" and not machine_code.is_bulk(access))
    shuffles = issued["SHFL"] * counts["threads_of_block"] / 32
    return (shared + lines) / counts["blocks"] / gpu["wavefronts_per_clock"] + shuffles


def atomic_clocks(counts):
    """Clocks for atomics on one address of global memory, of all blocks: one after the other, one a clock as NVIDIA gives it ("Kepler
    GK110" white paper, "Atomic operations"). An address has at least the mean of its buffer's."""
    most = 0
    for access in counts["accesses"]:
        if access["space"] == "global" and access["kind"] == "atomic":
            addresses = max(1, counts["touches"][access["buffer"]]["bytes"] // access["bytes"])
            most = max(most, access["lanes"] / counts["blocks"] * counts["grid_blocks"] / addresses)
    return most


def unknown_bound(gpu, l2_bytes, longest):
    """"L2" where no figure of it is known and it would take more than `longest` seconds at the least rate that any GPU's has over its
    DRAM; else empty."""
    if gpu["l2_bytes_per_s"] > 0:
        return ""
    return "L2" if l2_bytes / (gpu["least_l2_over_dram"] * gpu["dram_bytes_per_s"]) > longest else ""


class DoesNotFit(Exception):
    """The launcher would take another kernel there."""


def launch_on(gpu, counts, blocks, executions, registers):
    grid, ran = counts["grid_blocks"], counts["blocks"]
    warps = counts["threads_of_block"] / 32
    here = occupancy(gpu, counts["threads_of_block"], registers, counts["shared_bytes"] + counts["static_shared_bytes"])
    if here.blocks < 1:
        raise DoesNotFit(f"no room for a block of {counts['symbol']} on an SM: {here.limit}")
    resident = max(1, min(here.blocks, math.ceil(grid / counts["launches"] / gpu["sms"])))
    clock, sms = gpu["clock_hz"], gpu["sms"]
    # Every SM gets whole blocks: the last round may leave most of them idle.
    of_sm = counts["launches"] * math.ceil(grid / counts["launches"] / sms)

    issued = collections.Counter()
    for block, times in zip(blocks, executions):
        for instruction in block.instructions:
            issued[instruction.kind] += times
    instructions = sum(issued.values()) * warps  # of a block
    first, again = reads_by_level(counts, gpu, resident)
    stores = sum(touches["stores"] for touches in counts["touches"].values()) / ran
    reads = first + sum(again.values())

    bounds = {"issue": of_sm * instructions / SCHEDULERS / clock}
    for name, clocks in arithmetic_clocks(gpu, issued).items():
        bounds[name] = of_sm * warps * clocks / clock
    bounds["tensor cores"] = of_sm * sms * warps * tensor_seconds(gpu, blocks, executions)
    bounds["L1/shared"] = of_sm * l1_clocks(gpu, counts, issued, shared_loads(blocks, executions)) / clock
    bounds["atomics"] = atomic_clocks(counts) / clock
    # What an SM takes of its warps, however few bytes each asks for. The source has more where nvcc merges loads, the machine code
    # where all lanes of a warp are switched off.
    requests = min(sum(access["requests"] for access in counts["accesses"] if not machine_code.is_bulk(access)) / ran, warps * sum(issued[kind] for kind in MEMORY | STORES))
    bounds["requests"] = of_sm * requests * gpu["request_clocks"] / clock
    beyond_l1 = first + again.get("L2", 0) + again.get("DRAM", 0) + stores
    if gpu["l2_bytes_per_s"] > 0:
        bounds["L2"] = grid * beyond_l1 * 32 / gpu["l2_bytes_per_s"]
    least_reads, least_writes = (sum(min(touches["bytes"], touches[which] * 32 / ran * grid) for touches in counts["touches"].values())
                                 for which in ("first_reads", "written"))
    least = least_reads + least_writes
    dram = least + grid * again.get("DRAM", 0) * 32
    bounds["DRAM"] = dram / gpu["dram_bytes_per_s"]
    # A warp by itself: loads that nothing overlaps with. The mean latency of the kernel's loads.
    latency = gpu["l1_latency"] if reads == 0 else (again.get("L1", 0) * gpu["l1_latency"] + again.get("L2", 0) * gpu["l2_latency"] +
                                                    (first + again.get("DRAM", 0)) * gpu["dram_latency"]) / reads
    if any(issued[kind] for kind in machine_code.WGMMA):
        from_dram = min(1, least_reads / (grid * first * 32)) if first else 0
        of_boxes = Boxes(sum(access["sectors"] * 32 for access in counts["accesses"] if machine_code.is_bulk(access) and access["kind"] == "load") / ran,
                         from_dram * gpu["dram_latency"] + (1 - from_dram) * gpu["l2_latency"] + BOX_CLOCKS)
        alone = clocks_of_multiplier(blocks, executions, gpu, latency, counts, of_boxes)
    else:
        alone = clocks_of_warp(blocks, executions, gpu, latency)
    rounds = counts["launches"] * math.ceil(grid / counts["launches"] / (sms * resident))
    bounds["latency"] = rounds * alone / clock
    unknown = unknown_bound(gpu, grid * beyond_l1 * 32, max(bounds.values()))
    return Launch(counts["symbol"], bounds, least / gpu["dram_bytes_per_s"], here, registers, instructions, grid, dram, unknown)


def tensor_seconds(gpu, blocks, executions):
    """Of a GPU's tensor cores, for what one warp multiplies. int8 by mma.sync is taken to reach the same share of its rate as fp16."""
    flops = collections.Counter()
    for block, times in zip(blocks, executions):
        for instruction in block.instructions:
            flops[instruction.kind] += times * flops_of(instruction)
    rates = {kind: gpu[rate] for kind, rate in machine_code.WGMMA.items()}
    rates |= {"HMMA": gpu["tensor_flops_per_s"] * gpu["mma_share"], "IMMA": gpu["tensor_int8_per_s"] * gpu["mma_share"]}
    return sum(amount / rates[kind] for kind, amount in flops.items() if amount)
