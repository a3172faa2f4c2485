"""The machine code of a kernel as basic blocks, and how often each runs: what the microscope counted, in its cheapest way.

The microscope counts the source: bytes that each line loads and stores, shuffles, barriers and products of its warps, and
how often each line runs. The compiler unrolls, merges and moves, so that a line may stand in several blocks. Of all
executions of the blocks' graph that agree with the counts, the one with the fewest instructions is taken, by a linear
programme: a lower bound. What cannot be met is listed.
"""

import collections
import dataclasses
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common" / "tools"))
from programs import refuse

import control_bits

try:
    import numpy
    import scipy.optimize
    import scipy.sparse
    import scipy.sparse.csgraph
except ImportError as error:
    refuse(f"{sys.executable} has no {error.name}; to fix: run it with .venv/bin/python, after ./tenfold setup tests")

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
FRAME = re.compile(r'^\s*//## File "([^"]+)", line (\d+)(?: inlined at "([^"]+)", line (\d+))?')
LABEL = re.compile(r"^(\.L_\w+|\$\S+):")
WORD = re.compile(r"/\* 0x([0-9a-f]{16}) \*/\s*$")  # half of an instruction's bits, the lower half on its own line
FUNCTION = re.compile(r"^\.text\.(\S+):")
WARPGROUP = 4  # warps that issue a wgmma together
WGMMA = {"HGMMA": "tensor_flops_per_s", "QGMMA": "tensor_fp8_per_s", "IGMMA": "tensor_int8_per_s"}  # of 16 bits, fp8 and int8, with its rate
kPrice = 5  # of a line that runs once too often or too seldom, over its instructions
WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@dataclasses.dataclass(eq=False)
class Instruction:
    address: int
    guard: str | None
    name: str  # LDG.E.128.CONSTANT
    operands: str
    line: str | None  # "kernels/rows.cuh:98"
    control: control_bits.Control | None = None  # of a disassembly with -hex

    @property
    def kind(self):
        return self.name.split(".")[0]

    @property
    def width(self):
        """Bytes of a lane."""
        parts = self.name.split(".")[1:]
        return next((WIDTHS[part] for part in parts if part in WIDTHS), 4)


@dataclasses.dataclass
class Block:
    address: int
    label: str
    instructions: list
    to: list = dataclasses.field(default_factory=list)  # indices of blocks
    meets: int | None = None  # of a BSSY: the block where its lanes meet again


def kernel_line(frames):
    """The innermost line of a kernel's source, as the microscope names it."""
    for path, line in frames:
        match = re.search(r"(?:^|/)(kernels/(?:\w+/)?\w+\.\w+)$", path)
        if match and not match[1].startswith(("kernels/launch.cuh", "kernels/ptx")):
            return f"{match[1]}:{line}"
    return None


def functions_of(text):
    """{symbol: [Block]} of nvdisasm -gi -c, with or without -hex; the first block is the entry."""
    found = {}
    symbol, rows, labels, frames, fresh = None, [], {}, [], True
    waiting, lower = [], None

    def close():
        if symbol is not None and rows:
            found[symbol] = blocks_of(rows, labels)

    for raw in text.splitlines():
        if match := FUNCTION.match(raw):
            close()
            symbol, rows, labels, frames, waiting = match[1], [], {}, [], []
        elif symbol is None:
            continue
        elif raw.startswith("//-----") or raw.startswith("\t.section"):
            close()
            symbol = None
        elif match := FRAME.match(raw):
            if fresh:
                frames, fresh = [], False
            frames.append((match[1], int(match[2])))
        elif match := LABEL.match(raw):
            waiting.append(match[1])
        elif match := INSTRUCTION.match(raw):
            for label in waiting:
                labels[label] = len(rows)
            waiting, fresh = [], True
            rows.append(Instruction(int(match[1], 16), match[2], match[3], match[4].strip(), kernel_line(frames)))
            lower = WORD.search(raw)
        elif lower and (upper := WORD.search(raw)):
            rows[-1].control, lower = control_bits.control_of(int(upper[1] + lower[1], 16)), None
    close()
    return found


def target_of(instruction):
    match = re.search(r"`\((\.L_\w+)\)", instruction.operands)
    return match[1] if match else None


def is_long_jump(instruction):
    """ptxas jumps far by a call that never returns: to a label of the kernel itself, where a function would have a name."""
    return instruction.name == "CALL.REL.NOINC" and target_of(instruction) is not None


def blocks_of(rows, labels):
    ends = {"BRA", "EXIT", "RET", "BSYNC", "BRX", "JMP", "BSSY"}
    begins = {0} | set(labels.values()) | {i + 1 for i, row in enumerate(rows[:-1]) if row.kind in ends or is_long_jump(row)}
    starts = sorted(begins)
    names = {index: label for label, index in labels.items()}
    blocks = [Block(rows[begin].address, names.get(begin, ""), rows[begin:end])
              for begin, end in zip(starts, starts[1:] + [len(rows)])]
    at = {begin: i for i, begin in enumerate(starts)}
    by_label = {label: at[index] for label, index in labels.items()}
    regions = []  # of BSSY: register, block, block where the lanes meet
    for i, block in enumerate(blocks):
        last = block.instructions[-1]
        if last.kind == "BSSY":
            block.meets = by_label.get(target_of(last))
            regions.append((last.operands.split(",")[0].strip(), i, block.meets))
    for i, block in enumerate(blocks):
        last, following = block.instructions[-1], [i + 1] if i + 1 < len(blocks) else []
        if last.kind == "BRA":
            to = by_label.get(target_of(last))
            if ".U.ANY" in last.name and to == i:
                to = None  # once more for each lane that asks for a box: one does
            conditional = last.guard is not None or ".DIV" in last.name or re.match(r"!?U?P\w", last.operands)
            block.to = ([to] if to is not None else []) + (following if conditional else [])
        elif is_long_jump(last):
            block.to = [by_label[target_of(last)]] + (following if last.guard is not None else [])
        elif last.kind in ("EXIT", "RET"):
            block.to = following if last.guard is not None else []
        elif last.kind == "BSYNC":
            register = last.operands.split(",")[0].strip()
            meets = [meet for name, begin, meet in regions if name == register and begin < i < (meet or 0) + 1]
            block.to = [min(meets)] if meets else following
            if last.guard is not None:
                block.to += following
        else:
            block.to = following
    return blocks


def classes_of(instruction):
    """[(class, amount)] of what the microscope counts: bytes of a lane, or operations."""
    kind, width = instruction.kind, instruction.width
    if kind in ("LDG", "LD"):
        return [("global load", width)]
    if kind in ("STG", "ST"):
        return [("global store", width)]
    if kind == "LDS":
        return [("shared load", width)]
    if kind == "STS":
        return [("shared store", width)]
    if kind == "LDGSTS":
        parts = instruction.name.split(".")  # not "LTC128B", which says what L2 fetches
        width = 16 if "128" in parts else 8 if "64" in parts else 4
        return [("global load", width), ("shared store", width)]
    if kind == "BAR" and "," in instruction.operands:  # of so many threads
        return [("named barrier " + ("arrival" if ".ARV" in instruction.name else "wait"), 1)]
    if kind == "WARPGROUP" and "DEPBAR" in instruction.name:
        return [("wgmma wait", 1)]
    if kind in ("ATOMG", "RED", "REDG", "ATOM"):
        return [("global atomic", width)]
    if kind == "ATOMS":
        return [("shared atomic", width)]
    return {"SHFL": [("shuffle", 1)], "BAR": [("barrier", 1)], "HMMA": [("mma", 1)], "IMMA": [("mma", 1)], "LDSM": [("ldmatrix", 1)],
            "VOTE": [("vote", 1)], **{name: [("wgmma", 1)] for name in WGMMA}, "UTMASTG": [("TMA store", 1)],
            "UTMALDG": [("TMA multicast" if "MULTICAST" in instruction.name else "TMA copy", 1)]}.get(kind, [])


# Counted of lanes, tried again, or made of several instructions: how often they run is known of their lines alone.
UNSEEN = {"mbarrier arrival", "mbarrier wait", "cluster barrier", "warp barrier"}
BULK = 16  # bytes: an access of more is a box of TMA, or an operand that wgmma reads by itself


def is_bulk(access):
    return access["bytes"] > BULK


class NoSolution(Exception):
    """No executions of the blocks' graph agree with the counts."""


@dataclasses.dataclass
class Solution:
    executions: list  # of each block, for one warp
    unmet: list  # (what, counted, found)
    instructions: float


def reachable(blocks, start=0):
    seen, todo = {start}, [start]
    while todo:
        for to in blocks[todo.pop()].to:
            if to not in seen:
                seen.add(to)
                todo.append(to)
    return seen


def products_of(counts, blocks):
    """HMMA or IMMA for each product that the microscope counts: of int8, a quarter of it where the GPU's instruction is 8 x 8 x 16; of
    e4m3, whose product is 32 deep, those of fp16 that it is widened for, by ptxas or by kernels/ptx_8bit.cuh."""
    names = {instruction.name.split(".")[1] for block in blocks for instruction in block.instructions if instruction.kind in ("HMMA", "IMMA")}
    return 4 if "8816" in names else 1 if "__nv_fp8_e4m3" not in counts.get("symbol", "") else 2 if "16816" in names else 4


def place_of(line, name):
    """Products and their loads are moved among each other so far that their lines mean little: of a kernel as a whole."""
    return "all" if name in ("mma", "ldmatrix", "wgmma", "TMA copy", "TMA multicast") else line


def parted_blocks(blocks):
    """Where lanes may have parted that meet again: from a BSSY to its BSYNC."""
    return {i for begin, block in enumerate(blocks) if block.meets is not None for i in range(begin + 1, block.meets)}


def copies_of(line):
    """({block: how many times it has the line}, instructions of one time). The compiler unrolls, and moves some of a line's
    instructions elsewhere: that operation tells the copies which no block has more often, and most blocks have."""
    operations = {kind for kinds in line.values() for kind in kinds}
    anchor = min(operations, key=lambda kind: (max(kinds[kind] for kinds in line.values()),
                                               -sum(kinds[kind] > 0 for kinds in line.values()), kind))
    copies = {i: kinds[anchor] for i, kinds in line.items() if kinds[anchor]}
    return copies, min(sum(line[i].values()) / number for i, number in copies.items())


def loops_of(blocks):
    """Of each block, the number of its loop: blocks that reach each other. Outside of loops it is alone."""
    edges = [(i, to) for i, block in enumerate(blocks) for to in block.to]
    graph = scipy.sparse.csr_matrix(([1] * len(edges), list(zip(*edges))) if edges else None, shape=(len(blocks), len(blocks)))
    return list(scipy.sparse.csgraph.connected_components(graph, connection="strong")[1])


def most_in_loop(blocks, executions):
    """Of each block, the executions of the block that ran most in the same loop; at least 1."""
    loops = loops_of(blocks)
    most = collections.defaultdict(float)
    for loop, times in zip(loops, executions):
        most[loop] = max(most[loop], times)
    return [max(1, most[loop]) for loop in loops]


def solve(blocks, counts):
    """`counts`: what the kernel's program counted, for one kernel. Throws NoSolution."""
    warps = counts["warps"]
    of_block = counts["threads_of_block"] / 32
    live = reachable(blocks)
    # What was counted, per warp.
    wanted = collections.Counter()
    for access in counts["accesses"]:
        if not is_bulk(access):  # those are operations, too
            wanted[access["where"], f"{access['space']} {access['kind']}"] += access["requests"] * access["bytes"] / warps
    matrices = {operation["where"] for operation in counts["operations"] if operation["name"] == "ldmatrix"}
    for operation in counts["operations"]:
        if operation["name"] in UNSEEN:
            continue
        each = {"barrier": of_block, "wgmma": WARPGROUP, "mma": products_of(counts, blocks)}.get(operation["name"], 1)
        wanted[place_of(operation["where"], operation["name"]), operation["name"]] += operation["count"] * each / warps
    for where in matrices:  # ldmatrix is counted as itself
        wanted.pop((where, "shared load"), None)
    lines = {line["where"]: line["issues"] / warps for line in counts["lines"]}

    given = collections.defaultdict(lambda: collections.Counter())  # (line, class) -> block -> amount
    on_line = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))  # line -> block -> opcodes
    for i, block in enumerate(blocks):
        for instruction in block.instructions:
            if i in live and instruction.line:
                on_line[instruction.line][i][instruction.kind] += 1
                for name, amount in classes_of(instruction):
                    given[place_of(instruction.line, name), name][i] += amount

    columns, cost = {}, []

    def column(key, weight):
        columns[key] = len(cost)
        cost.append(weight)
        return columns[key]

    for i, block in enumerate(blocks):
        column(("block", i), len(block.instructions))
        for to in set(block.to):
            column(("edge", i, to), 0)
    rows, low, high = [], [], []

    def row(entries, least, most):
        rows.append(entries)
        low.append(least)
        high.append(most)

    into = collections.defaultdict(list)
    for i, block in enumerate(blocks):
        for to in set(block.to):
            into[to].append(i)
    meeting = collections.defaultdict(list)
    for i, block in enumerate(blocks):
        if block.meets is not None:
            meeting[block.meets].append(i)
    infinity = numpy.inf
    # wgmma wants whole warps: ptxas lets their lanes part between BSSY and BSYNC alone.
    together, parted = any(i.kind in WGMMA for block in blocks for i in block.instructions), parted_blocks(blocks)
    for i, block in enumerate(blocks):
        x = columns["block", i]
        if i not in live:
            row({x: 1}, 0, 0)
            continue
        out = [columns["edge", i, to] for to in set(block.to)]
        last = block.instructions[-1]
        if len(out) == 1:
            row({x: 1, out[0]: -1}, 0, infinity if last.guard is not None and ".U.ANY" not in last.name else 0)
        elif len(out) == 2:
            for edge in out:
                row({x: 1, edge: -1}, 0, infinity)
            divergent = last.guard is not None and "UP" not in last.guard and (not together or i in parted)
            row({out[0]: 1, out[1]: 1, x: -1}, 0, infinity if divergent else 0)
        arriving = {columns["edge", j, i]: 1 for j in into[i]}
        start = 1 if i == 0 else 0
        if i in meeting:
            first = min(meeting[i])
            entries = {x: -1}
            for j in meeting[i]:
                entries[columns["block", j]] = entries.get(columns["block", j], 0) + 1
            for j in into[i]:
                if not first <= j < i:
                    entries[columns["edge", j, i]] = 1
            row(entries, -start, -start)
            row(dict(arriving) | {x: -1}, -start, infinity)
        else:
            row(dict(arriving) | {x: -1}, -start, -start)

    checks = []
    for (line, name), amount in sorted(wanted.items()):
        blocks_with = given.get((line, name))
        if not blocks_with:
            checks.append((f"{line} {name}", amount, {}))
            continue
        # A class's unit costs more than the instructions around it: it is met before anything is saved.
        missing = column(("missing", line, name), 1000 / max(blocks_with.values()))
        entries = {columns["block", i]: each for i, each in blocks_with.items()}
        row(entries | {missing: 1}, amount, infinity)
        checks.append((f"{line} {name}", amount, blocks_with))
    def cheapest():
        matrix = scipy.sparse.lil_matrix((len(rows), len(cost)))
        for i, entries in enumerate(rows):
            for j, value in entries.items():
                matrix[i, j] = value
        found = scipy.optimize.milp(cost, constraints=scipy.optimize.LinearConstraint(matrix.tocsr(), low, high),
                                    bounds=scipy.optimize.Bounds(0, infinity))
        if found.x is None:
            raise NoSolution(f"no way through the machine code agrees with the counts: {found.message}; to fix: see whether "
                             "blocks_of in kernels/model/machine_code.py knows all of its jumps")
        return found.x

    # First what memory, shuffles, barriers and products say, where no line may run more often than it did. Then the lines
    # decide between the ways that are left; but not those of a loop that is gone by unrolling: they ran more often than
    # anything that is left of them.
    placed = {line: copies_of(on_line[line]) for line in lines if on_line.get(line)}
    for line, (copies, each) in sorted(placed.items()):
        excess = column(("excess", line), kPrice * each)
        row({columns["block", i]: number for i, number in copies.items()} | {excess: -1}, 0, lines[line])
    first = cheapest()
    most = most_in_loop(blocks, [first[columns["block", i]] for i in range(len(blocks))])
    for what, amount, blocks_with in checks:  # no more bytes than then, either
        if blocks_with:
            got = sum(first[columns["block", i]] * each for i, each in blocks_with.items())
            row({columns["block", i]: each for i, each in blocks_with.items()}, 0, max(amount, got) * 1.001)
    for line, (copies, each) in sorted(placed.items()):
        if lines[line] > 1.5 * sum(number * most[i] for i, number in copies.items()):
            continue
        missing = column(("missing", line), kPrice * each)
        row({columns["block", i]: number for i, number in copies.items()} | {missing: 1}, lines[line], infinity)
    found = cheapest()
    executions = [found[columns["block", i]] for i in range(len(blocks))]
    unmet = []
    for what, amount, blocks_with in checks:
        got = sum(executions[i] * each for i, each in blocks_with.items())
        if abs(got - amount) > 0.01 * amount:
            unmet.append((what, amount, got))
    return Solution(executions, unmet, sum(x * len(b.instructions) for x, b in zip(executions, blocks)))
