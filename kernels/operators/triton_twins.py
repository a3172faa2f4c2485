"""Softmax and GEMM in Triton next to ours: what each compiler makes of them for a GPU that need not be there.

usage: triton_twins.py [--arch 9.0] [--build BUILD]

Prints registers a thread, shared memory, instructions of the machine code, and how many of these are loads and stores of global memory,
matrix products and shuffles. Nothing runs: an instruction in a loop counts once, so that instructions say how large the code is, not how
long it takes. Types are bfloat16, softmax's rows have 4,096 values, the GEMM's tile is 128 x 128 x 32.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "common" / "tools"))
from programs import reason_of, refuse  # noqa: E402

TOOLS = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
COLUMNS, THREADS = 4096, 256
TILE, DEPTH, STAGES = 128, 32, 4  # of kernels/hgemm's rung 3
SOFTMAX, GEMM = "softmax_heldI13__nv_bfloat16Li8E", "hgemm_cp_asyncI13__nv_bfloat16Lb1E"
KINDS = {"global": ("LDG", "STG", "LDGSTS", "UTMALDG", "UTMASTG"), "products": ("HMMA", "HGMMA", "WGMMA"), "shuffles": ("SHFL",)}


@triton.jit
def softmax(out, x, columns, BLOCK: tl.constexpr):
    """A row is a block, held in registers."""
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row + at, powers / tl.sum(powers, 0), mask=at < columns)


@triton.jit
def gemm(c, a, b, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """A tile of c is a block: c (m, n) = a (m, k) b (k, n), all row-major."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, k, DEPTH):
        depth = first + tl.arange(0, DEPTH)
        left = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(b + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * n + columns[None, :], sums, mask=(rows[:, None] < m) & (columns[None, :] < n))


def by_triton(function, pointers, sizes, constants, arch, **options):
    """Its cubin. Pointers and sizes are multiples of 16, as Triton finds them to be at a call."""
    types = {**dict.fromkeys(pointers, "*bf16"), **dict.fromkeys(sizes, "i32"), **dict.fromkeys(constants, "constexpr")}
    multiples = {(index,): [["tt.divisibility", 16]] for index in range(len(pointers) + len(sizes))}
    source = ASTSource(fn=function, signature=types, constexprs=constants, attrs=multiples)
    return triton.compile(source, target=GPUTarget("cuda", int(arch.replace(".", "")), 32), options=options)


def told_by(tool, *arguments, cwd=None):
    done = subprocess.run([TOOLS / tool, *arguments], capture_output=True, text=True, cwd=cwd)
    if done.returncode != 0:
        refuse(f"{tool} fails: {reason_of(done)}")
    return done.stdout


def contents(cubin):
    """{mangled name: {registers, shared, instructions, ...}} of a cubin's kernels."""
    found = {}
    for name, used in re.findall(r"Function (\S+):\n\s*(REG:.*)", told_by("cuobjdump", "-res-usage", cubin)):
        words = dict(word.split(":", 1) for word in used.split() if ":" in word)
        found[name] = {"registers": int(words["REG"]), "shared": int(words["SHARED"])}
    for part in told_by("nvdisasm", "-c", cubin).split("\t.section\t.text.")[1:]:
        name = part.split(",")[0].strip()
        codes = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", part)
        codes = collections.Counter(code for code in codes if code != "NOP")
        found[name]["instructions"] = sum(codes.values())
        for kind, names in KINDS.items():
            found[name][kind] = sum(codes[code] for code in names)
    return found


def ours(build, name, arch, pattern, folder):
    """The kernel of kernels/NAME whose mangled name has the pattern, as this build has compiled it."""
    compiled = build / "kernels" / "CMakeFiles" / "tenfold_kernels.dir" / name / f"{name}.cu.o"
    if not compiled.is_file():
        refuse(f"{compiled} is not there; to fix: .venv/bin/ninja -C {build} tenfold_kernels")
    target = f"sm_{arch.replace('.', '')}"
    told_by("cuobjdump", "-xelf", f"{target}.cubin", compiled.resolve(), cwd=folder)
    cubins = list(folder.glob(f"*{name}*.{target}.cubin"))
    if len(cubins) != 1:
        refuse(f"{compiled} has {len(cubins)} parts for {target}; to fix: build with TENFOLD_CUDA_ARCHS={arch}")
    named = {kernel: row for kernel, row in contents(cubins[0]).items() if re.search(pattern, kernel)}
    if len(named) != 1:
        refuse(f"kernels/{name}: {len(named)} kernels match {pattern}")
    return next(iter(named.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arch", default="9.0", choices=["8.0", "9.0"])
    parser.add_argument("--build", type=pathlib.Path, default=root / "build" / "release", help="where our kernels are compiled")
    given = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, compiled in (
                ("softmax, Triton", by_triton(softmax, ["out", "x"], ["columns"], {"BLOCK": COLUMNS}, given.arch, num_warps=THREADS // 32)),
                ("GEMM, Triton", by_triton(gemm, ["c", "a", "b"], ["m", "n", "k"], {"ROWS": TILE, "COLUMNS": TILE, "DEPTH": DEPTH}, given.arch,
                                           num_warps=THREADS // 32, num_stages=STAGES))):
            cubin = folder / "triton.cubin"
            cubin.write_bytes(compiled.asm["cubin"])
            rows[what] = next(iter(contents(cubin).values()))
            rows[what]["dynamic"] = compiled.metadata.shared
        rows["softmax, ours"] = ours(given.build, "softmax", given.arch, SOFTMAX, folder)
        rows["GEMM, ours"] = ours(given.build, "hgemm", given.arch, GEMM, folder)
        rows["GEMM, ours"]["dynamic"] = STAGES * 2 * TILE * DEPTH * 2  # asked for at the launch
    columns = ["registers", "shared", "instructions", *KINDS]
    print(f"{'for ' + given.arch:18}" + "".join(f"{column:>14}" for column in columns))
    for what, row in sorted(rows.items()):
        row["shared"] += row.get("dynamic", 0)
        print(f"{what:18}" + "".join(f"{row[column]:14,}" for column in columns))


if __name__ == "__main__":
    main()
