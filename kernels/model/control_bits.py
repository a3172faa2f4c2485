"""The control bits of machine code for compute capability 7.0 and newer, and what they say of waiting.

Each instruction has 128 bits. Where they stand: Jia et al., arXiv:1804.06826, chapter 2; what they do on an Ampere GPU: Huerta et al.,
arXiv:2503.20481. NVIDIA documents none of it. tests/kernels/control_bits_test.py checks the decoding by what any right
program must do: whoever needs a register that a load fills waits for the load's barrier.
"""

import collections
import dataclasses
import re

# Instructions whose time nobody knows beforehand and that fill a register: each sets a barrier, which whoever needs the register waits for.
VARIABLE = {"LDG", "LD", "LDL", "LDS", "LDSM", "ATOM", "ATOMG", "ATOMS", "SHFL", "MUFU", "S2R", "I2F", "F2I", "POPC"}
GLOBAL_LOADS = {"LDG", "LD"}
STORES = {"STG", "ST", "STS", "STL"}
# Each of these pipes answers in order: of several instructions in a row, ptxas may give a barrier to the last alone.
PIPES = {"LDS": "memory", "LDSM": "memory", "SHFL": "memory", "ATOMS": "memory",
         "MUFU": "special", "FCHK": "special", "I2F": "special", "F2I": "special", "POPC": "special",
         "HMMA": "tensor"}
MEMORY = {"LDG", "LD", "LDL", "LDS", "LDSM", "ATOM", "ATOMG", "ATOMS", "STG", "ST", "STL", "STS", "RED", "REDG", "LDGSTS", "SHFL"}
ELSEWHERE = {"FCHK", "R2UR"}  # fill a predicate or a uniform register
FIXED = {"FFMA", "FADD", "FMUL"}  # four clocks from one to the next that needs it: arXiv:1804.06826, table 4.1


@dataclasses.dataclass(frozen=True)
class Control:
    stall: int  # clocks until the warp may issue its next instruction
    yields: bool  # the next instruction may be of another warp; the bit is 0 then
    sets: int | None  # the barrier that is released when the result is there
    frees: int | None  # the barrier that is released when the operands have been read
    waits: tuple  # barriers that have to be released before it issues
    reuse: int  # operands that are kept for the next instruction, one bit each


def control_of(word):
    """Of an instruction's 128 bits, as a number."""
    bits = word >> 105
    barriers = [(bits >> shift) & 7 for shift in (5, 8)]
    sets, frees = (None if barrier == 7 else barrier for barrier in barriers)
    return Control(bits & 15, not bits >> 4 & 1, sets, frees, tuple(i for i in range(6) if bits >> 11 + i & 1), (bits >> 17) & 15)


def registers_of(instruction, dataflow):
    """(written, read, all that its text names) of an instruction."""
    written, read = dataflow(instruction)
    if instruction.kind in ELSEWHERE:
        written, read = [], [*written, *read]
    named = set(written) | set(read)
    if instruction.kind in STORES:  # the text names the first register of what is stored
        data = re.search(r"R(\d+)(?:\.reuse)?$", instruction.operands)
        if data:
            named |= {int(data[1]) + i for i in range(max(1, instruction.width // 4))}
    return set(written), set(read), named


def excluded(first, second):
    """Whether no lane runs both: @P0 and @!P0."""
    return None not in (first.guard, second.guard) and first.guard != second.guard and first.guard.strip("!") == second.guard.strip("!")


def same_queue(first, second):
    """Whether the first reads its operands before the second fills anything."""
    return MEMORY >= {first.kind, second.kind} or PIPES.get(first.kind, 1) == PIPES.get(second.kind, 2)


def kept_groups(instruction):
    """Of a DEPBAR: (its barrier, how many may be missing)."""
    match = re.match(r"SB(\d), (0x[0-9a-f]+)", instruction.operands)
    return (int(match[1]), int(match[2], 16)) if match else (0, 0)


@dataclasses.dataclass
class Hazards:
    loads: int = 0  # instructions that fill a register at a time that nobody knows beforehand
    without_barrier: list = dataclasses.field(default_factory=list)  # those that set none
    uses: int = 0  # instructions that name such a register, while it may still be empty or waited for just there
    too_early: list = dataclasses.field(default_factory=list)  # (load, use) where nobody has waited
    overwrites: int = 0  # instructions that write a register that an earlier one may not have read yet, or waited for just there
    too_early_overwrites: list = dataclasses.field(default_factory=list)


def hazards(blocks, dataflow):
    """Whether every use of a loaded register waits, on every way through the blocks."""
    found = Hazards()
    arriving = [set() for _ in blocks]  # of (register, barrier, index of the load, "filled" or "read")
    todo, seen = [0], set()
    steps = {}  # of each block: rows that are walked again and again
    for i, block in enumerate(blocks):
        steps[i] = [(row, *registers_of(row, dataflow)) for row in block.instructions]
    while todo:
        i = todo.pop()
        seen.add(i)
        leaving = walk(steps[i], set(arriving[i]), None)
        for to in blocks[i].to:
            if to not in seen or not leaving <= arriving[to]:
                arriving[to] |= leaving
                todo.append(to)
    for i in sorted(seen):
        walk(steps[i], set(arriving[i]), found)
    return found


def walk(rows, pending, found):
    """What is still pending behind these rows; counts into `found` where it is given."""
    for row, written, read, named in rows:
        control, pipe = row.control, PIPES.get(row.kind)
        before = pending
        pending = {item for item in pending if item[1] is None or item[1] not in control.waits}
        if row.kind == "DEPBAR":
            barrier, missing = kept_groups(row)
            if missing == 0:
                pending = {item for item in pending if item[1] != barrier}
        if row.kind == "CALL":  # what it waits for is not looked at
            pending = set()
        if found:
            touched = {item for item in before if item[3] == "filled" and item[0] in named and not excluded(item[2], row) and not
                       (pipe and PIPES.get(item[2].kind) == pipe and item[0] not in read)}  # the same pipe fills it again, later
            found.uses += bool(touched)
            found.too_early += [(item[2], row) for item in touched & pending]
            touched = {item for item in before if item[3] == "read" and item[0] in written and not excluded(item[2], row) and not
                       same_queue(item[2], row)}
            found.overwrites += bool(touched)
            found.too_early_overwrites += [(item[2], row) for item in touched & pending]
        if row.kind in VARIABLE and written:
            if found:
                found.loads += 1
                if control.sets is None:
                    found.without_barrier.append(row)
        if pipe and control.sets is not None:  # it answers after those before it
            pending = {(register, control.sets, source, why) if barrier is None and PIPES.get(source.kind) == pipe
                       else (register, barrier, source, why) for register, barrier, source, why in pending}
        if control.sets is not None or row.kind in VARIABLE:
            pending |= {(register, control.sets, row, "filled") for register in written}
        if control.frees is not None:
            pending |= {(register, control.frees, row, "read") for register in named - written}
    return pending


def fixed_distances(blocks, dataflow):
    """{clocks: how often} from an FFMA, FADD or FMUL to the next such in the same block that needs its result: the stall counts between."""
    found = collections.Counter()
    for block in blocks:
        clock, made = 0, {}  # register: clock of the FFMA that makes it
        for row in block.instructions:
            written, read = dataflow(row)
            if row.kind in FIXED:
                for register in set(read) & made.keys():
                    found[clock - made[register]] += 1
            for register in written:
                made.pop(register, None)
                if row.kind in FIXED:
                    made[register] = clock
            clock += max(1, row.control.stall)
    return found
