"""The model of time: blocks of machine code and how often they run, occupancy, and kernels whose machine code was counted by hand.

usage: kernel_time_test.py --build BUILD
"""

import argparse
import json
import pathlib
import sys
import unittest

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "common" / "tools"))
import gpu_model
import kernel_time
import machine_code

build = None  # set by the command line


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


# for (i = ...) out[i] = in[i]: four at a time in one block, the rest one by one in another.
UNROLLED = disassembly([
    (1, "S2R R0, SR_TID.X"), (1, "@P0 BRA `(.L_rest)"),
    ".L_four", (2, "LDG.E R1, desc[UR4][R2.64]"), (2, "LDG.E R4, desc[UR4][R2.64+0x4]"), (2, "LDG.E R5, desc[UR4][R2.64+0x8]"),
    (2, "LDG.E R6, desc[UR4][R2.64+0xc]"), (3, "FADD R1, R1, R4"), (3, "FADD R1, R1, R5"), (3, "FADD R1, R1, R6"), (2, "@P1 BRA `(.L_four)"),
    ".L_rest", (2, "LDG.E R1, desc[UR4][R2.64]"), (2, "@P2 BRA `(.L_rest)"), (4, "EXIT"),
])


def counted(requests, **others):
    return {"warps": 1, "threads_of_block": 32, "operations": [], "lines": [],
            "accesses": [{"where": "kernels/copy/copy.cuh:2", "space": "global", "kind": "load", "bytes": 4, "requests": requests}]} | others


class Blocks(unittest.TestCase):
    def test_the_graph(self):
        blocks = machine_code.functions_of(UNROLLED)["kernel"]
        self.assertEqual([len(block.instructions) for block in blocks], [2, 8, 2, 1])
        self.assertEqual([sorted(block.to) for block in blocks], [[1, 2], [1, 2], [2, 3], []])
        self.assertEqual(blocks[1].instructions[0].line, "kernels/copy/copy.cuh:2")

    def test_bytes_say_how_often_a_loop_runs_in_its_cheapest_way(self):
        blocks = machine_code.functions_of(UNROLLED)["kernel"]
        # 41 loads: ten times four, and the last one alone.
        self.assertEqual([round(times, 6) for times in machine_code.solve(blocks, counted(41)).executions], [1, 10, 1, 1])
        self.assertEqual(machine_code.solve(blocks, counted(41)).instructions, 2 + 10 * 8 + 2 + 1)

    def test_what_cannot_be_met_is_said(self):
        counts = counted(41, operations=[{"where": "kernels/copy/copy.cuh:9", "name": "shuffle", "count": 3}])
        self.assertEqual(machine_code.solve(machine_code.functions_of(UNROLLED)["kernel"], counts).unmet,
                         [("kernels/copy/copy.cuh:9 shuffle", 3.0, 0)])


class Gpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gpus = kernel_time.Tools(build).gpus

    def test_occupancy_by_hand(self):
        a100, t4 = self.gpus["A100"], self.gpus["T4"]
        self.assertEqual(gpu_model.occupancy(a100, 128, 159, 87040).blocks, 1, "two need 176,128 of 167,936 bytes")
        self.assertEqual(gpu_model.occupancy(a100, 128, 159, 81920).blocks, 2)
        self.assertEqual(gpu_model.occupancy(a100, 256, 128, 0), gpu_model.Occupancy(2, "registers"))
        self.assertEqual(gpu_model.occupancy(t4, 256, 64, 33280), gpu_model.Occupancy(1, "shared memory"))
        self.assertEqual(gpu_model.occupancy(a100, 32, 16, 0), gpu_model.Occupancy(32, "blocks"))

    def test_loads_that_need_nothing_of_each_other_overlap(self):
        blocks = machine_code.functions_of(UNROLLED)["kernel"]
        four, one = machine_code.Block(0, "", blocks[1].instructions), machine_code.Block(0, "", blocks[2].instructions[:1] + blocks[1].instructions[4:5])
        latency = 500
        self.assertLess(gpu_model.clocks_of_warp([four], [1], self.gpus["A100"], latency), latency + 40)
        self.assertGreater(gpu_model.clocks_of_warp([one], [1], self.gpus["A100"], latency), latency)

    def test_rereads_are_served_by_the_cache_that_they_fit(self):
        a100 = self.gpus["A100"]
        counts = {"blocks": 1, "shared_bytes": 0, "static_shared_bytes": 0, "touches": {"in": {"first_reads": 8}},
                  "reads_again": [[1 << 10, 10], [256 << 10, 20], [32 << 20, 30]]}
        self.assertEqual(gpu_model.reads_by_level(counts, a100, 1), (8, {"L1": 10, "L2": 20, "DRAM": 30}))
        self.assertEqual(gpu_model.reads_by_level(counts, a100, 16)[1], {"L1": 10, "DRAM": 50}, "16 blocks of each SM share them")


class HandCounts(unittest.TestCase):
    """Warp instructions that were counted in the listing for 9.0, by eye. nvcc of another version may write others: within 10 %."""

    @classmethod
    def setUpClass(cls):
        cls.tools = kernel_time.Tools(build)
        try:
            cls.tools.machine_code("sgemm", "9.0")
        except kernel_time.MissingCode as error:
            raise unittest.SkipTest(str(error)) from error

    def instructions(self, kernel, rung, shape, which=0):
        counts = self.tools.counts(kernel, rung, shape, 2)
        launch = kernel_time.launches_on(self.tools, self.tools.gpus["H100"], kernel, counts)[which][0]
        return launch.instructions * 32 / counts[which]["threads_of_block"]

    def close(self, found, by_hand):
        self.assertLess(abs(found / by_hand - 1), 0.1, f"{found:.1f}, by hand {by_hand}")

    def test_sgemm_tile(self):
        deep, shallow = (self.instructions("sgemm", 7, f"m=256,n=256,k={k}") for k in (512, 256))
        self.close((deep - shallow) / (256 / 16), 1174)

    def test_bias_gelu_packet(self):
        self.close(self.instructions("bias_gelu", 2, "rows=64,columns=8192") / 4, 220)

    def test_what_is_committed_is_what_the_model_says(self):
        committed = json.loads((kernel_time.root / "results" / "compiler" / "kernel_times.json").read_text())["kernels"]
        for operation, rung in (("transpose", 4), ("rms_norm", 2)):
            entry = next(entry for entry in committed if entry["operation"] == operation)
            counts = self.tools.counts(operation, rung, entry["shape"], kernel_time.sample_of(operation, None))
            for key, seconds in ((key, on["seconds"]) for key, on in entry["rungs"][rung]["gpus"].items()):
                found = kernel_time.launches_on(self.tools, self.tools.gpus[key], operation, counts)
                self.assertLess(abs(sum(launch.seconds for launch, _, _ in found) / seconds - 1), 0.01,
                                f"{operation} {rung} on {key}: the model has changed: common/tools/kernel_time.py --write")

    def test_adamw_packet(self):
        # 165 stand in the listing; 24 of them are calls for numbers too small for the fast square root and division.
        self.close(self.instructions("adamw", 2, "count=131072") / 32, 141)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    build = options.build
    unittest.main(argv=[sys.argv[0], *rest])
