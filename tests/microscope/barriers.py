#!/usr/bin/env python3
"""Is every barrier and fence of every kernel needed, and would a test tell? Each __syncthreads(), __syncwarp(), __threadfence() and
cp_async_wait<N>() of kernels/ is taken out in turn, on a copy, and of Hopper's kernels (NAME_sm90.cu) each fence, arrival, commit and
wait of mbarriers, clusters, TMA's stores and wgmma; the kernel is built for the microscope and its own test must fail, by a race that was seen, a fault or a
wrong result.

A barrier whose removal no test notices is unproven. It passes only with a reason in unproven_barriers.txt, one a line:

    kernels/NAME/NAME.cuh:LINE: why no test can see it

The built test program is used as it is: the changed kernel is preloaded and takes the place of the one in the library. What is built
lies in a folder for temporary files.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BARRIER = re.compile(r"(?:__sync(?:threads|warp)|__threadfence|cp_async_wait<[^<>;]*>|mbarrier_(?:init_fence|arrive\w*|wait\w*)|"
                     r"cluster_(?:arrive|wait)|named_barrier_(?:sync|arrive)|fence_async_proxy|tma_store_(?:commit|wait\w*<[^<>;]*>)|wgmma_(?:fence|commit|settle|wait<[^<>;]*>))\([^()]*\);")
FAULT = re.compile(r"^kernels/\S+:\d+: ", re.M)  # as KernelTest says it
TIMEOUT_S = 120


def included_by(path, tree):
    """The files of `tree` that a file includes, itself among them."""
    found, todo = set(), [path]
    while todo:
        file = todo.pop()
        if file in found:
            continue
        found.add(file)
        for name in re.findall(r'^\s*#include "([^"]+)"', file.read_text(), re.M):
            for place in (file.parent / name, tree.parent / name):
                if place.exists():
                    todo.append(place.resolve())
                    break
    return found


def barriers_of(tree):
    """(file, line number, (begin, end) in the line) of every barrier and fence that is code and not comment."""
    for file in sorted([*tree.glob("**/*.cuh"), *tree.glob("*/*_sm90.cu")]):
        if file.name == "launch.cuh" or file.name.startswith("ptx"):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            comment = line.find("//")
            for match in BARRIER.finditer(line):
                if comment < 0 or match.start() < comment:
                    yield file, number, match.span()


class Kernel:
    def __init__(self, options, tree, name):
        self.options, self.tree, self.name = options, tree, name
        self.sources = [source for source in (tree / name / f"{name}.cu", tree / name / f"{name}_sm90.cu") if source.exists()]
        self.included = {source: included_by(source, tree) for source in self.sources}
        self.files = set().union(*self.included.values())
        self.compiled = {}  # of each source, the text of all that it includes
        self.program = options.tests / f"kernel_{name}_test"
        self.library = tree.parent / f"{name}.so"

    def build(self):
        o = self.options
        include = [f"-I{self.tree.parent}", f"-I{SOURCE}", *(f"-isystem{folder}" for folder in o.system_include.split(";") if folder)]
        objects = []
        for source in self.sources:
            wrapper = self.tree.parent / f"{source.stem}_microscope.cpp"
            objects.append(wrapper.with_suffix(".o"))
            text = "".join(file.read_text() for file in sorted(self.included[source]))
            if self.compiled.get(source) == text:
                continue
            self.compiled[source] = text
            wrapper.write_text(f'#include "kernels/{self.name}/{source.name}"\n')
            subprocess.run([o.compiler, "-std=c++20", *shlex.split(o.flags), "-w", "-Wno-psabi", "-fPIC", *include, "-c", wrapper, "-o", objects[-1]], check=True)
        # Apart, because with -fsanitize=thread the linker would add ThreadSanitizer itself.
        subprocess.run([o.compiler, "-shared", *objects, "-o", self.library, o.engine], check=True)

    def fails(self):
        """Why the test fails with the library that was built last; None when it passes."""
        environment = dict(os.environ, LD_PRELOAD=str(self.library), OMP_NUM_THREADS="1")
        command = [self.program, "--gtest_brief=1", "--gtest_fail_fast"]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, errors="replace")
        except subprocess.TimeoutExpired:
            return "no end"
        if "cannot be preloaded" in ran.stderr or "symbol lookup error" in ran.stderr:
            sys.exit(ran.stderr)
        if ran.returncode == 0:
            return None
        if ran.returncode < 0:
            return f"signal {-ran.returncode}"
        if "race between" in ran.stdout:
            return "race"
        return "fault" if FAULT.search(ran.stdout) else "wrong result"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--flags", required=True, help="TENFOLD_MICROSCOPE_FLAGS of TenfoldMicroscope.cmake")
    parser.add_argument("--system-include", default="", help="CUDA's headers; several with ;")
    parser.add_argument("--engine", required=True, help="libtenfold_microscope.so")
    parser.add_argument("--tests", required=True, type=pathlib.Path, help="folder of the built test programs")
    parser.add_argument("files", nargs="*", help="only barriers of these files, such as kernels/transpose/transpose.cuh")
    options = parser.parse_args()

    listed, unproven_list = {}, SOURCE / "tests/microscope/unproven_barriers.txt"
    for text in unproven_list.read_text().splitlines():
        if text.strip() and not text.startswith("#"):
            place, _, reason = text.partition(": ")
            if not reason.strip():
                sys.exit(f"{unproven_list.name}: no reason: {text}")
            listed[place] = reason

    bad, seen, caught = [], set(), 0
    with tempfile.TemporaryDirectory(prefix="tenfold-barriers-") as scratch:
        tree = pathlib.Path(scratch).resolve() / "kernels"
        shutil.copytree(SOURCE / "kernels", tree)
        kernels = [Kernel(options, tree, path.stem) for path in sorted(tree.glob("*/*.cu")) if not path.stem.endswith("_sm90")]
        kernels = [kernel for kernel in kernels if kernel.program.exists() or print(f"{kernel.name}: no test program, not tried")]
        unchanged = set()
        print(f"{'barrier':<44} {'test':<16} {'result':<14} seconds")
        for file, number, (begin, end) in barriers_of(tree):
            place = f"kernels/{file.relative_to(tree)}:{number}"
            if options.files and place.rpartition(":")[0] not in options.files:
                continue
            seen.add(place)
            users = sorted((k for k in kernels if file in k.files), key=lambda k: (k.name != file.parent.name, k.name))
            start, why, by = time.monotonic(), None, None
            original = file.read_text()
            for kernel in users:
                if kernel.name not in unchanged:  # else a test that always fails would prove everything
                    kernel.build()
                    if why := kernel.fails():
                        sys.exit(f"kernel_{kernel.name}_test fails on the unchanged kernel: {why}")
                    unchanged.add(kernel.name)
                lines = original.splitlines(keepends=True)
                lines[number - 1] = lines[number - 1][:begin] + ";" + lines[number - 1][end:]
                file.write_text("".join(lines))
                try:
                    kernel.build()
                    why, by = kernel.fails(), kernel.name
                finally:
                    file.write_text(original)
                if why:
                    break
            caught += why is not None
            text = f"caught: {why}" if why else "unproven"
            print(f"{place:<44} {by or '-':<16} {text:<20} {time.monotonic() - start:.0f}", flush=True)
            if why and place in listed:
                bad.append(f"{place} is listed as unproven, but its removal is caught ({why})")
            if not why and place not in listed:
                bad.append(f"{place}: no test notices when it is gone: {original.splitlines()[number - 1].strip()}")
    for place in sorted(set(listed) - seen):
        if not options.files:
            bad.append(f"{unproven_list.name} lists {place}, where no barrier is")
    print(f"{len(seen)} barriers, {caught} caught, {len(seen) - caught} unproven")
    for text in bad:
        print(text)
    return 1 if bad or caught == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
