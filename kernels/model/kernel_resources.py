"""What ptxas gives every kernel: registers, shared memory, stack and spills, for every architecture.

usage: kernel_resources.py [--nvcc NVCC] [--archs "7.5;8.0;9.0;10.0"]

Compiles kernels/*/*.cu and writes results/compiler/kernel_resources.json; `./tenfold report --write` makes the table of docs/kernels.md
from it. Needs no GPU.
"""

import argparse
import concurrent.futures
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "common" / "tools"))
from programs import output_of, reason_of, refuse


def hash_of(files):
    """Over names and code, without comments and with one blank for each white space: what common/pages/book/kernel_resources.cpp
    computes."""
    digest = hashlib.sha256()
    for path in files:
        comments = r"#[^\n]*" if path.suffix == ".py" else r"//[^\n]*|/\*.*?\*/"
        code = re.sub(r"[ \t\r\n]+", " ", re.sub(comments, " ", path.read_text(), flags=re.S))
        digest.update(path.name.encode() + b"\n" + code.encode())
    return digest.hexdigest()


def sources_hash(kernel):
    """Over the files that decide what ptxas sees: the kernel's own and the shared headers."""
    return hash_of([*sorted((root / "kernels" / kernel).glob("*.cu*")), *sorted((root / "kernels").glob("*.cuh"))])


def model_hash():
    """Over the files that make times of machine code and counts."""
    model = root / "kernels" / "model"
    return hash_of([*(model / f"{name}.py" for name in ("gpu_model", "kernel_time", "machine_code", "warp_model")),
                    root / "common" / "machine" / "gpu_ceilings.cpp"])


def entries_of(file):
    """{operation: entry} of a file in results/compiler; empty where there is none. Refuses a damaged one."""
    try:
        return {entry["operation"]: entry for entry in json.loads(file.read_text())["kernels"]} if file.exists() else {}
    except (ValueError, KeyError) as error:
        refuse(f"{file} is damaged: {error!r}; to fix: take it from git again, or remove it")


def entry_of(operation, rungs):
    """What such a file has of an operation: which kernel and code it is of, the shape, and what was found of its rungs."""
    return {"kernel": operation.kernel, "operation": operation.name, "type": operation.type, "shape": operation.shape,
            "sources": sources_hash(operation.kernel), "rungs": rungs}


def write_json(file, out):
    """All of it, or the file stays as it was."""
    file.with_suffix(".tmp").write_text(json.dumps(out, indent=1) + "\n")
    file.with_suffix(".tmp").rename(file)


class NotCompiled(Exception):
    pass


def resources(nvcc, source, arch):
    """[{function, registers, ...}] of one file on one architecture. Throws NotCompiled."""
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, "-std=c++20", "--expt-relaxed-constexpr", f"-arch=sm_{arch.replace('.', '')}", "-cubin", "-Xptxas", "-v",
                   "-O3", "-I", root, "-o", pathlib.Path(folder) / "out.cubin", "-x", "cu", source]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotCompiled(f"{source.relative_to(root)}: nvcc fails for {arch}: {reason_of(done)}")
    # "Compiling entry function 'NAME' for 'sm_80'", then stack and spills, then "Used N registers, ... M bytes smem".
    entry = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                       r".*?Used (\d+) registers([^\n]*)", re.S)
    found = []
    for name, stack, stores, loads, registers, rest in entry.findall(done.stderr):
        shared = re.search(r"(\d+) bytes smem", rest)
        found.append({"symbol": name, "registers": int(registers), "shared_bytes": int(shared.group(1)) if shared else 0,
                      "stack_bytes": int(stack), "spill_bytes": int(stores) + int(loads)})
    return found


def without_parameters(name):
    """Cuts a demangled function's parameter list: from the bracket that closes at the end. Template arguments may hold brackets,
    too: gelu_rows<float, (Gelu)0>(...)."""
    depth = 0
    for i in range(len(name) - 1, -1, -1):
        depth += (name[i] == ")") - (name[i] == "(")
        if depth == 0:
            return name[:i] if name[i] == "(" else name
    return name


def readable(symbols):
    """tenfold::kernels::softmax_online<float>(...) -> softmax_online<float>"""
    names = output_of(["c++filt"], "install binutils", input="\n".join(symbols)).splitlines()
    plain = (n.replace("tenfold::kernels::", "").replace("(anonymous namespace)::", "").removeprefix("void ") for n in names)
    return {s: without_parameters(n) for s, n in zip(symbols, plain)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", default=os.environ.get("CUDACXX", "nvcc"))
    parser.add_argument("--archs", default="7.5;8.0;9.0;10.0")
    options = parser.parse_args()
    archs = options.archs.split(";")
    to_fix = "install the CUDA toolkit, or name its compiler with --nvcc"
    version = re.search(r"V([\d.]+)", output_of([options.nvcc, "--version"], to_fix))
    if version is None:
        refuse(f"{options.nvcc} --version names no version; to fix: {to_fix}")
    sources = sorted(path for path in (root / "kernels").glob("*/*.cu") if not path.stem.endswith("_sm90"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = {(s, a): pool.submit(resources, options.nvcc, s, a) for s in sources for a in archs}
        for source in sources:  # what is compiled for 9.0a alone stands in the column of 9.0
            hopper = source.with_name(source.stem + "_sm90.cu")
            if hopper.exists() and "9.0" in archs:
                jobs[hopper, "9.0"] = pool.submit(resources, options.nvcc, hopper, "9.0a")
    try:
        names = readable(sorted({f["symbol"] for job in jobs.values() for f in job.result()}))
    except NotCompiled as error:
        refuse(f"{error}; to fix: mend the source, or leave the architecture out of --archs")
    kernels = []
    for source in sources:
        functions = {}
        hopper = source.with_name(source.stem + "_sm90.cu")
        for file, arch in [(s, a) for s in (source, hopper) for a in archs if (s, a) in jobs]:
            for found in jobs[file, arch].result():
                functions.setdefault(names[found.pop("symbol")], {})[arch] = found
        kernels.append({"kernel": source.stem, "sources": sources_hash(source.stem), "functions": functions})
    out = {"schema": "tenfold.kernel_resources/1", "nvcc": version[1], "date": datetime.date.today().isoformat(), "architectures": archs,
           "kernels": kernels}
    target = root / "results" / "compiler" / "kernel_resources.json"
    write_json(target, out)
    spilled = sum(f["spill_bytes"] > 0 for k in kernels for archs_of in k["functions"].values() for f in archs_of.values())
    print(f"{sum(len(k['functions']) for k in kernels)} kernels on {len(archs)} architectures; {spilled} with spills: {target.relative_to(root)}")


if __name__ == "__main__":
    main()
