"""What the tests of kernels/model share: its modules' folder, the build that they are called with, and machine code as it is printed."""

import argparse
import functools
import pathlib
import sys
import unittest

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "kernels" / "model"))
import kernel_time

build = None  # set by the command line


@functools.cache
def tools():
    return kernel_time.Tools(build)


def disassembly(body):
    """As nvdisasm -gi -c prints it: (line, instruction) pairs, and labels."""
    text, address = ".text.kernel:\n", 0
    for entry in body:
        if isinstance(entry, str):
            text += f"{entry}:\n"
            continue
        line, instruction = entry
        text += f'\t//## File "/home/me/kernels/copy/copy.cuh", line {line}\n        /*{address:04x}*/                   {instruction} ;\n'
        address += 16
    return text


def run():
    """The calling file's tests, with the build that --build names."""
    global build
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    build = options.build
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)  # says why a test is skipped
