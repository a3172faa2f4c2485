"""Whether Hopper's rungs of flash_attention and scaled_gemm overlap in machine code what they overlap in the source: ptxas may move a
wait for wgmma away from where it stands, or add one, and the results stay right.

usage: hopper_overlap_test.py --build BUILD
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

OBJECT = "kernels/CMakeFiles/tenfold_kernels_sm90.dir/{0}/{0}_sm90.cu.o"
SCORES = 64  # of a thread and a tile: 128 keys and 64 queries for 128 threads
SUMS = 64  # of a thread and a block of k in scaled_gemm: 128 columns and 64 rows for 128 threads
build = None  # set by the command line


def tool(name, packaged):
    """The disassembler's programs, as kernels/model/kernel_time.py looks for them."""
    path = pathlib.Path(sysconfig.get_paths()["purelib"]) / packaged
    return path if path.exists() else shutil.which(name)


def functions(kernel):
    """{symbol: instructions} of its rungs' machine code; None where it was not built or cannot be read."""
    made = build / OBJECT.format(kernel)
    cuobjdump, nvdisasm = tool("cuobjdump", "triton/backends/nvidia/bin/cuobjdump"), tool("nvdisasm", "nvidia/cu13/bin/nvdisasm")
    if not made.exists() or cuobjdump is None or nvdisasm is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([cuobjdump, "-xelf", "all", made], check=True, cwd=folder, capture_output=True)
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


class Rungs(unittest.TestCase):
    kernel = None  # its name

    def setUp(self):
        self.code = functions(self.kernel)
        if self.code is None:
            self.skipTest(f"no {OBJECT.format(self.kernel)} in this build, which is for compute capability 9.0, or no disassembler")

    def assert_waits(self, symbol, code, most):
        """Where ptxas cannot follow the registers of wgmma, it waits behind each of them."""
        waits = sum("WARPGROUP.DEPBAR" in text for text in code)
        self.assertLessEqual(waits, most, f"{symbol}: {waits} waits")
        self.assertFalse([text for text in code if re.search(r"\b(LDL|STL)\b", text)], f"{symbol} spills")


class Attention(Rungs):
    kernel = "flash_attention"

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
        for order in (0, 1, 2):
            for symbol, code in self.rung(order).items():
                self.assert_waits(symbol, code, most=5)


class ScaledGemm(Rungs):
    kernel = "scaled_gemm"

    def rung(self, number):
        """Its two functions: one scale for each tensor, and scales of blocks."""
        template = {5: "ELb0ELi1E", 6: "ELb1ELi1E", 7: "ELb1ELi2E"}[number]
        chosen = {symbol: code for symbol, code in self.code.items() if template in symbol}
        self.assertEqual(len(chosen), 2, f"of {list(self.code)}")
        return chosen

    def test_products_are_of_fp8_and_not_made_to_wait_for_each_other(self):
        for number, places, waits in ((5, 1, 1), (6, 4, 5), (7, 4, 5)):  # rungs 6 and 7 start products at four places, and have two ends
            for symbol, code in self.rung(number).items():
                self.assertEqual(sum("QGMMA.64x128x32.F32.E4M3.E4M3" in text for text in code), 4 * places, symbol)
                self.assert_waits(symbol, code, waits)

    def test_sums_are_promoted_while_the_next_product_runs(self):
        for symbol, code in {**self.rung(6), **self.rung(7)}.items():
            waits = [i for i, text in enumerate(code) if "WARPGROUP.DEPBAR" in text]
            overlapped = [i for i in waits if "gsb0, 0x1" in code[i]]
            self.assertEqual(len(overlapped), 3, f"{symbol}: one for each product that is started before another one's sums are promoted")
            for wait in overlapped:
                after = code[wait + 1:]
                end = next(i for i, text in enumerate(after) if re.search(r"WARPGROUP|QGMMA|DEPBAR", text))
                self.assertGreaterEqual(sum(text.startswith("FFMA") for text in after[:end]), SUMS, symbol)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    options, rest = parser.parse_known_args()
    build = options.build
    unittest.main(argv=[sys.argv[0], *rest])
