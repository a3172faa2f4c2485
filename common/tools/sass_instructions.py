"""How many machine instructions an element costs in the two rungs of kernels/fast_math, for every architecture.

usage: sass_instructions.py [--nvcc NVCC] [--cuobjdump CUOBJDUMP] [--archs "7.5;8.0;9.0;10.0"] [--check]

Compiles kernels/fast_math/fast_math.cu, disassembles it and writes kernels/fast_math/sass_instructions.h. Needs no GPU.
cuobjdump comes with the CUDA toolkit and, with nvdisasm, with Triton, which torch brings along. --check compares only.

What is counted is the shortest path through the code of one thread: from its first instruction through the store of its result to
its end, with one evaluation on the way; and the shortest way around the loop that evaluates again. Library functions have
branches for rare arguments (huge angles, subnormal numbers), which the shortest path leaves out. Where common arguments branch too, it
takes the shorter side: it is the least that an element can cost. A predicated instruction counts, whether or not it takes effect:
it is issued.
Special instructions are those of the special function unit (MUFU), which serves fewer lanes in a clock.
"""

import argparse
import collections
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
source = root / "kernels" / "fast_math"
target = source / "sass_instructions.h"
# In the order of MathFunction.
functions = ["copy", "exponential", "sine", "sigmoid", "gelu", "inverse_root"]

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);")
KERNEL = re.compile(r"Function : \S*math_by_(library|intrinsics)IL\w*?MathFunctionE(\d)E")


class Code:
    """The instructions of one kernel, by address, and which can follow which."""

    def __init__(self, text):
        found = [(int(at, 16), bool(guard), name, rest) for at, guard, name, rest in INSTRUCTION.findall(text)]
        self.names = {at: name for at, _, name, _ in found}
        following = dict(zip(list(self.names), list(self.names)[1:]))
        self.next, self.jumps_back = {}, []
        for at, guarded, name, rest in found:
            kind, to = name.split(".")[0], []
            if kind == "BRA":
                to.append(int(re.search(r"0x([0-9a-f]+)", rest)[1], 16))
                if to[0] < at:
                    self.jumps_back.append((at, to[0]))
            elif kind in ("BRX", "JMP", "JMX", "BRXU"):
                sys.exit(f"{name} at {at:#x}: a jump that this script cannot follow")
            # What a call returns to is not known here, and only rare cases call: a path ends there.
            if guarded or kind not in ("BRA", "EXIT", "CALL", "RET"):
                to.append(following.get(at))
            self.next[at] = [place for place in to if place is not None]

    def shortest(self, begin, end):
        """The instructions on the way from `begin` to `end`, both among them; none where there is no way."""
        before, todo = {begin: None}, collections.deque([begin])
        while todo and end not in before:
            at = todo.popleft()
            for to in self.next[at]:
                if to not in before:
                    before[to] = at
                    todo.append(to)
        way = [end] if end in before else []
        while way and before[way[-1]] is not None:
            way.append(before[way[-1]])
        return way

    def counts(self):
        """[instructions, special ones among them] of the first evaluation with all around it, and of one more."""
        first = min(self.names)
        stores = [at for at, name in self.names.items() if name.startswith("STG")]
        ends = [at for at, name in self.names.items() if name == "EXIT" and not self.next[at]]
        ways = [to_store + self.shortest(s, e)[:-1] for s in stores for e in ends
                if (to_store := self.shortest(first, s)) and self.shortest(s, e)]
        # The loop over repeats is the widest; those inside it reduce huge angles.
        _, at, to = max((at - to, at, to) for at, to in self.jumps_back)
        around = self.shortest(to, at)
        if not ways or not around:
            sys.exit("no way through the code without a call")
        return [number for way in (min(ways, key=len), around) for number in (len(way), sum(self.names[i].startswith("MUFU") for i in way))]


def find_cuobjdump(given, nvcc):
    triton = root / ".venv/lib"
    places = [given, shutil.which("cuobjdump"), pathlib.Path(nvcc).parent / "cuobjdump",
              *triton.glob("python*/site-packages/triton/backends/nvidia/bin/cuobjdump")]
    for place in places:
        if place and os.access(place, os.X_OK):
            return str(place)
    sys.exit("no cuobjdump; name one with --cuobjdump")


def counts_on(nvcc, cuobjdump, arch):
    """{(rung, function): counts} for one architecture."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "out.cubin"
        subprocess.run([nvcc, "-std=c++20", "--expt-relaxed-constexpr", f"-arch=sm_{arch.replace('.', '')}", "-cubin", "-O3", "-I",
                        root, "-o", cubin, source / "fast_math.cu"], check=True)
        path = str(pathlib.Path(cuobjdump).parent) + os.pathsep + os.environ["PATH"]  # it calls nvdisasm
        text = subprocess.run([cuobjdump, "-sass", cubin], check=True, capture_output=True, text=True,
                              env=dict(os.environ, PATH=path)).stdout
    parts = re.split(r"(?=Function : )", text)
    found = {}
    for part in parts:
        if m := KERNEL.match(part):
            found[("library", "intrinsics").index(m[1]), int(m[2])] = Code(part).counts()
    if len(found) != 2 * len(functions):
        sys.exit(f"{arch}: {len(found)} kernels instead of {2 * len(functions)}")
    return found


def header(nvcc, cuobjdump, archs):
    version = re.search(r"V([\d.]+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout)[1]
    digest = hashlib.sha256((source / "fast_math.cuh").read_bytes()).hexdigest()
    rows = []
    for arch in archs:
        for (rung, function), numbers in sorted(counts_on(nvcc, cuobjdump, arch).items()):
            counted = ", ".join(map(str, numbers))
            rows.append(f"    {{{arch.replace('.', '')}, {rung}, kernels::MathFunction::{functions[function]}, {counted}}},")
    return f"""#pragma once
// Machine instructions for an element in kernels/fast_math. Written by common/tools/sass_instructions.py, which says
// what is counted; changes here are lost. Compiled with nvcc {version}.

#include "fast_math.h"

namespace tenfold {{

struct SassInstructions {{
  int architecture;  ///< 90 is compute capability 9.0
  int rung;
  kernels::MathFunction function;
  int first;          ///< of a thread that evaluates the function once, from its beginning to its end
  int special;        ///< among them those of the special function unit
  int again;          ///< of each further evaluation, with the loop around it
  int special_again;  ///< among them those of the special function unit
}};

/// Of kernels/fast_math/fast_math.cuh as it was when this was written.
inline constexpr const char* kSassOfSource = "{digest}";

// clang-format off: a row for each kernel
inline constexpr SassInstructions kSassInstructions[] = {{
{chr(10).join(rows)}
}};
// clang-format on

}}  // namespace tenfold
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default=os.environ.get("CUDACXX", "nvcc"))
    parser.add_argument("--cuobjdump")
    parser.add_argument("--archs", default="7.5;8.0;9.0;10.0")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    nvcc = shutil.which(options.nvcc) or sys.exit(f"no nvcc at '{options.nvcc}'")
    text = header(nvcc, find_cuobjdump(options.cuobjdump, nvcc), options.archs.split(";"))
    if options.check:
        if target.read_text() != text:
            sys.exit(f"{target.relative_to(root)} is out of date: run common/tools/sass_instructions.py")
        return
    target.with_suffix(".tmp").write_text(text)
    target.with_suffix(".tmp").rename(target)
    print(f"{text.count('MathFunction::')} rows: {target.relative_to(root)}")


if __name__ == "__main__":
    main()
