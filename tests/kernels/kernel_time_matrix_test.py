"""The model of time on tensor cores that read shared memory by themselves, on copies by TMA, and on products of 8 bits: by hand.

usage: kernel_time_matrix_test.py --build BUILD
"""

import unittest

import model_tests
import gpu_model
import kernel_time
import machine_code
import warp_model
from model_tests import disassembly, tools


def blocks_of(body):
    return machine_code.functions_of(disassembly(body))["kernel"]


def counted(**others):
    return {"warps": 4, "threads_of_block": 128, "operations": [], "lines": [], "accesses": []} | others


WGMMA = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4].tnspB, R24"


class Code(unittest.TestCase):
    def test_flops_stand_in_the_name(self):
        def flops(name):
            return warp_model.flops_of(machine_code.Instruction(0, None, name, "", None))
        self.assertEqual(flops("HMMA.16816.F32.BF16"), 2 * 16 * 8 * 16)
        self.assertEqual(flops("HMMA.1688.F32"), 2 * 16 * 8 * 8)
        self.assertEqual(flops("IMMA.16832.S8.S8"), 2 * 16 * 8 * 32)
        self.assertEqual(flops("IMMA.8816.S8.S8"), 2 * 8 * 8 * 16)
        self.assertEqual(flops("HGMMA.64x256x16.F32"), 2 * 64 * 256 * 16 / 4, "a warp's quarter of its warpgroup's product")
        self.assertEqual(flops("QGMMA.64x256x32.F32.E4M3.E4M3"), 2 * 64 * 256 * 32 / 4)
        self.assertEqual(flops("FFMA"), 0)

    def test_one_lane_asks_for_a_box_once(self):
        blocks = blocks_of([(1, "MOV R0, R1"), ".L_again", (2, "UTMALDG.2D [UR8], [UR4]"), (2, "@P0 BRA.U.ANY `(.L_again)"), (3, "EXIT")])
        self.assertEqual(blocks[1].to, [2])
        counts = counted(operations=[{"where": "kernels/copy/copy.cuh:2", "name": "TMA copy", "count": 4}])
        self.assertEqual(machine_code.solve(blocks, counts).executions, [1, 1, 1])

    def test_a_call_of_a_label_is_a_jump(self):
        blocks = blocks_of([".L_top", (1, "FADD R0, R0, R1"), (1, "@!P0 CALL.REL.NOINC `(.L_end)"), (2, "BRA `(.L_top)"), ".L_end", (3, "EXIT")])
        self.assertEqual([sorted(block.to) for block in blocks], [[1, 2], [0], []])
        function = blocks_of([(1, "CALL.REL.NOINC `($divide)"), (2, "EXIT")])
        self.assertEqual(len(function), 1, "that of a function comes back")

    def test_a_product_of_e4m3_is_as_many_as_it_is_widened_to(self):
        deep, shallow = blocks_of([(1, "HMMA.16816.F32 R0, R4, R8, R0")]), blocks_of([(1, "HMMA.1688.F32 R0, R4, R8, R0")])
        self.assertEqual(machine_code.products_of({"symbol": "gemmI13__nv_fp8_e4m3E"}, deep), 2)
        self.assertEqual(machine_code.products_of({"symbol": "gemmI13__nv_fp8_e4m3E"}, shallow), 4)
        self.assertEqual(machine_code.products_of({"symbol": "gemmI6__halfE"}, deep), 1)
        self.assertEqual(machine_code.products_of({"symbol": "gemmIaE"}, blocks_of([(1, "IMMA.16832.S8.S8 R0, R4, R8, R0")])), 1)
        self.assertEqual(machine_code.products_of({"symbol": "gemmIaE"}, blocks_of([(1, "IMMA.8816.S8.S8 R0, R4, R8, R0")])), 4)


class Warps(unittest.TestCase):
    def clocks(self, body, **others):
        warp = warp_model.Warp(tools().gpus["H100"], 500, **others)
        for block in blocks_of(body):
            warp.run(block)
        return warp.clock

    def test_wgmma_runs_on_until_its_group_is_waited_for(self):
        two = [(1, WGMMA + ", gsb0"), (2, WGMMA + ", gsb0")]
        self.assertLess(self.clocks(two), 10)
        self.assertAlmostEqual(self.clocks([*two, (3, "WARPGROUP.DEPBAR.LE gsb0, 0x1")]), 1 + 128, delta=1)
        self.assertAlmostEqual(self.clocks([*two, (3, "WARPGROUP.DEPBAR.LE gsb0, 0x0")]), 1 + 2 * 128, delta=1)
        self.assertLess(self.clocks([(1, WGMMA), *two[1:], (3, "WARPGROUP.DEPBAR.LE gsb0, 0x1")]), 10, "one group of two")
        self.assertAlmostEqual(self.clocks([*two, (3, "WARPGROUP.DEPBAR.LE gsb0, 0x0")], together=2), 1 + 4 * 128, delta=1)

    def test_who_multiplies(self):
        blocks = blocks_of([(1, "@P0 BRA `(.L_copies)"), (5, "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8"), (6, WGMMA), (7, "EXIT"),
                            ".L_copies", (9, "UTMALDG.2D [UR8], [UR4]"), (9, "EXIT")])
        lines = [{"where": f"kernels/copy/copy.cuh:{line}", "issues": issues} for line, issues in ((1, 12), (6, 8), (7, 8), (9, 4))]
        self.assertEqual(warp_model.multipliers(blocks, {"warps": 12, "lines": lines}), (1, 8 / 12))
        self.assertIsNone(warp_model.multipliers(blocks[2:], {"warps": 12, "lines": lines}), "nobody takes registers")


class ByHand(unittest.TestCase):
    """Bounds of one launch, from formulas of the shape alone."""

    @classmethod
    def setUpClass(cls):
        try:
            for kernel in ("hgemm", "scaled_gemm"):
                for capability in ("8.0", "9.0"):
                    tools().machine_code(kernel, capability)
        except kernel_time.MissingCode as error:
            raise unittest.SkipTest(str(error)) from error

    def launch(self, operation, rung, shape, gpu="H100"):
        counts = tools().counts(operation, rung, shape, 1)
        (launch, solution, _), = kernel_time.launches_on(tools(), tools().gpus[gpu], operation, counts)
        self.assertEqual(solution.unmet, [])
        return launch

    def growth(self, operation, rung, bound, gpu="H100", m=128):
        """Seconds of a bound for each 64 more of k."""
        deep, shallow = (self.launch(operation, rung, f"m={m},n=256,k={k}", gpu).bounds[bound] for k in (4096, 2048))
        return (deep - shallow) / 32

    def test_products_of_wgmma(self):
        # Two warpgroups multiply 64 x 256 by 64: four instructions each, of 128 clocks.
        clock = tools().gpus["H100"]["clock_hz"]
        for rung in (5, 6):
            self.assertAlmostEqual(self.growth("hgemm", rung, "tensor cores") * clock, 2 * 4 * 128, delta=0.2)
        # Shared memory: boxes of 48 KiB on arrival; each instruction reads 16 + 64 wavefronts.
        self.assertAlmostEqual(self.growth("hgemm", 6, "L1/shared") * clock, 48 * 1024 / 128 + 2 * 4 * (16 + 64), delta=0.2)

    def test_bytes_of_boxes(self):
        # A step brings 128 x 64 of A and 64 x 256 of B: from L2, and through no load of a warp.
        rate = tools().gpus["H100"]["l2_bytes_per_s"]
        self.assertAlmostEqual(self.growth("hgemm", 6, "L2") * rate, 2 * 64 * (128 + 256), delta=1)
        self.assertAlmostEqual(self.growth("hgemm", 6, "requests"), 0)
        # Each block of a cluster asks for its A, and for one half of B for both.
        self.assertAlmostEqual(self.growth("hgemm", 9, "L2", m=256) * rate, 2 * 2 * 64 * (128 + 128), delta=1)

    def test_who_waits_for_its_own_boxes_has_both_times(self):
        gpu = tools().gpus["H100"]
        box = 48 * 1024 / (gpu["l2_bytes_per_s"] / gpu["sms"] / gpu["clock_hz"]) + gpu["dram_latency"] + warp_model.BOX_CLOCKS
        waiting = self.growth("hgemm", 5, "latency") * gpu["clock_hz"]
        self.assertGreater(waiting, box + 2 * 4 * 128)
        self.assertLess(waiting, 1.1 * (box + 2 * 4 * 128))
        # With copies ahead a warpgroup by itself has its four products, and what stands between them.
        ahead = self.growth("hgemm", 6, "latency") * gpu["clock_hz"]
        self.assertGreaterEqual(ahead, 4 * 128 - 0.1)
        self.assertLess(ahead, 1.1 * 4 * 128)

    def test_products_of_8_bits(self):
        # A step of 64 of k: a block of 128 x 64 does 2 x 128 x 64 x 64, four blocks lie side by side on four SMs.
        operations = 2 * 128 * 64 * 64
        for gpu, share in (("A100", 1), ("H100", 0.629)):
            with self.subTest(gpu):
                here = tools().gpus[gpu]
                int8, e4m3 = (self.growth(name, 3, "tensor cores", gpu) for name in ("scaled_gemm_int8", "scaled_gemm"))
                self.assertAlmostEqual(int8, operations / (here["tensor_int8_per_s"] * share / here["sms"]), delta=1e-3 * int8)
                self.assertAlmostEqual(e4m3, operations / (here["tensor_flops_per_s"] * share / here["sms"]), delta=1e-3 * e4m3,
                                       msg="as fp16: neither GPU's mma.sync multiplies e4m3")

    def test_e4m3_is_widened_by_instructions(self):
        # On 9.0 an F2FP for each two values: for 8 products of a warp 2 fragments of A, of 4 registers, and 4 of B, of 2; 64 lanes a clock.
        clock, products = tools().gpus["H100"]["clock_hz"], 128 * 64 * 64 / (16 * 8 * 32)
        more = (self.growth("scaled_gemm", 3, "integers") - self.growth("scaled_gemm_int8", 3, "integers")) * clock
        by_hand = products / 8 * 2 * (2 * 4 + 4 * 2) * 32 / 64
        self.assertGreater(more, 0.9 * by_hand)
        self.assertLess(more, 1.25 * by_hand)

    def test_a_rung_of_9_0_fits_no_other_gpu(self):
        counts = tools().counts("hgemm", 6, "m=128,n=256,k=64", 1)
        with self.assertRaisesRegex(gpu_model.DoesNotFit, "needs compute capability 9.0, not 8.0"):
            kernel_time.launches_on(tools(), tools().gpus["A100"], "hgemm", counts)


if __name__ == "__main__":
    model_tests.run()
