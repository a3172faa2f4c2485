"""A warp by itself: what each instruction waits for, and how long the warp takes for its blocks of machine code."""

import collections
import dataclasses
import math
import re

import machine_code

ARITHMETIC_CLOCKS = 4  # from one arithmetic instruction to the next that needs it: Jia et al., arXiv:1804.06826, table 4.1
SCHEDULERS = 4  # of an SM; each issues one instruction of a warp in a clock
MEMORY = {"LDG", "LD", "LDS", "LDSM", "ATOMG", "ATOM", "ATOMS", "LDL"}
STORES = {"STG", "ST", "STS", "STL", "RED", "REDG", "LDGSTS"}
WRITES_NOTHING = {"STG", "ST", "STS", "RED", "REDG", "BAR", "BRA", "EXIT", "RET", "BSSY", "BSYNC", "LDGSTS", "LDGDEPBAR", "DEPBAR", "NOP",
                  "WARPSYNC", "MEMBAR", "ERRBAR", "CCTL", "ISETP", "FSETP", "PLOP3", "VOTEU", "UISETP",
                  *machine_code.WGMMA, "WARPGROUP", "UTMALDG", "UTMASTG", "SYNCS"}
VARIABLE = {"MUFU", "SHFL", "F2F", "F2I", "I2F", "HMMA", "IMMA", "VOTE", "S2R", "POPC"}  # take as long as shared memory, about
# A box of TMA is there so many clocks later than a load: measured on an H800 in L2 (369.1 and 264.5) and in DRAM (704.3 and 599.5), in
# NewFeatures/TMA/Latency/tma_lat_random of https://github.com/HPMLL/NVIDIA-Hopper-Benchmark/tree/ded6f57, h800_tma.txt and h800_pcie.txt
BOX_CLOCKS = 104.7
BEHIND = 12  # blocks of machine code that a warp has run before, where products may still be under way from them


def registers_of(text):
    """Numbers of the 32-bit registers that an operand names; .64 names two."""
    found = []
    for number, wide in re.findall(r"\bR(\d+)(\.64)?", text):
        found += [int(number)] + ([int(number) + 1] if wide else [])
    return found


def dataflow(instruction):
    """(registers written, registers read) of one instruction."""
    operands = [part.strip() for part in instruction.operands.split(",")]
    name, kind = instruction.name, instruction.kind
    if kind in WRITES_NOTHING:
        return [], registers_of(instruction.operands)
    at = next((i for i, part in enumerate(operands) if re.match(r"R(\d+|Z)\b", part)), None)
    if at is None or operands[at].startswith("RZ"):  # an atomic whose result nobody wants: what follows is read
        return [], registers_of(instruction.operands)
    first = registers_of(operands[at])[0]
    many = 1
    if kind in ("LDG", "LD", "LDS", "LDL"):
        many = max(1, instruction.width // 4)
    elif kind == "LDSM":
        many = int(name.rsplit(".", 1)[1]) if name.rsplit(".", 1)[1].isdigit() else 4
    elif ".WIDE" in name:
        many = 2
    read = []
    for i, part in enumerate(operands):
        if i == at:
            continue
        of_part = registers_of(part)
        if kind == "HMMA" and of_part:
            wide = {at + 1: 4 if "16816" in name or "1688.F32.TF32" in name else 2, at + 2: 2 if "16816" in name else 1, at + 3: 4}.get(i, 1)
            of_part = [of_part[0] + j for j in range(wide)]
        elif kind == "IMMA" and of_part:
            wide = dict(zip((at + 1, at + 2, at + 3), (4, 2, 4) if "16832" in name else (1, 1, 2))).get(i, 1)
            of_part = [of_part[0] + j for j in range(wide)]
        read += of_part
    if kind == "HMMA":
        many = 4 if ".F32" in name else 2
    elif kind == "IMMA":
        many = 4 if "16832" in name else 2
    return [first + j for j in range(many)], read


def groups_left(instruction):
    """How many groups of copies may be under way behind DEPBAR.LE SB0, 0x2: cp.async.wait_group 2."""
    number = re.search(r",\s*(0x[0-9a-f]+)", instruction.operands)
    return int(number[1], 16) if number else 0


class Warp:
    """One warp by itself: each instruction waits for its operands, so that loads that need nothing of each other overlap."""

    def __init__(self, gpu, load_latency, box_clocks=0, together=1):
        """`box_clocks`: of a wait for boxes that the warp's own block has asked for; `together`: warpgroups that multiply at once."""
        self.gpu, self.load_latency, self.box_clocks, self.together = gpu, load_latency, box_clocks, together
        self.products, self.product_groups = 0, []  # when the tensor cores are done; when each group of wgmma is
        self.clock, self.ready = 0, {}
        self.copies, self.groups = 0, []  # when the last copy is there that no group has yet; when each group is

    def run(self, block):
        for instruction in block.instructions:
            kind = instruction.kind
            written, read = dataflow(instruction)
            at = max([self.clock + 1] + [self.ready.get(register, 0) for register in read + written])
            if kind == "DEPBAR":  # waits for all groups but the last few
                at = max([at] + self.groups[:max(0, len(self.groups) - groups_left(instruction))])
            elif kind == "WARPGROUP" and "DEPBAR" in instruction.name:
                at = max([at] + self.product_groups[:max(0, len(self.product_groups) - groups_left(instruction))])
            elif kind == "SYNCS" and "TRYWAIT" in instruction.name:
                at += self.box_clocks
            self.clock = at
            latency = self.latency(kind)
            if kind in machine_code.WGMMA:  # runs on by itself
                self.products = max(at, self.products) + self.together * wgmma_clocks(self.gpu, instruction)
                if "gsb" in instruction.operands:
                    self.product_groups.append(self.products)
            if kind == "LDGSTS":
                self.copies = at + self.load_latency
            elif kind == "LDGDEPBAR":  # a group of what was copied since the last, and no wait
                self.groups.append(self.copies)
            for register in written:
                self.ready[register] = at + latency

    def latency(self, kind):
        if kind in ("LDG", "LD", "ATOMG", "ATOM"):
            return self.load_latency
        if kind in MEMORY or kind in VARIABLE:
            return self.gpu["shared_latency"]
        return ARITHMETIC_CLOCKS


def wgmma_clocks(gpu, instruction):
    """Of the tensor core in one of an SM's quarters, which has one warp of the warpgroup. wgmma has NVIDIA's dense rate, 4,096 FLOP a
    clock and SM (https://github.com/NVIDIA/cudnn-frontend/pull/650): 128 clocks for 64 x 256 x 16."""
    return flops_of(instruction) / (gpu[machine_code.WGMMA[instruction.kind]] / gpu["sms"] / SCHEDULERS / gpu["clock_hz"])


def clocks_of_blocks(blocks, executions, chain, warp_of):
    """{block: clocks of one run}. Each is run behind the one that most often comes before it, itself in a loop of one block; behind so
    many of them."""
    before = {}
    for i, block in enumerate(blocks):
        for to in set(block.to):
            if executions[i] > 0 and (to not in before or min(executions[i], executions[to]) >= min(executions[before[to]], executions[to])):
                if to != i and to in before and before[to] == to:
                    continue  # a loop of one block follows itself
                before[to] = i
    clocks = {}
    for i, block in enumerate(blocks):
        if executions[i] <= 0:
            continue
        behind = [i]
        while len(behind) <= chain and behind[0] in before:
            behind.insert(0, before[behind[0]])
        warp = warp_of(i)
        for j in behind[:-1]:
            warp.run(blocks[j])
        began = warp.clock
        warp.run(block)
        clocks[i] = warp.clock - began
    return clocks


def clocks_of_warp(blocks, executions, gpu, load_latency):
    """Of a warp by itself, the mean of all."""
    clocks = clocks_of_blocks(blocks, executions, 1, lambda _: Warp(gpu, load_latency))
    return sum(executions[i] * of_one for i, of_one in clocks.items())


@dataclasses.dataclass
class Boxes:
    """What a kernel's TMA copies bring to one block."""
    bytes: float
    latency: float  # clocks


def multipliers(blocks, counts):
    """(where their code begins, which share of a block's warps they are): those that take registers (setmaxnreg), where warps have parts;
    nothing where all do the same. The microscope has no such instruction: the line behind it says how many warps came there."""
    for i, block in enumerate(blocks):
        for instruction in block.instructions:
            if instruction.name.startswith("USETMAXREG.TRY_ALLOC"):
                file, _, number = instruction.line.rpartition(":")
                behind = [(int(at), line["issues"]) for line in counts["lines"] for place, _, at in [line["where"].rpartition(":")]
                          if place == file and int(at) >= int(number)]
                return i, min(behind)[1] / counts["warps"]
    return None


def clocks_of_multiplier(blocks, executions, gpu, load_latency, counts, boxes):
    """Of a warp that multiplies by wgmma, by itself. What another warp brings is taken to be there when it waits. Where warps have no
    parts, each wait is for boxes that the block has just asked for: their latency, and their bytes at the SM's part of L2's rate;
    then all multiply, so that their products come one after the other."""
    parts = multipliers(blocks, counts)
    if parts is not None:
        begin, share = parts
        clocks = clocks_of_blocks(blocks, executions, BEHIND, lambda _: Warp(gpu, load_latency))
        return sum(executions[i] * clocks[i] for i in machine_code.reachable(blocks, begin) if i in clocks) / share

    def tries_again(i):
        return i in blocks[i].to

    waits = sum(executions[i] for i, block in enumerate(blocks) if not tries_again(i)
                for instruction in block.instructions if "TRYWAIT" in instruction.name)
    wait = boxes.latency + boxes.bytes / max(1, waits) / (gpu["l2_bytes_per_s"] / gpu["sms"] / gpu["clock_hz"])
    together = counts["threads_of_block"] / 32 / machine_code.WARPGROUP
    clocks = clocks_of_blocks(blocks, executions, BEHIND, lambda i: Warp(gpu, load_latency, 0 if tries_again(i) else wait, together))
    return sum(executions[i] * of_one for i, of_one in clocks.items())


def flops_of(instruction):
    """Of a warp: HMMA.16816, HMMA.1688, IMMA.16832, IMMA.8816; HGMMA.64x256x16, of which a warp has a quarter."""
    if instruction.kind == "HMMA":
        return 2 * 16 * 8 * (16 if "16816" in instruction.name else 8)
    if instruction.kind == "IMMA":
        return 2 * math.prod(IMMA_SIZES[instruction.name.split(".")[1]])
    if instruction.kind in machine_code.WGMMA:
        return 2 * math.prod(map(int, instruction.name.split(".")[1].split("x"))) / machine_code.WARPGROUP
    return 0


IMMA_SIZES = {"16832": (16, 8, 32), "8816": (8, 8, 16)}
