"""Nsight Compute's metrics beside what we count (microscope), read from the machine code, or model: which is which, and how near they
should be. tests/kernels/nsight_compute_test.py asks NVIDIA's CUPTI for every name but those that begin with launch__.
"""

import collections
import dataclasses
import functools
import math
import typing

import gpu_model
import machine_code


class Launched:
    """One kernel of a rung, at one shape on one GPU: sums over one of its launches."""

    def __init__(self, symbol, gpu, launch, solution, blocks, counts):
        """`symbol`: as nvcc writes it. `counts`: with static_shared_bytes."""
        self.gpu, self.launch, self.blocks, self.executions, self.counts = gpu, launch, blocks, solution.executions, counts
        self.symbol = symbol
        self.warps = math.ceil(counts["threads_of_block"] / 32)
        self.grid = counts["grid_blocks"] / counts["launches"]
        shared = counts["shared_bytes"] + counts["static_shared_bytes"]
        self.limits = gpu_model.occupancy_limits(gpu, counts["threads_of_block"], launch.registers, shared)

    def of_launch(self, amount):
        """Of what the sampled blocks did together."""
        return amount / self.counts["blocks"] * self.grid

    @functools.cached_property
    def issued(self):
        """{opcode: executions by all warps}"""
        found = collections.Counter()
        for block, times in zip(self.blocks, self.executions):
            for row in block.instructions:
                found[row.kind] += times * self.warps * self.grid
        return found

    def instructions(self, *kinds):
        """Nothing where the kernel has none."""
        return sum(self.issued[kind] for kind in kinds) or None

    @functools.cached_property
    def kinds_of_line(self):
        found = collections.defaultdict(set)
        for block in self.blocks:
            for row in block.instructions:
                found[row.line].add(row.kind)
        return found

    def accesses(self, space, kind, *opcodes):
        """Those on lines that the machine code has one of the opcodes on; of all lines without opcodes."""
        asynchronous = "LDGSTS" in opcodes
        for access in self.counts["accesses"]:
            here = self.kinds_of_line.get(access["where"], set())
            if (access["space"], access["kind"]) != (space, kind) or ("LDGSTS" in here) != asynchronous or machine_code.is_bulk(access):
                continue  # what TMA and wgmma move by themselves is no request of a warp
            if not opcodes or here & set(opcodes):
                yield access

    def total(self, field, space, kind, *opcodes):
        """Nothing where the kernel has no such access."""
        return self.of_launch(sum(access[field] for access in self.accesses(space, kind, *opcodes))) or None

    def ratio(self, kind):
        requests = self.total("requests", "global", kind)
        return (self.total("sectors", "global", kind) or 0) / requests if requests else None

    @functools.cached_property
    def loads(self):
        return gpu_model.shared_loads(self.blocks, self.executions)

    def wavefronts(self, kind, *opcodes):
        return self.of_launch(sum(gpu_model.wavefronts_of(access, self.loads.get(access["where"], {}))
                                  for access in self.accesses("shared", kind, *opcodes))) or None

    def ideal(self, kind):
        """As if all lanes were side by side: 128 bytes each, at least one of a request."""
        return self.of_launch(sum(access["requests"] * max(1, access["bytes"] / 4) for access in self.accesses("shared", kind)))

    def conflicts(self, kind):
        found = self.wavefronts(kind)
        return None if found is None else max(0, found - self.ideal(kind))

    @functools.cached_property
    def reads(self):
        """Sectors that one block reads: (of L1 alone, beyond L1, of DRAM again)."""
        resident = max(1, min(self.launch.occupancy.blocks, math.ceil(self.grid / self.gpu["sms"])))
        first, again = gpu_model.reads_by_level(self.counts, self.gpu, resident)
        return first + again.get("L2", 0) + again.get("DRAM", 0), again.get("DRAM", 0)

    def stored(self):
        return self.of_launch(sum(touches["stores"] for touches in self.counts["touches"].values()))

    def dram(self, field):
        once = sum(min(touches["bytes"], touches[field] * 32 / self.counts["blocks"] * self.counts["grid_blocks"]) for touches in self.counts["touches"].values())
        again = self.counts["grid_blocks"] * self.reads[1] * 32 if field == "first_reads" else 0
        return (once + again) / self.counts["launches"]

    def bound(self, name):
        """Nothing where the counter of that name is of another unit: what wgmma reads is no load of a warp, and int8 has its own."""
        if (name == "L1/shared" and any(self.issued[kind] for kind in machine_code.WGMMA)) or (name == "tensor cores" and self.issued["IMMA"]):
            return None
        return self.launch.bounds.get(name, 0) / self.counts["launches"] or None

    def resident_share(self):
        """Of the warps that an SM has room for, in %."""
        return 100 * self.launch.occupancy.blocks * self.warps / (self.gpu["most_threads"] / 32)


@dataclasses.dataclass(frozen=True)
class Metric:
    name: str  # as Nsight Compute prints it
    ours: str
    section: str  # of the report
    rule: str  # what the measured number is beside ours: a key of RULES
    why: str  # what it means where it is not
    value: typing.Callable | None = None  # of a Launched: nothing where the kernel does none of it
    of_time: bool = False  # a share of the time, in %; the value is the bound's seconds

    @property
    def base(self):
        return self.name.split(".")[0]

    def agrees(self, ours, measured):
        return RULES[self.rule](ours, measured)


RULES = {
    "equal": lambda ours, measured: abs(measured - ours) <= 0.01 * abs(ours),
    "within 10 %": lambda ours, measured: abs(measured - ours) <= 0.1 * abs(ours),
    "at least ours": lambda ours, measured: measured >= 0.99 * ours,
    "at most ours": lambda ours, measured: measured <= 1.01 * ours,
    "to be looked at": lambda ours, measured: True,
}
LAUNCH, OCCUPANCY, INSTRUCTIONS = "Launch Statistics", "Occupancy", "Instruction Statistics"
MEMORY, TABLES, COMPUTE = "Memory Workload Analysis", "Memory Workload Analysis Tables", "Compute Workload Analysis"
SPEED, ROOFLINE = "GPU Speed Of Light Throughput", "GPU Speed Of Light Roofline Chart"
STALLS, SOURCE = "Warp State Statistics", "Source Counters"
MERGED = "nvcc has merged or split loads of the source, or the microscope's lanes met otherwise"
RUNS = "the cheapest executions of the machine code are not those that ran"
PEAK = "the peak that the model takes of this resource is not the GPU's, or its work is another"
L1, SASS = "l1tex__", "smsp__sass_"
LSU = L1 + "t_{}_pipe_lsu_mem_global_op_{}.sum"


def executed(name, ours, *kinds, rule="within 10 %"):
    return Metric(f"{SASS}inst_executed_op_{name}.sum", ours, TABLES, rule, RUNS, lambda here: here.instructions(*kinds))


def floats(name, kind):
    return Metric(f"{SASS}thread_inst_executed_op_{name}_pred_on.sum", f"{kind} of the machine code, times 32 lanes", ROOFLINE, "within 10 %",
                  RUNS + "; fewer: lanes were switched off", lambda here: 32 * here.instructions(kind) if here.instructions(kind) else None)


def limit(name, ours, rule="equal", why="CUDA's rule has changed, or ptxas of another version"):
    return Metric(f"launch__occupancy_limit_{name}", f"blocks of an SM, by {ours}" if ours != "blocks" else "blocks that an SM holds at all",
                  OCCUPANCY, rule, why, lambda here: here.limits[ours])


def share(name, bound, section=COMPUTE):
    return Metric(name, f"bound *{bound}* over the measured time", section, "within 10 %", PEAK, lambda here: here.bound(bound), of_time=True)


METRICS = [
    Metric("gpu__time_duration.sum", "longest bound, in ns", SPEED, "at least ours", "the bound is too long: a peak is higher, or the work less",
           lambda here: 1e9 * here.launch.seconds / here.counts["launches"]),
    Metric("launch__grid_size", "blocks", LAUNCH, "equal", "another shape", lambda here: here.grid),
    Metric("launch__block_size", "threads of a block", LAUNCH, "equal", "another launcher", lambda here: here.counts["threads_of_block"]),
    Metric("launch__registers_per_thread", "registers, by ptxas", LAUNCH, "equal", "another nvcc, or other flags", lambda here: here.launch.registers),
    Metric("launch__shared_mem_per_block_static", "static shared memory", LAUNCH, "equal", "another nvcc", lambda here: here.counts["static_shared_bytes"]),
    Metric("launch__shared_mem_per_block_dynamic", "dynamic shared memory", LAUNCH, "equal", "another launcher", lambda here: here.counts["shared_bytes"]),
    limit("registers", "registers"), 
    limit("shared_mem", "shared memory", "at most ours", "fewer are right: the driver gives shared memory only a part of what there is"),
     limit("warps", "threads"), limit("blocks", "blocks"),
    Metric("sm__warps_active.avg.pct_of_peak_sustained_active", "warps that an SM has room for, in %", OCCUPANCY, "at most ours",
           "far less: blocks end at different times, or the grid is small", lambda here: here.resident_share()),
    Metric("smsp__inst_executed.sum", "instructions, the cheapest way", INSTRUCTIONS, "at least ours", RUNS, lambda here: sum(here.issued.values())),
    executed("global_ld", "LDG and LD of the machine code", "LDG", "LD"), executed("global_st", "STG and ST", "STG", "ST"),
    executed("ldgsts", "LDGSTS, which `cp.async` becomes", "LDGSTS"), executed("global_red", "RED: an atomic without a result", "RED", "REDG"),
    executed("global_atom", "ATOMG: an atomic with a result", "ATOM", "ATOMG"),
    executed("shared_ld", "LDS", "LDS"), executed("shared_st", "STS", "STS"), executed("ldsm", "LDSM, which `ldmatrix` becomes", "LDSM"),
    executed("shared_atom", "ATOMS", "ATOMS"),
    Metric(f"{SASS}inst_executed_op_local.sum", "LDL and STL: spills and arrays of a thread", TABLES, "equal", "nvcc of another version spills",
           lambda here: here.issued["LDL"] + here.issued["STL"]),
    floats("ffma", "FFMA"), floats("fadd", "FADD"), floats("fmul", "FMUL"),
    Metric("sm__inst_executed_pipe_tensor_op_hmma.sum", "HMMA, which `mma.sync` becomes", COMPUTE, "within 10 %", RUNS, lambda here: here.instructions("HMMA")),
    Metric(LSU.format("requests", "ld"), "requests of global loads", TABLES, "equal", MERGED, lambda here: here.total("requests", "global", "load")),
    Metric(LSU.format("requests", "st"), "requests of global stores", TABLES, "equal", MERGED, lambda here: here.total("requests", "global", "store")),
    Metric(LSU.format("sectors", "ld"), "sectors of global loads", TABLES, "equal", MERGED, lambda here: here.total("sectors", "global", "load")),
    Metric(LSU.format("sectors", "st"), "sectors of global stores", TABLES, "equal", MERGED, lambda here: here.total("sectors", "global", "store")),
    Metric(LSU.format("sectors", "red"), "sectors of atomics without a result", TABLES, "equal", "a GPU counts a sector for each lane or address",
           lambda here: here.total("sectors", "global", "atomic", "RED", "REDG")),
    Metric(LSU.format("sectors", "atom"), "sectors of atomics with a result", TABLES, "equal", "a GPU counts a sector for each lane or address",
           lambda here: here.total("sectors", "global", "atomic", "ATOM", "ATOMG")),
    Metric(SASS + "l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum", "sectors of `cp.async`", SOURCE, "equal", MERGED,
           lambda here: here.total("sectors", "global", "load", "LDGSTS")),
    Metric(L1 + "average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", "*load*: sectors of a request", TABLES, "equal", MERGED, lambda here: here.ratio("load")),
    Metric(L1 + "average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio", "*store*: sectors of a request", TABLES, "equal", MERGED, lambda here: here.ratio("store")),
    Metric(L1 + "data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "wavefronts of shared loads, as wide as in the machine code", TABLES, "within 10 %",
           "the passes of 8 and 16 bytes a lane are counted otherwise", lambda here: here.wavefronts("load")),
    Metric(L1 + "data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "wavefronts of shared stores", TABLES, "within 10 %",
           "the passes of 8 and 16 bytes a lane are counted otherwise", lambda here: here.wavefronts("store")),
    Metric(L1 + "data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "wavefronts of shared loads, less those of lanes side by side", TABLES, "at least ours",
           "the padding or swizzle works otherwise on a GPU", lambda here: here.conflicts("load")),
    Metric(L1 + "data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "the same of stores", TABLES, "at least ours",
           "the padding or swizzle works otherwise on a GPU", lambda here: here.conflicts("store")),
    Metric("lts__t_sectors_srcunit_tex_op_read.sum", "sectors that L1 does not have", TABLES, "within 10 %", "L1 keeps more or less than an equal part for each block",
           lambda here: here.reads[0] * here.grid or None),
    Metric("lts__t_sectors_srcunit_tex_op_write.sum", "sectors of stores", TABLES, "within 10 %", "stores of several requests are joined, or lines go out in parts",
           lambda here: here.stored() or None),
    Metric("dram__bytes_read.sum", "each sector read once, and what L2 has lost", TABLES, "within 10 %",
           "more: L2 loses more, or DRAM is read in 64 bytes; fewer: it was in L2 before", lambda here: here.dram("first_reads")),
    Metric("dram__bytes_write.sum", "each sector written once", TABLES, "at most ours", "more: half lines are sent before they are full; what L2 keeps is not yet written",
           lambda here: here.dram("written")),
    share("smsp__issue_active.avg.pct_of_peak_sustained_elapsed", "issue"),
    share("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed", "FP32"),
    share("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed", "integers"),
    share("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed", "special"),
    share("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed", "tensor cores"),
    share("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", "L1/shared", MEMORY),
    share("l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed", "requests", MEMORY),
    share("lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "L2", MEMORY),
    share("dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM", MEMORY),
    Metric("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "bound *latency*: no number of ours", STALLS, "to be looked at",
           "the largest stall: too few bytes on their way"),
    Metric("smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "*barriers* of the page: no number of ours", STALLS, "to be looked at",
           "the largest stall: a block waits for its slowest warp"),
    Metric("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "stall counts of the control bits", STALLS, "to be looked at",
           "the largest stall: too few warps for a chain of arithmetic"),
]
