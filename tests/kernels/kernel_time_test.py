"""The model of time: blocks of machine code and how often they run, occupancy, and kernels whose machine code was counted by hand.

usage: kernel_time_test.py --build BUILD
"""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
import unittest.mock

import model_tests
import gpu_model
import kernel_time
import ladder_times
import machine_code
import warp_model
from model_tests import disassembly, root, tools


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
        cls.gpus = tools().gpus

    def test_occupancy_by_hand(self):
        a100, t4 = self.gpus["A100"], self.gpus["T4"]
        self.assertEqual(gpu_model.occupancy(a100, 128, 159, 87040).blocks, 1, "two need 176,128 of 167,936 bytes")
        self.assertEqual(gpu_model.occupancy(a100, 128, 159, 81920).blocks, 2)
        self.assertEqual(gpu_model.occupancy(a100, 256, 128, 0), gpu_model.Occupancy(2, "registers"))
        self.assertEqual(gpu_model.occupancy(t4, 256, 64, 33280), gpu_model.Occupancy(1, "shared memory"))
        self.assertEqual(gpu_model.occupancy(a100, 32, 16, 0), gpu_model.Occupancy(32, "blocks"))
        # 65,536 registers are 9 blocks of 7,168 (32 lanes, 32 warps of 224 registers each), but a quarter holds 2 such warps: 8.
        self.assertEqual(gpu_model.occupancy(a100, 32, 224, 0), gpu_model.Occupancy(8, "registers"))

    def test_without_a_figure_of_l2_it_may_be_what_holds_a_kernel_up(self):
        a6000 = self.gpus["A6000"]
        slowest = a6000["least_l2_over_dram"] * a6000["dram_bytes_per_s"]
        self.assertEqual(gpu_model.unknown_bound(a6000, 2 * slowest, 1), "L2")
        self.assertEqual(gpu_model.unknown_bound(a6000, slowest / 2, 1), "")
        self.assertEqual(gpu_model.unknown_bound(self.gpus["A100"], 1e30, 1), "", "there it is known")

    def test_atomics_on_one_address_queue(self):
        access = {"space": "global", "kind": "atomic", "buffer": "out", "bytes": 4, "lanes": 64}
        counts = {"blocks": 2, "grid_blocks": 1000, "accesses": [access], "touches": {"out": {"bytes": 4}}}
        self.assertEqual(gpu_model.atomic_clocks(counts), 32 * 1000, "32 of each block, all on one float")
        self.assertEqual(gpu_model.atomic_clocks(counts | {"touches": {"out": {"bytes": 400}}}), 32 * 10)
        self.assertEqual(gpu_model.atomic_clocks(counts | {"accesses": [access | {"kind": "load"}]}), 0)
        self.assertEqual(gpu_model.atomic_clocks(counts | {"accesses": [access | {"space": "shared"}]}), 0)

    def test_shared_loads_are_as_wide_as_the_machine_code_has_them(self):
        # Four loads of 4 bytes that all lanes share: a pass each, or one of 16 bytes, which takes two where lanes pair.
        broadcast = {"kind": "load", "bytes": 4, "wavefronts": 4, "wavefronts_8": 8, "wavefronts_16": 8}
        self.assertEqual(gpu_model.wavefronts_of(broadcast, {4: 4}), 4)
        self.assertEqual(gpu_model.wavefronts_of(broadcast, {16: 1}), 2)
        self.assertEqual(gpu_model.wavefronts_of(broadcast, {16: 1, 4: 4}), 3, "half the bytes each way")
        self.assertEqual(gpu_model.wavefronts_of(broadcast, {}), 4, "no load stands on that line")
        self.assertEqual(gpu_model.wavefronts_of(broadcast | {"kind": "store"}, {16: 1}), 4)
        wide = {"kind": "load", "bytes": 16, "wavefronts": 12, "wavefronts_8": 0, "wavefronts_16": 6}
        self.assertEqual(gpu_model.wavefronts_of(wide, {16: 3}), 6, "lanes pair")
        line = machine_code.Instruction(0, None, "LDS.128", "R0, [R4]", "kernels/copy/copy.cuh:2")
        blocks = [machine_code.Block(0, "", [line]), machine_code.Block(0, "", [line, line])]
        self.assertEqual(gpu_model.shared_loads(blocks, [1, 3]), {"kernels/copy/copy.cuh:2": {16: 7}})

    def test_stores_go_by_line_as_loads_do_and_shuffles_go_the_same_way(self):
        def access(space, kind, lines, wavefronts):
            return {"space": space, "kind": kind, "lines": lines, "wavefronts": wavefronts, "bytes": 4, "requests": 1, "where": "kernels/copy/copy.cuh:2",
                    "wavefronts_8": 0, "wavefronts_16": 0}

        rows, columns = access("global", "load", 2, 0), access("global", "store", 64, 0)
        counts = {"blocks": 2, "threads_of_block": 64, "accesses": [rows, columns, access("shared", "load", 0, 10)]}
        turned = counts | {"accesses": [rows | {"kind": "store"}, columns | {"kind": "load"}, counts["accesses"][2]]}
        for of_two_blocks in (counts, turned):
            self.assertEqual(gpu_model.l1_clocks(self.gpus["A100"], of_two_blocks, gpu_model.collections.Counter(SHFL=3), {}), (2 + 64 + 10) / 2 + 2 * 3)
        self.assertEqual(gpu_model.l1_clocks(self.gpus["T4"], counts, gpu_model.collections.Counter(), {}), 2 * (2 + 64 + 10) / 2, "64 bytes a clock")

    def test_products_of_integers_go_where_floats_go(self):
        mixed = gpu_model.collections.Counter({"FFMA": 64, "IMAD": 32, "LOP3": 16, "FMNMX": 16})
        # 64 lanes on an A100 for both; on an H100 128, of which IMAD has 64.
        self.assertAlmostEqual(gpu_model.arithmetic_clocks(self.gpus["A100"], mixed)["FP32"], (64 + 32) * 32 / 64, delta=0.1)
        self.assertAlmostEqual(gpu_model.arithmetic_clocks(self.gpus["H100"], mixed)["FP32"], (64 + 32) * 32 / 128, delta=0.1)
        alone = gpu_model.collections.Counter({"IMAD": 32})
        self.assertAlmostEqual(gpu_model.arithmetic_clocks(self.gpus["H100"], alone)["FP32"], 32 * 32 / 64, delta=0.1)
        # Comparisons, minimum and maximum of floats are with the integers.
        self.assertEqual(gpu_model.arithmetic_clocks(self.gpus["H100"], mixed)["integers"], (16 + 16) * 32 / 64)

    def test_loads_that_need_nothing_of_each_other_overlap(self):
        blocks = machine_code.functions_of(UNROLLED)["kernel"]
        four, one = machine_code.Block(0, "", blocks[1].instructions), machine_code.Block(0, "", blocks[2].instructions[:1] + blocks[1].instructions[4:5])
        latency = 500
        self.assertLess(warp_model.clocks_of_warp([four], [1], self.gpus["A100"], latency), latency + 40)
        self.assertGreater(warp_model.clocks_of_warp([one], [1], self.gpus["A100"], latency), latency)

    def test_a_copy_is_waited_for_by_its_group(self):
        def clocks(left):
            block = machine_code.functions_of(disassembly([
                (1, "LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64]"), (1, "LDGDEPBAR"), (2, "FADD R1, R1, R1"), (2, "FADD R1, R1, R1"),
                (3, "LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64]"), (3, "LDGDEPBAR"), (4, f"DEPBAR.LE SB0, {left}"), (5, "EXIT")]))["kernel"][0]
            return warp_model.clocks_of_warp([block], [1], self.gpus["A100"], 500)
        second, first, none = clocks("0x0"), clocks("0x1"), clocks("0x2")
        self.assertEqual(first, 1 + 500 + 1, "the copy before two additions")
        self.assertGreater(second, first + warp_model.ARITHMETIC_CLOCKS)
        self.assertLess(none, 50, "both may still be under way")

    def test_rereads_are_served_by_the_cache_that_they_fit(self):
        a100 = self.gpus["A100"]
        counts = {"blocks": 1, "shared_bytes": 0, "static_shared_bytes": 0, "touches": {"in": {"first_reads": 8}},
                  "reads_again": [[1 << 10, 10], [256 << 10, 20], [32 << 20, 30]]}
        self.assertEqual(gpu_model.reads_by_level(counts, a100, 1), (8, {"L1": 10, "L2": 20, "DRAM": 30}))
        self.assertEqual(gpu_model.reads_by_level(counts, a100, 16)[1], {"L1": 10, "DRAM": 50}, "16 blocks of each SM share them")


class Ladders(unittest.TestCase):
    def test_a_rate_is_a_time(self):
        ladder = {"flops": 4e9, "bytes": 6e9}
        self.assertEqual([ladder_times.published_seconds(ladder, rung) for rung in ({"gflops_per_s": 2}, {"gbytes_per_s": 2}, {"seconds": 5})], [2, 3, 5])

    def test_a_published_clock_slows_all_but_dram(self):
        a100 = tools().all_gpus["A100"]
        slow = ladder_times.at_clock(a100, a100["clock_hz"] / 2)
        self.assertEqual({name for name in a100 if slow[name] != a100[name]}, {"clock_hz", "flops_per_s", "tensor_flops_per_s", "tensor_int8_per_s", "tensor_fp8_per_s",
                                                                                "l2_bytes_per_s"})
        self.assertEqual(slow["flops_per_s"], a100["flops_per_s"] / 2)
        self.assertIs(ladder_times.at_clock(a100, None), a100)

    def test_every_ladder_names_what_there_is(self):
        for name, ladder in ladder_times.ladders([]).items():
            with self.subTest(name):
                operation = tools().operation(ladder["kernel"])
                self.assertIn(ladder["gpu"], tools().all_gpus)
                self.assertIn(ladder.get("column", ladder["gpu"]), tools().gpus)
                self.assertEqual({pair.partition("=")[0] for pair in ladder["shape"].split(",")}, operation.sizes.keys())
                for rung in ladder["rungs"]:
                    self.assertLess(rung["ours"], len(operation.rungs))
                    self.assertGreater(ladder_times.published_seconds(ladder, rung), 0)


class HandCounts(unittest.TestCase):
    """Warp instructions that were counted in the listing for 9.0, by eye. nvcc of another version may write others: within 10 %."""

    @classmethod
    def setUpClass(cls):
        try:
            tools().machine_code("sgemm", "9.0")
        except kernel_time.MissingCode as error:
            raise unittest.SkipTest(str(error)) from error

    def instructions(self, kernel, rung, shape, which=0):
        counts = tools().counts(kernel, rung, shape, 2)
        launch = kernel_time.launches_on(tools(), tools().gpus["H100"], kernel, counts)[which][0]
        return launch.instructions * 32 / counts[which]["threads_of_block"]

    def close(self, found, by_hand):
        self.assertLess(abs(found / by_hand - 1), 0.1, f"{found:.1f}, by hand {by_hand}")

    def test_sgemm_tile(self):
        deep, shallow = (self.instructions("sgemm", 7, f"m=256,n=256,k={k}") for k in (512, 256))
        self.close((deep - shallow) / (256 / 16), 1174)

    def test_bias_gelu_packet(self):
        self.close(self.instructions("bias_gelu", 2, "rows=64,columns=8192") / 4, 220)

    def test_adamw_packet(self):
        # 165 stand in the listing; 24 of them are calls for numbers too small for the fast square root and division.
        self.close(self.instructions("adamw", 2, "count=131072") / 32, 141)


class Described(unittest.TestCase):
    """What each kernel's program says of itself is all that the model knows of it."""

    def test_a_kernel_is_modelled_because_its_folder_and_its_program_are_there(self):
        description = {"passes": [{"name": "copy_backward", "rungs": ["plain", "wide"], "type": "float", "shape": {"rows": 64, "columns": 3},
                                   "flops": 7.0, "least_bytes": 9, "peak": "flops_per_s", "sampled_blocks": 5}]}
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(kernel_time, "root", pathlib.Path(folder)):
            for program, prints in (("kernels/copy", {"--describe": description, "counts": [{"symbol": "copy"}]}), ("tests/model_gpus", {"": []})):
                file = pathlib.Path(folder) / "build" / program
                file.parent.mkdir(parents=True, exist_ok=True)
                cases = "".join(f"{word!r}) echo {json.dumps(said)!r} ;;\n" for word, said in prints.items())
                file.write_text(f'#!/bin/sh\necho "$@" >>"$0.asked"\ncase "$1" in\n{cases}esac\n')
                file.chmod(0o755)
            case = pathlib.Path(folder) / "kernels" / "copy" / "copy_case.h"
            case.parent.mkdir(parents=True)
            case.touch()
            found = kernel_time.Tools("build")
            self.assertEqual(list(found.operations), ["copy_backward"])
            copy = found.operation("copy_backward")
            self.assertEqual((copy.kernel, copy.rungs, copy.type, copy.shape, copy.flops, copy.peak, kernel_time.sample_of(copy, None)),
                             ("copy", ("plain", "wide"), "float", "rows=64,columns=3", 7.0, "flops_per_s", 5))
            self.assertEqual(kernel_time.sample_of(copy, 0), 0)
            self.assertEqual(found.counts("copy_backward", 1, "rows=2,columns=1", 5), [{"symbol": "copy"}])
            self.assertIn("counts copy_backward 1 rows=2,columns=1 5\n", (pathlib.Path(folder) / "build/kernels/copy.asked").read_text())

    def test_the_arithmetic_that_bounds_a_kernel(self):
        peaks = {name: (operation.peak, operation.flops) for name, operation in tools().operations.items() if operation.peak != "dram_bytes_per_s"}
        product = 8 * 16 * 2048 * 2049 * 128  # a query sees itself and what is before it
        self.assertEqual(peaks, {"flash_attention": ("tensor_flops_per_s", 2 * product), "flash_attention_backward": ("tensor_flops_per_s", 5 * product),
                                 "grouped_combine": ("tensor_flops_per_s", 2 * 4096 * 1024 * 512),
                                 "grouped_combine_backward": ("tensor_flops_per_s", 2 * 4096 * 1024 * 513),
                                 "grouped_combine_input": ("tensor_flops_per_s", 2 * 4096 * 1024 * 512),
                                 "grouped_gemm": ("tensor_flops_per_s", 2 * 4096 * 512 * 1024),
                                 "grouped_gemm_backward": ("tensor_flops_per_s", 2 * 4096 * 512 * 1024),
                                 "hgemm": ("tensor_flops_per_s", 2 * 4096 ** 3), "sgemm": ("flops_per_s", 2 * 4096 ** 3),
                                 "scaled_gemm": ("tensor_fp8_per_s", 2 * 4096 ** 3), "scaled_gemm_int8": ("tensor_int8_per_s", 2 * 4096 ** 3),
                                 "split_k": ("tensor_flops_per_s", 2 * 768 ** 2 * 4096)})

    def test_what_is_published_is_what_is_described(self):
        published = {name: (entry["kernel"], entry["shape"], entry["type"], entry["sample"], tuple(rung["name"] for rung in entry["rungs"]))
                     for name, entry in kernel_time.committed().items()}
        described = {name: (operation.kernel, operation.shape, operation.type, operation.sampled_blocks, operation.rungs)
                     for name, operation in tools().operations.items()}
        self.assertEqual(published, described)


class Benched(unittest.TestCase):
    def test_every_modelled_kernel_is_timed_at_the_shape_of_its_case(self):
        """place.pick() takes a shape from nothing but a pass of a case."""
        for kernel in kernel_time.kernels():
            with self.subTest(kernel):
                source = (root / "bench" / f"{kernel}_bench.cpp").read_text()
                self.assertIn(f'#include "kernels/{kernel}/{kernel}_case.h"', source)
                self.assertIn("place.pick(", source)


class Committed(unittest.TestCase):
    """Every number that is committed of some rungs is what the model says of them today."""

    # Each is counted within a second or two; between them, each of these bounds is the longest of a rung on some GPU.
    RUNGS = (("bias_gelu", 1), ("cross_entropy", 1), ("hgemm", 4), ("hgemm", 6), ("layer_norm", 1), ("layer_norm", 4), ("reduction", 0),
             ("reduction", 1), ("rope", 0), ("scaled_gemm_int8", 3), ("sgemm", 7), ("transpose", 0))
    BOUNDS = {"atomics", "DRAM", "FP32", "L1/shared", "L2", "integers", "issue", "latency", "requests", "tensor cores"}

    @classmethod
    def setUpClass(cls):
        cls.committed = kernel_time.committed()

    def test_all_bounds_are_compared(self):
        on = [times for operation, rung in self.RUNGS for times in self.committed[operation]["rungs"][rung]["gpus"].values()]
        self.assertEqual({times["bound"] for times in on}, self.BOUNDS)

    def test_what_is_committed_is_what_the_model_says(self):
        for operation, rung in self.RUNGS:
            entry = self.committed[operation]
            with self.subTest(f"{operation} {rung}"):
                if tools().nvcc != entry["nvcc"]:  # another compiler may write other instructions
                    self.skipTest(f"built with nvcc {tools().nvcc or 'of no version'}, what is committed with {entry['nvcc']}")
                counts = tools().counts(operation, rung, entry["shape"], kernel_time.sample_of(tools().operation(operation), entry["sample"]))
                for key in tools().gpus:
                    with self.subTest(f"{operation} {rung} on {key}"):
                        self.same(self.found(operation, counts, key), entry["rungs"][rung]["gpus"].get(key))

    def found(self, operation, counts, key):
        try:
            launches = kernel_time.launches_on(tools(), tools().gpus[key], operation, counts)
        except gpu_model.DoesNotFit:
            return None
        except kernel_time.MissingCode as error:
            self.skipTest(str(error))
        return kernel_time.times_of([launch for launch, _, _ in launches])

    def same(self, found, wanted):
        """Within 1 %; bounds that are less than 0.1 % of the time may differ."""
        changed = "the model or the kernel has changed: kernels/model/kernel_time.py --write"
        self.assertEqual(found is None, wanted is None, changed)
        for name in wanted or {}:
            if name == "bounds":
                for bound in found[name].keys() | wanted[name].keys():
                    ours, theirs = found[name].get(bound, 0), wanted[name].get(bound, 0)
                    self.assertLess(abs(ours - theirs), 0.01 * theirs + 0.001 * wanted["seconds"], f"{bound}: {changed}")
            elif isinstance(wanted[name], float) or name in ("instructions", "dram_bytes"):
                self.assertLess(abs(found[name] / wanted[name] - 1), 0.01, f"{name}: {changed}")
            else:
                self.assertEqual(found[name], wanted[name], f"{name}: {changed}")


class Refusals(unittest.TestCase):
    """What cannot be done ends with one line and exit code 2."""

    def refusal(self, *arguments):
        printed, said = io.StringIO(), io.StringIO()
        with unittest.mock.patch("sys.argv", ["kernel_time.py", "--build", model_tests.build, *arguments]), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
            kernel_time.main()
        self.assertEqual((ended.exception.code, printed.getvalue(), said.getvalue().count("\n")), (2, "", 1), said.getvalue())
        return said.getvalue()

    def test_a_kernel_rung_shape_or_gpu_that_is_not_there(self):
        shape = "m=64,n=64,k=64"
        self.assertIn("no kernel 'gemm'; to fix: take one of adamw, ", self.refusal("gemm", "0", shape))
        self.assertIn("rung 99 is not in 0 .. 7; to fix: ", self.refusal("sgemm", "99", shape))
        self.assertIn("to fix: name its sizes as in m=4096,n=4096,k=4096", self.refusal("sgemm", "0", "m=64,n=64"))
        self.assertIn("k must be a whole number from 0; to fix: ", self.refusal("sgemm", "0", "m=64,n=64,k=x"))
        self.assertIn("to fix: take one of all, T4, ", self.refusal("sgemm", "0", shape, "--gpu", "B200"))
        self.assertIn("expected KERNEL RUNG SHAPE", self.refusal("sgemm"))
        self.assertIn("tests/model_gpus is missing; to fix: ", self.refusal("sgemm", "0", shape, "--build", "build/none"))

    def test_nothing_is_written_where_a_gpu_has_no_machine_code(self):
        def machine_code(_, kernel, capability):
            if capability == "7.5":
                raise kernel_time.MissingCode(f"{kernel} has no machine code for {capability}")

        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "kernel_times.json"
            with unittest.mock.patch.object(kernel_time.Tools, "machine_code", machine_code), \
                    unittest.mock.patch.object(kernel_time, "TARGET", target):
                self.assertIn("softmax has no machine code for 7.5", self.refusal("--write", "softmax"))
            self.assertFalse(target.exists())


if __name__ == "__main__":
    model_tests.run()
