#!/usr/bin/env python3
"""Does the microscope see the widths that nvcc makes? For each kernel: the widths of the loads and stores of each source line that its
page counted, beside those in nvcc's PTX for the same line. A float4 that one side takes apart fails, with the line named.

Pages run float32, so functions for half and bfloat16 are left out of the PTX, except for kernels that TYPES names. Of inline PTX,
ldmatrix is a load of 16 bytes and cp.async a load and a store. Atomics are left out on both sides, and so is what no thread loads or
stores: a box of TMA, an operand of wgmma.

    widths.py --nvcc /usr/local/cuda/bin/nvcc --pages build/dev/kernels
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
WIDEST = 16  # bytes that a thread loads or stores at a time

# Lines where nvcc and the microscope may differ: (file, a part of the line): reason. An entry that no line needs fails too.
KNOWN = {}

# What a page runs, where it is not float alone.
TYPES = {"decode_attention": {"__nv_bfloat16"}, "flash_attention": {"__nv_bfloat16"}, "grouped_combine": {"__nv_bfloat16", "float"},
         "grouped_gemm": {"__nv_bfloat16"}, "hgemm": {"__nv_bfloat16"}, "split_k": {"__nv_bfloat16", "float"}}

# Where a small shape of odd sizes leaves lines out. Embedding's: runs of ids that go on over chunks of 32 places. Or is refused:
# grouped_combine takes 32 active experts, and pairs of columns.
ODD = {"decode_attention": "batch=2,heads=6,kv_heads=3,keys=165,head_dim=64", "embedding": "tokens=165,width=37,vocabulary=3",
       "grouped_combine": "tokens=37,active=3,experts=5,largest=40,depth=37,columns=66,wave=4", "split_k": "m=37,n=65,k=1003,wave=4"}

ACCESS = re.compile(r"^\s*(?:@!?%p\d+\s+)?(ld|st)\.(?:volatile\.|weak\.|relaxed\.\w+\.)?(global|shared)((?:\.[\w:]+)*)\s")
COPY = re.compile(r"^\s*cp\.async\.c[ag]\.shared\.global\s+\[[^]]*\],\s*\[[^]]*\],\s*(\d+)")
LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")


def width_of(suffixes):
    """".nc.v4.f32" -> 16."""
    parts = suffixes.split(".")
    count = next((int(p[1:]) for p in parts if re.fullmatch(r"v\d", p)), 1)
    return count * int(re.sub(r"\D", "", parts[-1])) // 8


def inside(path):
    """The path below the checkout, or None for what is not a kernel's own line."""
    path = pathlib.Path(os.path.normpath(path))
    if not path.is_relative_to(SOURCE / "kernels") or path.name in ("launch.cuh", "ptx.cuh"):
        return None
    return str(path.relative_to(SOURCE))


def accesses_in(line):
    """(space, kind, width) of each access of a line of PTX."""
    if m := ACCESS.match(line):
        return [(m[2], {"ld": "load", "st": "store"}[m[1]], width_of(m[3]))]
    if m := COPY.match(line):
        return [("global", "load", int(m[1])), ("shared", "store", int(m[1]))]
    return [("shared", "load", 16)] if re.match(r"\s*ldmatrix\.", line) else []


def widths_in_ptx(ptx, types):
    """{(file, line, space, kind): {width, ...}} of the code for these types; the line is the innermost one that is a kernel's."""
    files = {number: name for number, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', ptx, re.M)}
    widths = collections.defaultdict(set)
    where, called_from, other_type = None, {}, False
    for line in ptx.splitlines():
        if m := re.search(r"\.(?:entry|func)\b.*?\b(_Z\w+)\(", line):
            named = {name for name in ("__half", "__nv_bfloat16") if name in m[1]} or {"float"}
            other_type = not named & types
            where, called_from = None, {}
        elif m := LOC.match(line):
            where = m[1], m[2], m[3]
            if m[4]:
                called_from[where] = m[4], m[5], m[6]
        elif not other_type and (accesses := accesses_in(line)):
            at, seen = where, set()
            while at in called_from and at not in seen and not inside(files[at[0]]):
                seen.add(at)
                at = called_from[at]
            if at and inside(files[at[0]]):
                for space, kind, width in accesses:
                    widths[inside(files[at[0]]), int(at[1]), space, kind].add(width)
    return widths


def widths_of_page(page, folder):
    """The same from the microscope: all rungs, at the page's shape and at one of odd sizes, where vectors do not fit."""
    described = subprocess.run([page, "--describe"], check=True, capture_output=True).stdout
    names = list(json.loads(described)["shape"])
    widths = collections.defaultdict(set)
    odd, even = (",".join(f"{name}={first + 28 * i}" for i, name in enumerate(names)) for first in (37, 38))
    odd = ODD.get(page.name, odd)
    for shapes in ([None], [odd, even]):  # even ones where the kernel takes no odd ones
        for shape in shapes:
            out = folder / "page.json"
            command = [page, "--no-races", "--json", out] + (["--shape", shape] if shape else [])
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode == 0:
                break
        if ran.returncode != 0:
            sys.exit(f"{page.name}, {shape or 'its own shape'}: exit {ran.returncode}: {ran.stderr or ran.stdout}")
        for rung in json.loads(out.read_text())["rungs"]:
            for access in rung["report"]["accesses"]:
                if access["kind"] != "atomic" and access["bytes"] <= WIDEST:
                    where = access["where"]
                    widths[where["file"], where["line"], access["space"], access["kind"]].add(access["bytes"])
    return widths


def made_of(from_nvcc, file, line, space, kind):
    """Widths of a line's accesses; of one that ends with '=' also those of the next: nvcc names the line that an operand is on."""
    widths = set(from_nvcc.get((file, line, space, kind), set()))
    if (SOURCE / file).read_text().splitlines()[line - 1].endswith("="):
        widths |= from_nvcc.get((file, line + 1, space, kind), set())
    return widths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--pages", required=True, type=pathlib.Path, help="folder of the built pages")
    parser.add_argument("kernels", nargs="*", help="all without")
    options = parser.parse_args()
    if not os.access(options.nvcc, os.X_OK):
        print(f"no nvcc at '{options.nvcc}': nothing to compare with")
        return SKIPPED

    compared, wrong, used = 0, [], set()
    kernels = options.kernels or sorted(path.stem for path in SOURCE.glob("kernels/*/*.cu") if (options.pages / path.stem).exists())
    for name in kernels:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            from_nvcc = collections.defaultdict(set)
            for source, arch in ((f"{name}.cu", "sm_80"), (f"{name}_sm90.cu", "sm_90a")):  # the latter has Hopper's rungs
                file, ptx = SOURCE / "kernels" / name / source, folder / "kernel.ptx"
                if file.exists():
                    subprocess.run([options.nvcc, "-std=c++20", "--expt-relaxed-constexpr", f"-arch={arch}", "-lineinfo", "-ptx", f"-I{SOURCE}", file, "-o", ptx], check=True)
                    for key, widths in widths_in_ptx(ptx.read_text(), TYPES.get(name, {"float"})).items():
                        from_nvcc[key] |= widths
            counted = widths_of_page(options.pages / name, folder)
        before = len(wrong)
        if ("", 0) in {key[:2] for key in counted}:
            sys.exit(f"{name}: accesses whose source line the microscope does not know")
        for key in sorted(counted):
            compared += 1
            made = made_of(from_nvcc, *key)
            # Of what several kernels share, each one's page may run a part: nvcc then knows widths that were not counted.
            is_shared = pathlib.PurePath(key[0]).parent.name == "kernels"
            if counted[key] == made or (is_shared and counted[key] < made):
                continue
            file, line, space, kind = key
            text = (SOURCE / file).read_text().splitlines()[line - 1].strip()
            known = next((k for k in KNOWN if k[0] == file and k[1] in text), None)
            if known:
                used.add(known)
                continue
            wrong.append(f"{file}:{line}: {space} {kind} of {sorted(counted[key])} bytes under the microscope, "
                         f"{sorted(made)} in nvcc's PTX: {text}")
        print(f"{name}: {len(counted)} lines of loads and stores, {len(wrong) - before} differ")
    for text in wrong:
        print(text)
    if not options.kernels:
        for file, text in sorted(set(KNOWN) - used):
            wrong.append("")
            print(f"KNOWN: {file}, '{text}': no such line differs (any more): take it out")
    if compared == 0:
        sys.exit("nothing was compared")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
