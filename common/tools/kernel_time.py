"""How long GPUs take for a kernel at the least, and what holds it up: what the microscope counts, joined with the machine code.

usage: kernel_time.py KERNEL RUNG NAME=N,... [--gpu KEY] [--sample BLOCKS] [--build build/dev] [--blocks]
       kernel_time.py --write [KERNEL...]

Disassembles what was built of kernels/KERNEL, runs kernel_counts for the shape and prints a bound for each resource. --blocks lists
every basic block with its executions. --write does so for every rung at the shapes of bench/ and writes
results/compiler/kernel_times.json, from which `./tenfold kernel` and docs/kernels.md print. Needs no GPU.
"""

import argparse
import collections
import datetime
import functools
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import gpu_model
import kernel_resources
import machine_code

root = pathlib.Path(__file__).resolve().parents[2]


# What is modelled: at the shapes of bench/, where every GPU has room for them. What takes the most memory in training is in 16 bits.
SHAPES = {
    "adamw": "count=124475904",
    "bias_gelu": "rows=8192,columns=8192",
    "bias_gelu_backward": "rows=8192,columns=8192",
    "cross_entropy": "rows=8192,classes=50304",
    "embedding": "tokens=32768,width=4096,vocabulary=50304",
    "embedding_backward": "tokens=32768,width=1024,vocabulary=50304",
    "flash_attention": "batch=8,heads=16,queries=2048,keys=2048,head_dim=128,causal=1",
    "flash_attention_backward": "batch=8,heads=16,queries=2048,keys=2048,head_dim=128,causal=1",
    "hgemm": "m=4096,n=4096,k=4096",
    "layer_norm": "rows=8192,columns=8192",
    "layer_norm_backward": "rows=8192,columns=8192",
    "pack": "batch=64,length=1024,width=1024",
    "reduction": "count=268435456",
    "rms_norm": "rows=8192,columns=8192",
    "rms_norm_backward": "rows=8192,columns=8192",
    "rope": "tokens=32768,heads=16,head_dim=128,positions=4096",
    "sgemm": "m=4096,n=4096,k=4096",
    "softmax": "rows=8192,columns=8192",
    "softmax_backward": "rows=8192,columns=8192",
    "transpose": "rows=8192,columns=8192",
}
FLOAT = {"adamw", "embedding_backward", "reduction", "sgemm", "transpose"}  # of float, the others of bfloat16
# Rungs of backward passes; a kernel's page says those of its forward pass.
BACKWARD = {
    "bias_gelu_backward": ["vectorised"],
    "embedding_backward": ["atomics", "runs", "vectorised", "chunks"],
    "flash_attention_backward": ["CUDA cores", "tensor cores"],
    "layer_norm_backward": ["two kernels", "one kernel"],
    "rms_norm_backward": ["two kernels", "one kernel"],
    "softmax_backward": ["vectorised"],
}
OF_BACKWARD_ALONE = {"embedding": {"chunks"}}  # rungs whose forward pass is that of the rung before
# Arithmetic by formula, and the GPU's rate that it is held against.
ARITHMETIC = {
    "flash_attention": (lambda s: 2 * s["batch"] * s["heads"] * s["queries"] * s["keys"] * s["head_dim"], "tensor_flops_per_s"),  # half is masked
    "flash_attention_backward": (lambda s: 5 * s["batch"] * s["heads"] * s["queries"] * s["keys"] * s["head_dim"], "tensor_flops_per_s"),
    "hgemm": (lambda s: 2 * s["m"] * s["n"] * s["k"], "tensor_flops_per_s"),
    "sgemm": (lambda s: 2 * s["m"] * s["n"] * s["k"], "flops_per_s"),
}
SAMPLES = {"embedding_backward": 0, "flash_attention": 64, "flash_attention_backward": 64}  # blocks that the microscope runs where they differ, as under a causal mask; 0: all


def folder_of(operation):
    return operation.removesuffix("_backward")


class Tools:
    """What was built, and NVIDIA's disassembler: cuobjdump of any version takes the machine code out of an object file (Triton brings
    one), nvdisasm from 13.2 on reads it."""

    def __init__(self, build):
        self.build = root / build
        if not (self.build / "kernels" / "kernel_counts").exists():
            sys.exit(f"{self.build} has no kernel_counts; build with: TENFOLD_PRESET=dev ./tenfold setup tests")
        site = pathlib.Path(sysconfig.get_paths()["purelib"])
        self.cuobjdump = self.tool("cuobjdump", site / "triton/backends/nvidia/bin/cuobjdump")
        self.nvdisasm = self.tool("nvdisasm", site / "nvidia/cu13/bin/nvdisasm")

    @staticmethod
    def tool(name, packaged):
        return packaged if packaged.exists() else shutil.which(name) or sys.exit(f"no {name}: pip install -r common/tools/requirements-test.txt")

    @staticmethod
    def output(*command, folder=None):
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
        return done.stdout

    @functools.cached_property
    def gpus(self):
        return {gpu["key"]: gpu for gpu in json.loads(self.output(self.build / "kernels" / "kernel_counts", "--gpus"))}

    def counts(self, kernel, rung, shape, sample):
        """Of each kernel that is launched, in the order of the first launches."""
        return json.loads(self.output(self.build / "kernels" / "kernel_counts", kernel, str(rung), shape, str(sample)))

    @functools.cache
    def machine_code(self, operation, capability):
        """({symbol: [Block]}, {symbol: (registers, static shared bytes)})"""
        kernel = folder_of(operation)
        library = self.build / "kernels" / "CMakeFiles" / "tenfold_kernels.dir" / kernel / f"{kernel}.cu.o"
        if not library.exists():
            sys.exit(f"{library} is missing; build with: TENFOLD_PRESET=dev ./tenfold setup tests, where nvcc is")
        with tempfile.TemporaryDirectory() as folder:
            self.output(self.cuobjdump, "-xelf", f"sm_{capability.replace('.', '')}.cubin", library, folder=folder)
            found = list(pathlib.Path(folder).glob("*.cubin"))
            if len(found) != 1:
                raise MissingCode(f"{library} has no code for {capability}: it was built with other TENFOLD_CUDA_ARCHS")
            text = self.output(self.nvdisasm, "-gi", "-c", found[0])
            used = self.output(self.cuobjdump, "-res-usage", found[0])
        resources = {symbol: (int(registers), int(shared)) for symbol, registers, shared in
                     re.findall(r"Function (\S+):\s+REG:(\d+) .*?SHARED:(\d+)", used)}
        return machine_code.functions_of(text), resources


class MissingCode(Exception):
    pass


def traps(blocks):
    """What ptx.cuh leaves of an instruction that needs a newer GPU."""
    return any(instruction.name.startswith("BPT.TRAP") for block in blocks for instruction in block.instructions)


def symbol_of(counts):
    return counts["symbol"].replace("kernelsL", "kernels")  # g++ marks what is static in its name, nvcc does not


def launches_on(tools, gpu, kernel, counted):
    """[(Launch, Solution, blocks)], of each kernel that is launched."""
    functions, resources = tools.machine_code(kernel, gpu["capability"])
    found = []
    for counts in counted:
        symbol = symbol_of(counts)
        blocks = functions.get(symbol)
        if blocks is None or traps(blocks):
            raise MissingCode(f"no machine code of {symbol} for {gpu['capability']}")
        registers, static = resources[symbol]
        # For 9.0, ptxas reports the 1 KiB with it that the system keeps.
        own = 1024 if gpu["capability"].startswith("9.") else 0
        counts = counts | {"static_shared_bytes": max(0, static - own)}
        solution = machine_code.solve(blocks, counts)
        found.append((gpu_model.launch_on(gpu, counts, blocks, solution.executions, registers), solution, blocks))
    return found


def modelled(tools, kernel, shape, sample):
    """One kernel's part of results/compiler/kernel_times.json."""
    page = json.loads(tools.output(tools.build / "kernels" / folder_of(kernel), "--describe"))
    names = BACKWARD.get(kernel) or [rung["name"] for rung in page["rungs"] if rung["name"] not in OF_BACKWARD_ALONE.get(kernel, ())]
    rungs, least = [], {}  # least: of each GPU, seconds for the bytes or the arithmetic that no kernel can do without
    for rung, name in enumerate(names):
        counted = tools.counts(kernel, rung, shape, sample)
        times = {}
        for key, gpu in tools.gpus.items():
            try:
                solved = launches_on(tools, gpu, kernel, counted)
            except (MissingCode, gpu_model.DoesNotFit) as error:
                print(f"{kernel} {rung}: {key}: {error}")
                continue
            print_unmet(f"{kernel} {rung}: {key}", solved)
            found = [launch for launch, _, _ in solved]
            least[key] = min(least.get(key, math.inf), sum(launch.least_seconds for launch in found))
            longest = max(found, key=lambda launch: launch.seconds)
            bounds = collections.Counter()
            for launch in found:
                bounds.update(launch.bounds)
            times[key] = {"seconds": sum(launch.seconds for launch in found),
                          "bound": longest.bound,
                          "bounds": {name: float(f"{seconds:.4g}") for name, seconds in bounds.items() if seconds > 0},
                          "instructions": round(sum(launch.instructions * launch.grid for launch in found)),
                          "dram_bytes": round(sum(launch.dram_bytes for launch in found)),
                          "registers": longest.registers,
                          "blocks_on_sm": longest.occupancy.blocks,
                          "limit": longest.occupancy.limit}
        if not times:
            sys.exit(f"{kernel} {rung}: there is no GPU that it runs on")
        rungs.append({"name": name, "gpus": times})
        print(f"{kernel} {rung}: " + ", ".join(f"{key} {1e6 * time['seconds']:.0f} us by {time['bound']}" for key, time in times.items()), flush=True)
    if kernel in ARITHMETIC:
        flops, rate = ARITHMETIC[kernel]
        sides = {name: int(value) for name, value in (pair.split("=") for pair in shape.split(","))}
        least = {key: max(seconds, flops(sides) / tools.gpus[key][rate]) for key, seconds in least.items()}
    return {"kernel": folder_of(kernel), "operation": kernel, "date": datetime.date.today().isoformat(), "sources": kernel_resources.sources_hash(folder_of(kernel)), "type": "float" if kernel in FLOAT else "bfloat16", "shape": shape, "least_seconds": least, "rungs": rungs}


def write(tools, kernels, sample):
    target = root / "results" / "compiler" / "kernel_times.json"
    known = {entry["operation"]: entry for entry in json.loads(target.read_text())["kernels"]} if target.exists() else {}
    for kernel in kernels or SHAPES:
        known[kernel] = modelled(tools, kernel, SHAPES[kernel], sample_of(kernel, sample))
        out = {"schema": "tenfold.kernel_times/2", "gpus": {key: gpu["name"] for key, gpu in tools.gpus.items()},
               "kernels": [known[name] for name in sorted(known) if name in SHAPES]}
        target.with_suffix(".tmp").write_text(json.dumps(out, indent=1) + "\n")
        target.with_suffix(".tmp").rename(target)


def sample_of(kernel, given):
    return SAMPLES.get(kernel, 4) if given is None else given


def print_unmet(of, solved):
    for launch, solution, _ in solved:
        for what, amount, got in solution.unmet:
            print(f"{of}: {launch.symbol}: not met: {what}: counted {amount:g} a warp, found {got:g}")


def print_blocks(blocks, solution):
    for block, times in zip(blocks, solution.executions):
        lines = collections.Counter(i.line.split("/")[-1] if i.line else "-" for i in block.instructions)
        if times > 0:
            print(f"  {block.address:#06x} {times:8.2f} x {len(block.instructions):4d}  {dict(lines.most_common(4))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", nargs="?")
    parser.add_argument("rung", nargs="?")
    parser.add_argument("shape", nargs="?")
    parser.add_argument("--write", nargs="*", metavar="KERNEL", choices=list(SHAPES))
    parser.add_argument("--gpu", default="all")
    parser.add_argument("--sample", type=int, help="blocks that the microscope runs of each launch; 0: all")
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--blocks", action="store_true")
    options = parser.parse_args()
    tools = Tools(options.build)
    if options.write is not None and options.kernel is not None:
        parser.error("--write KERNEL..., or KERNEL RUNG SHAPE")
    if options.write is not None:
        write(tools, options.write, options.sample)
        return
    if options.shape is None:
        parser.error("expected KERNEL RUNG SHAPE, or --write")
    if options.gpu != "all" and options.gpu not in tools.gpus:
        sys.exit(f"--gpu {options.gpu}: there are {', '.join(tools.gpus)}")
    counted = tools.counts(options.kernel, options.rung, options.shape, sample_of(options.kernel, options.sample))
    for key in tools.gpus if options.gpu == "all" else [options.gpu]:
        gpu = tools.gpus[key]
        try:
            found = launches_on(tools, gpu, options.kernel, counted)
        except (MissingCode, gpu_model.DoesNotFit) as error:
            print(f"{key}: {error}")
            continue
        for launch, solution, blocks in found:
            bounds = sorted(launch.bounds.items(), key=lambda item: -item[1])
            print(f"{key}: {launch.symbol}: {1e6 * launch.seconds:.1f} us by {launch.bound}; "
                  f"{100 * launch.least_seconds / launch.seconds:.0f} % of what DRAM allows; {launch.instructions:.0f} instructions a block, "
                  f"{launch.registers} registers, {launch.occupancy.blocks} blocks on an SM by {launch.occupancy.limit}")
            print("   " + ", ".join(f"{name} {1e6 * seconds:.1f}" for name, seconds in bounds if seconds > 0))
            for what, amount, got in solution.unmet:
                print(f"   not met: {what}: counted {amount:g} a warp, found {got:g}")
            if options.blocks:
                print_blocks(blocks, solution)


if __name__ == "__main__":
    main()
