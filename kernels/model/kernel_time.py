"""How long GPUs take for a kernel if one resource alone holds it up, and which one: what the microscope counts, joined with the machine code.

usage: kernel_time.py KERNEL RUNG NAME=N,... [--gpu KEY] [--sample BLOCKS] [--build build/dev] [--blocks]
       kernel_time.py --write [KERNEL...]

Disassembles what was built of kernels/KERNEL, has the kernel's program count the shape and prints a bound for each resource. --blocks
lists every basic block with its executions. --write does so for every rung at the shapes of bench/ and writes
results/compiler/kernel_times.json, from which `./tenfold kernel` and docs/kernels.md print; it refuses where the build lacks the
machine code of one of the GPUs. Needs no GPU. Exit code 2, and one line that says why and what to do, where it refuses.
"""

import argparse
import collections
import dataclasses
import datetime
import functools
import json
import math
import pathlib
import re
import shutil
import sysconfig
import tempfile

import gpu_model
import kernel_resources
import machine_code
from programs import output_of, refuse

root = pathlib.Path(__file__).resolve().parents[2]
TARGET = root / "results" / "compiler" / "kernel_times.json"
TO_BUILD = "TENFOLD_PRESET=dev ./tenfold setup tests"


def kernels():
    """Those that are modelled: each describes itself in NAME_case.h."""
    return sorted(case.parent.name for case in (root / "kernels").glob("*/*_case.h"))


@dataclasses.dataclass(frozen=True)
class Operation:
    """A pass of a kernel, as the kernel's program describes it."""
    kernel: str
    name: str
    rungs: tuple  # names
    type: str
    sizes: dict  # {name: value}, that bench/ times
    flops: float  # at these sizes
    peak: str  # the GPU's rate that bounds it
    sampled_blocks: int  # that the microscope runs of each launch; 0: all

    @property
    def shape(self):
        return ",".join(f"{name}={value}" for name, value in self.sizes.items())


class MissingCode(Exception):
    """The build has no machine code of a kernel for a GPU."""


class Tools:
    """What was built, and NVIDIA's disassembler: cuobjdump of any version takes the machine code out of an object file (Triton brings
    one), nvdisasm from 13.2 on reads it."""

    def __init__(self, build):
        self.build = root / build
        self.solutions = {}  # {(symbol, capability): (what was counted, Solution)}
        self.model_gpus = self.build / "tests" / "model_gpus"
        for program in [self.model_gpus, *(self.program(kernel) for kernel in kernels())]:
            if not program.exists():
                refuse(f"{program} is missing; to fix: {TO_BUILD}, or name a build folder with --build")
        site = pathlib.Path(sysconfig.get_paths()["purelib"])
        self.cuobjdump = self.tool("cuobjdump", site / "triton/backends/nvidia/bin/cuobjdump")
        self.nvdisasm = self.tool("nvdisasm", site / "nvidia/cu13/bin/nvdisasm")

    @staticmethod
    def tool(name, packaged):
        found = packaged if packaged.exists() else shutil.which(name)
        return found or refuse(f"there is no {name}, neither {packaged} nor on the PATH; to fix: {TO_BUILD}")

    def program(self, kernel):
        return self.build / "kernels" / kernel

    @functools.cached_property
    def all_gpus(self):
        """{key: GPU}, with those that only others' tables were measured on."""
        gpus = json.loads(output_of([self.model_gpus], TO_BUILD))
        least = min((gpu["l2_bytes_per_s"] / gpu["dram_bytes_per_s"] for gpu in gpus if gpu["l2_bytes_per_s"] > 0), default=math.inf)
        return {gpu["key"]: gpu | {"least_l2_over_dram": least} for gpu in gpus}

    @functools.cached_property
    def gpus(self):
        """{key: GPU}, of the pages' columns."""
        return {key: gpu for key, gpu in self.all_gpus.items() if gpu["paged"]}

    @functools.cached_property
    def operations(self):
        """{name: Operation} of all kernels, by name."""
        found = {}
        for kernel in kernels():
            for known in json.loads(output_of([self.program(kernel), "--describe"], TO_BUILD))["passes"]:
                found[known["name"]] = Operation(kernel, known["name"], tuple(known["rungs"]), known["type"], known["shape"], known["flops"],
                                                 known["peak"], known["sampled_blocks"])
        return dict(sorted(found.items()))

    def gpu(self, key, *others):
        """The GPU that --gpu names; `others` are the words that the option takes besides."""
        if key not in self.gpus:
            refuse(f"--gpu {key}: there is no such GPU; to fix: take one of {', '.join([*others, *self.gpus])}")
        return self.gpus[key]

    def operation(self, name):
        return self.operations.get(name) or refuse(f"there is no kernel '{name}'; to fix: take one of {', '.join(self.operations)}")

    @functools.cached_property
    def nvcc(self):
        """Version of the compiler that built the machine code; empty where CMake found none."""
        files = sorted(self.build.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"), key=lambda file: file.stat().st_mtime)
        version = re.search(r'set\(CMAKE_CUDA_COMPILER_VERSION "([\d.]+)"', files[-1].read_text()) if files else None
        return version[1] if version else ""

    def counts(self, name, rung, shape, sample):
        """Of each kernel that is launched, in the order of the first launches."""
        operation = self.operation(name)
        if {pair.partition("=")[0] for pair in shape.split(",")} != operation.sizes.keys():
            refuse(f"{name} has no shape '{shape}'; to fix: name its sizes as in {operation.shape}")
        to_fix = f"take a rung that ./tenfold kernel {operation.kernel} lists, and a shape like {operation.shape}"
        return json.loads(output_of([self.program(operation.kernel), "counts", name, str(rung), shape, str(sample)], to_fix))

    def solution(self, symbol, capability, blocks, counts):
        """GPUs that run the same machine code share it."""
        known = self.solutions.get((symbol, capability))
        if known is None or known[0] != counts["accesses"]:
            known = self.solutions[symbol, capability] = (counts["accesses"], machine_code.solve(blocks, counts))
        return known[1]

    @functools.cache
    def machine_code(self, kernel, capability):
        """({symbol: [Block]}, {symbol: (registers, static shared bytes)}) of a kernel's folder. Throws MissingCode."""
        functions, resources = self.code_of_object("tenfold_kernels", kernel, f"{kernel}.cu.o", capability)
        if capability == "9.0" and (root / "kernels" / kernel / f"{kernel}_sm90.cu").exists():
            hopper_functions, hopper_resources = self.code_of_object("tenfold_kernels_sm90", kernel, f"{kernel}_sm90.cu.o", capability)
            functions, resources = functions | hopper_functions, resources | hopper_resources
        return functions, resources

    def hopper_symbols(self, kernel):
        """Kernels that are compiled for 9.0a alone."""
        if not (root / "kernels" / kernel / f"{kernel}_sm90.cu").exists():
            return {}
        return self.code_of_object("tenfold_kernels_sm90", kernel, f"{kernel}_sm90.cu.o", "9.0")[0].keys()

    @functools.cache
    def code_of_object(self, target, kernel, name, capability):
        library = self.build / "kernels" / "CMakeFiles" / f"{target}.dir" / kernel / name
        if not library.exists():
            raise MissingCode(f"{library} is missing; to fix: {TO_BUILD}, where nvcc is")
        with tempfile.TemporaryDirectory() as folder:
            output_of([self.cuobjdump, "-xelf", f"sm_{capability.replace('.', '')}.cubin", library], TO_BUILD, cwd=folder)
            found = list(pathlib.Path(folder).glob("*.cubin"))
            if len(found) != 1:
                raise MissingCode(f"{library} has no machine code for {capability}; to fix: {TO_BUILD}, "
                                  "where TENFOLD_CUDA_ARCHS names its architecture")
            text = output_of([self.nvdisasm, "-gi", "-c", "-hex", found[0]],
                             "install nvdisasm of CUDA 13.2 or newer: ./tenfold setup tests")
            used = output_of([self.cuobjdump, "-res-usage", found[0]], TO_BUILD)
        resources = {symbol: (int(registers), int(shared)) for symbol, registers, shared in
                     re.findall(r"Function (\S+):\s+REG:(\d+) .*?SHARED:(\d+)", used)}
        return machine_code.functions_of(text), resources


def traps(blocks):
    """What ptx.cuh leaves of an instruction that needs a newer GPU."""
    return any(instruction.name.startswith("BPT.TRAP") for block in blocks for instruction in block.instructions)


def symbol_of(counts):
    return counts["symbol"].replace("kernelsL", "kernels")  # g++ marks what is static in its name, nvcc does not


def static_shared(gpu, reported):
    """Of a block. For 9.0, ptxas reports the 1 KiB with it that the system keeps."""
    own = 1024 if gpu["capability"].startswith("9.") else 0
    return max(0, reported - own)


def launches_on(tools, gpu, name, counted):
    """[(Launch, Solution, blocks)], of each kernel that is launched by an operation. Throws MissingCode, machine_code.NoSolution, and
    gpu_model.DoesNotFit where the GPU cannot run it."""
    functions, resources = tools.machine_code(tools.operation(name).kernel, gpu["capability"])
    found = []
    for counts in counted:
        symbol = symbol_of(counts)
        blocks = functions.get(symbol)
        if blocks is None and gpu["capability"] != "9.0" and symbol in tools.hopper_symbols(tools.operation(name).kernel):
            raise gpu_model.DoesNotFit(f"{symbol} needs compute capability 9.0, not {gpu['capability']}")
        if blocks is None:
            raise MissingCode(f"the build has no machine code of {symbol} for {gpu['capability']}; to fix: {TO_BUILD}")
        if traps(blocks):
            raise gpu_model.DoesNotFit(f"{symbol} needs a newer GPU than {gpu['capability']}")
        registers, static = resources[symbol]
        counts = counts | {"static_shared_bytes": static_shared(gpu, static)}
        solution = tools.solution(symbol, gpu["capability"], blocks, counts)
        found.append((gpu_model.launch_on(gpu, counts, blocks, solution.executions, registers), solution, blocks))
    return found


def times_of(launches):
    """What results/compiler/kernel_times.json says of a rung on one GPU."""
    longest = max(launches, key=lambda launch: launch.seconds)
    bounds = collections.Counter()
    for launch in launches:
        bounds.update(launch.bounds)
    return {"seconds": sum(launch.seconds for launch in launches),
            "bound": longest.bound,
            "bounds": {name: float(f"{seconds:.4g}") for name, seconds in bounds.items() if seconds > 0},
            "instructions": round(sum(launch.instructions * launch.grid for launch in launches)),
            "dram_bytes": round(sum(launch.dram_bytes for launch in launches)),
            "registers": longest.registers,
            "blocks_on_sm": longest.occupancy.blocks,
            "limit": longest.occupancy.limit} | ({"unknown": longest.unknown} if longest.unknown else {})


def modelled(tools, operation, sample):
    """One operation's part of results/compiler/kernel_times.json."""
    rungs, least = [], {}  # least: of each GPU, seconds for the bytes or the arithmetic that no kernel can do without
    name, shape = operation.name, operation.shape
    for rung, rung_name in enumerate(operation.rungs):
        counted = tools.counts(name, rung, shape, sample)
        times = {}
        for key, gpu in tools.gpus.items():
            try:
                solved = launches_on(tools, gpu, name, counted)
            except gpu_model.DoesNotFit as error:
                print(f"{name} {rung}: {key}: {error}")
                continue
            except (MissingCode, machine_code.NoSolution) as error:
                refuse(f"{name} {rung}: {key}: {error}")
            print_unmet(f"{name} {rung}: {key}", solved)
            found = [launch for launch, _, _ in solved]
            least[key] = min(least.get(key, math.inf), sum(launch.least_seconds for launch in found))
            times[key] = times_of(found)
        if not times:
            refuse(f"{name} {rung}: it runs on none of {', '.join(tools.gpus)}; to fix: give it a smaller shape in kernels/{operation.kernel}/{operation.kernel}_case.h")
        rungs.append({"name": rung_name, "gpus": times})
        print(f"{name} {rung}: " + ", ".join(f"{key} {1e6 * time['seconds']:.0f} us by {time['bound']}" for key, time in times.items()), flush=True)
    if operation.peak != "dram_bytes_per_s":
        least = {key: max(seconds, operation.flops / tools.gpus[key][operation.peak]) for key, seconds in least.items()}
    return kernel_resources.entry_of(operation, rungs) | {"date": datetime.date.today().isoformat(), "model": kernel_resources.model_hash(),
                                                          "nvcc": tools.nvcc, "sample": sample, "least_seconds": least}


def committed():
    """{operation: entry} of results/compiler/kernel_times.json."""
    return kernel_resources.entries_of(TARGET)


def write(tools, names, sample):
    known = committed()
    chosen = [tools.operation(name) for name in names or tools.operations]
    for operation in chosen:  # refuses before anything is written
        for gpu in tools.gpus.values():
            try:
                tools.machine_code(operation.kernel, gpu["capability"])
            except MissingCode as error:
                refuse(error)
    for operation in chosen:
        known[operation.name] = modelled(tools, operation, sample_of(operation, sample))
        out = {"schema": "tenfold.kernel_times/2", "gpus": {key: gpu["name"] for key, gpu in tools.gpus.items()},
               "kernels": [known[name] for name in sorted(known) if name in tools.operations]}
        kernel_resources.write_json(TARGET, out)


def sample_of(operation, given):
    return operation.sampled_blocks if given is None else given


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
    parser.error = refuse
    parser.add_argument("kernel", nargs="?")
    parser.add_argument("rung", nargs="?")
    parser.add_argument("shape", nargs="?")
    parser.add_argument("--write", nargs="*", metavar="KERNEL")
    parser.add_argument("--gpu", default="all")
    parser.add_argument("--sample", type=int, help="blocks that the microscope runs of each launch; 0: all")
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--blocks", action="store_true")
    options = parser.parse_args()
    tools = Tools(options.build)
    if options.write is not None and options.kernel is not None:
        refuse("expected --write KERNEL... or KERNEL RUNG SHAPE, not both")
    if options.write is not None:
        write(tools, options.write, options.sample)
        return
    if options.shape is None:
        refuse("expected KERNEL RUNG SHAPE, as in: softmax 3 rows=8192,columns=8192; or --write")
    if options.gpu != "all":
        tools.gpu(options.gpu, "all")
    counted = tools.counts(options.kernel, options.rung, options.shape, sample_of(tools.operation(options.kernel), options.sample))
    asked, missing = list(tools.gpus) if options.gpu == "all" else [options.gpu], []
    for key in asked:
        try:
            found = launches_on(tools, tools.gpus[key], options.kernel, counted)
        except gpu_model.DoesNotFit as error:
            print(f"{key}: {error}")
            continue
        except MissingCode as error:
            missing.append(key)
            if missing == asked:
                refuse(error)
            print(f"{key}: {error}")
            continue
        except machine_code.NoSolution as error:
            refuse(f"{key}: {error}")
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
