"""Whether Hopper's rungs of flash_attention overlap in machine code what they overlap in the source: ptxas may move a wait for wgmma
away from where it stands, and the results stay right.

usage: attention_overlap_test.py --build BUILD
"""

import argparse
import pathlib
import re
import sys
import sysconfig
import shutil
import subprocess
import tempfile
import unittest

OBJECT = "kernels/CMakeFiles/tenfold_kernels_sm90.dir/flash_attention/flash_attention_sm90.cu.o"
SCORES = 64  # of a thread and a tile: 128 keys and 64 queries for 128 threads
build = None  # set by the command line


def tool(name, packaged):
    """The disassembler's programs, as kernels/model/kernel_time.py looks for them."""
    path = pathlib.Path(sysconfig.get_paths()["purelib"]) / packaged
    return path if path.exists() else shutil.which(name)


def functions():
    """{symbol: instructions} of the rungs' machine code; None where it was not built or cannot be read."""
    cuobjdump, nvdisasm = tool("cuobjdump", "triton/backends/nvidia/bin/cuobjdump"), tool("nvdisasm", "nvidia/cu13/bin/nvdisasm")
    if not (build / OBJECT).exists() or cuobjdump is None or nvdisasm is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([cuobjdump, "-xelf", "all", build / OBJECT], check=True, cwd=folder, capture_output=True)
        cubin, = pathlib.Path(folder).glob("*.cubin")
        text = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
    code, symbol = {}, None
    for line in text.splitlines():
        if label := re.match(r"\.text\.(\S+):", line):
            symbol = label[1]
            code[symbol] = []
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?) *;", line):
            code[symbol].append(instruction[1])
    return code


class Overlap(unittest.TestCase):
    def setUp(self):
        self.code = functions()
        if self.code is None:
            self.skipTest(f"no {OBJECT} in this build, which is for compute capability 9.0, or no disassembler")

    def rung(self, order):
        """The functions of an AttentionOrder: two types and two head dimensions."""
        chosen = {symbol: code for symbol, code in self.code.items() if f"AttentionOrderE{order}E" in symbol}
        self.assertEqual(len(chosen), 4, f"of {list(self.code)}")
        return chosen

    def test_the_softmax_lies_between_the_waits(self):
        for symbol, code in self.rung(2).items():
            begin = next(i for i, text in enumerate(code) if "WARPGROUP.DEPBAR.LE gsb0, 0x1" in text)
            end = next(i for i in range(begin, len(code)) if "WARPGROUP.DEPBAR.LE gsb0, 0x0" in code[i])
            exponentials = sum("MUFU.EX2" in text for text in code[begin:end])
            self.assertGreaterEqual(exponentials, SCORES, f"{symbol}: the wait for the product with v comes before the softmax")

    def test_a_turn_is_passed_on_when_its_products_have_begun(self):
        for order in (1, 2):
            for symbol, code in self.rung(order).items():
                waits = [i for i, text in enumerate(code) if "WARPGROUP.DEPBAR" in text]
                products = [i for i, text in enumerate(code) if "HGMMA" in text]
                passes = [i for i, text in enumerate(code) if "BAR.ARV" in text and i > products[0]]
                for place in passes:
                    last = max(i for i in products if i < place)
                    self.assertFalse([i for i in waits if last < i < place], f"{symbol}: a turn is kept until its products are done")

    def test_products_are_not_made_to_wait_for_each_other(self):
        """Where ptxas cannot follow the registers of wgmma, it waits behind each of them."""
        for order in (0, 1, 2):
            for symbol, code in self.rung(order).items():
                waits = sum("WARPGROUP.DEPBAR" in text for text in code)
                self.assertLess(waits, 6, f"{symbol}: {waits} waits")
                self.assertFalse([text for text in code if re.search(r"\b(LDL|STL)\b", text)], f"{symbol} spills")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    options, rest = parser.parse_known_args()
    build = options.build
    unittest.main(argv=[sys.argv[0], *rest])
