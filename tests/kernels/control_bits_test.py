"""The control bits of machine code: their decoding, held against what any right program must do, in every kernel that was built.

usage: control_bits_test.py --build BUILD
"""

import contextlib
import dataclasses
import io
import sys
import unittest
import unittest.mock

import model_tests
import control_bits
import kernel_time
import listing as listings
import machine_code
import warp_model


def listing(rows):
    """As nvdisasm -gi -c -hex prints it, of (instruction, upper half of its bits) pairs and labels."""
    text, address = ".text.kernel:\n", 0
    for row in rows:
        if isinstance(row, str):
            text += f"{row}:\n"
            continue
        text += (f'\t//## File "/home/me/kernels/copy/copy.cuh", line 7\n        /*{address:04x}*/                   {row[0]} ;      /* 0x00000000000a7919 */\n'
                 f"{' ' * 60}/* 0x{row[1]:016x} */\n")
        address += 16
    return machine_code.functions_of(text)["kernel"]


def bits(stall=1, sets=7, frees=7, waits=0, reuse=0, yields=0):
    """The upper half of an instruction: the bit is 0 where it yields."""
    return (stall | (1 - yields) << 4 | sets << 5 | frees << 8 | waits << 11 | reuse << 17) << 41


def hazards(blocks):
    return control_bits.hazards(blocks, warp_model.dataflow)


LOAD = "LDG.E R4, desc[UR4][R2.64]"


class Decoding(unittest.TestCase):
    def test_words_decoded_by_hand(self):
        """Of a listing of sgemm's first rung for 9.0: bits 105 to 125 of each, by eye."""
        self.assertEqual(control_bits.control_of(0x000e220000002500 << 64), control_bits.Control(1, False, 0, None, (), 0), "S2R: sets barrier 0")
        self.assertEqual(control_bits.control_of(0x001fc800078e00ff << 64), control_bits.Control(4, True, None, None, (0,), 0), "waits for 0")
        self.assertEqual(control_bits.control_of(0x000fe20000000800 << 64), control_bits.Control(1, False, None, None, (), 0))

    def test_each_field_in_its_place(self):
        control = control_bits.Control(13, True, 2, 5, (0, 3, 5), 0b1010)
        self.assertEqual(control_bits.control_of(bits(13, 2, 5, 0b101001, 0b1010, 1) << 64 | (1 << 64) - 1), control)

    def test_both_halves_are_read_from_a_listing(self):
        blocks = listing([(LOAD, bits(sets=3)), ("EXIT", bits(stall=5))])
        self.assertEqual([row.control.sets for row in blocks[0].instructions], [3, None])
        self.assertEqual(blocks[0].instructions[1].control.stall, 5)
        self.assertEqual(blocks[0].instructions[0].line, "kernels/copy/copy.cuh:7")


class Waiting(unittest.TestCase):
    def test_who_needs_a_loaded_register_waits(self):
        use = "FADD R5, R4, R6"
        self.assertEqual(len(hazards(listing([(LOAD, bits(sets=3)), (use, bits())])).too_early), 1)
        self.assertEqual(len(hazards(listing([(LOAD, bits(sets=3)), (use, bits(waits=0b010000))])).too_early), 1, "another barrier")
        waited = hazards(listing([(LOAD, bits(sets=3)), (use, bits(waits=0b001000)), (use, bits())]))
        self.assertEqual((waited.loads, waited.uses, waited.too_early), (1, 1, []))

    def test_on_every_way(self):
        rows = [(LOAD, bits(sets=0)), ("@P0 BRA `(.L_2)", bits()), ("FADD R7, R4, R6", bits(waits=1)), ".L_2", ("FADD R5, R4, R6", bits()), ("EXIT", bits())]
        self.assertEqual(len(hazards(listing(rows)).too_early), 1, "the way of the branch has not waited")
        rows = [".L_1", ("FADD R5, R4, R6", bits()), (LOAD, bits(sets=0)), ("@P0 BRA `(.L_1)", bits()), ("EXIT", bits())]
        self.assertEqual(len(hazards(listing(rows)).too_early), 2, "the next time of the loop, the load itself as well")

    def test_a_load_without_a_barrier_is_waited_for_with_the_next_of_its_pipe(self):
        def of(second, waits):
            return hazards(listing([("LDS R4, [R2]", bits()), (second, bits(sets=1)), ("FADD R5, R4, R6", bits(waits=waits))]))

        self.assertEqual((of("LDS R8, [R2]", 0b10).too_early, len(of("LDS R8, [R2]", 0b10).without_barrier)), ([], 1))
        self.assertEqual(len(of("LDS R8, [R2]", 0).too_early), 1)
        self.assertEqual(len(of("MUFU.EX2 R8, R9", 0b10).too_early), 1, "another pipe")

    def test_an_exchange_whose_result_nobody_wants_writes_nothing(self):
        exchange = ("ATOMG.E.EXCH.STRONG.GPU PT, RZ, desc[UR6][R4.64], R7", bits(sets=0, frees=1))
        found = hazards(listing([exchange, ("SEL R7, RZ, 0x1, !P0", bits(waits=0b10)), ("FADD R5, R7, R6", bits())]))
        self.assertEqual((found.too_early, found.too_early_overwrites), ([], []))
        self.assertEqual(len(hazards(listing([exchange, ("SEL R7, RZ, 0x1, !P0", bits())])).too_early_overwrites), 1, "it is read")

    def test_no_register_is_overwritten_before_it_was_read(self):
        store = "STG.E.128 desc[UR4][R2.64], R4"
        self.assertEqual(len(hazards(listing([(store, bits(frees=2)), ("FADD R7, R8, R6", bits())])).too_early_overwrites), 1, "the fourth that is stored")
        self.assertEqual(hazards(listing([(store, bits(frees=2)), ("FADD R7, R8, R6", bits(waits=0b100))])).too_early_overwrites, [])

    def test_a_fixed_chain_is_as_far_apart_as_its_stalls(self):
        rows = [("FFMA R4, R5, R6, R7", bits(stall=3)), ("MOV R9, R8", bits(stall=2)), ("FADD R1, R4, R2", bits(stall=4)), ("FMUL R1, R1, R2", bits())]
        self.assertEqual(control_bits.fixed_distances(listing(rows), warp_model.dataflow), {5: 1, 4: 1})


class OnTheirWay(unittest.TestCase):
    """Loads of a warp that nobody has waited for yet."""

    def most(self, rows, executions=None):
        blocks = listing(rows)
        found = listings.loads_in_flight(blocks, executions or [1] * len(blocks))
        return found.number, found.bytes

    def test_until_the_first_wait(self):
        wide, narrow = "LDG.E.128 R8, desc[UR4][R2.64]", "LDG.E R4, desc[UR4][R2.64]"
        self.assertEqual(self.most([(wide, bits(sets=0)), (narrow, bits(sets=1)), ("FADD R5, R4, R6", bits(waits=0b10))]), (2, 32 * 20))
        self.assertEqual(self.most([(wide, bits(sets=0)), ("FADD R5, R8, R6", bits(waits=1)), (narrow, bits(sets=1))]), (1, 32 * 16))

    def test_what_a_loop_has_taken_along_counts_once(self):
        rows = [("MOV R1, R2", bits()), ".L_1", (LOAD, bits(sets=0)), ("FADD R5, R5, R6", bits()), ("@P0 BRA `(.L_1)", bits()), ("EXIT", bits())]
        self.assertEqual(self.most(rows, [1, 50, 1]), (1, 128))

    def test_copies_go_by_groups(self):
        copy, close = ("LDGSTS.E.128 [R2], desc[UR4][R2.64]", bits()), ("LDGDEPBAR", bits(sets=0))
        rows = [copy, close, copy, copy, close, ("DEPBAR.LE SB0, 0x1", bits()), copy, close]
        self.assertEqual(self.most(rows), (3, 3 * 512), "three before the wait; two and another behind it")
        self.assertEqual(self.most([copy, close, copy, close, ("DEPBAR.LE SB0, 0x0", bits()), copy]), (2, 2 * 512))

    def test_the_place_is_where_most_is_loaded(self):
        rows = [(LOAD, bits(sets=0)), (LOAD.replace("R4", "R5"), bits(sets=1)), ("FADD R4, R4, R5", bits(waits=0b11)),
                ".L_1", (LOAD, bits(sets=0)), ("FADD R5, R4, R6", bits(waits=1)), ("@P0 BRA `(.L_1)", bits()), ("EXIT", bits())]
        self.assertEqual(self.most(rows, [1, 50, 1]), (1, 128))
        self.assertEqual(self.most(rows, [1, 1, 1]), (2, 256))

    def test_a_listing_names_the_source_line_once(self):
        lines = listings.lines_of(listing([(LOAD, bits(stall=2, sets=3)), ("@!P0 FADD R5, R4, R6", bits(stall=4, waits=0b1001, yields=1))])[0])
        self.assertEqual([line.split() for line in lines[1:]], [
            ["kernels/copy/copy.cuh:7"], ["0x0", "2", ".", "3", ".", ".", *LOAD.split()], ["0x10", "4", "yes", ".", ".", "0,3", "@!P0", "FADD", "R5,", "R4,", "R6"]])
        self.assertEqual(listings.lines_of(listing([(LOAD, bits())])[0], "other.cuh"), [])


class EveryKernel(unittest.TestCase):
    """Independent evidence for the decoding: the code would be wrong if this did not hold, and it holds by no accident."""

    @classmethod
    def setUpClass(cls):
        cls.tools, cls.code = model_tests.tools(), {}
        for kernel in kernel_time.kernels():
            # The bits are the same for all: of the others one kernel shows it, since a kernel takes seconds.
            for capability in ("7.5", "8.0", "9.0") if kernel == "softmax" else ("9.0",):
                try:
                    cls.code[kernel, capability] = cls.tools.machine_code(kernel, capability)[0]
                except kernel_time.MissingCode:
                    continue
        if not cls.code:
            raise unittest.SkipTest("the build has no machine code: nvcc is not there")

    def functions(self):
        for (kernel, capability), functions in self.code.items():
            for symbol, blocks in functions.items():
                yield f"{kernel} {capability} {symbol}", blocks

    def test_every_use_waits_and_every_global_load_sets_a_barrier(self):
        uses = loads = overwrites = 0
        for name, blocks in self.functions():
            found = hazards(blocks)
            early = [f"{load.address:#x} {load.name} -> {use.address:#x} {use.name} {use.operands}" for load, use in found.too_early + found.too_early_overwrites]
            self.assertEqual(early, [], name)
            self.assertEqual([row.name for row in found.without_barrier if row.kind not in control_bits.PIPES], [], name)
            uses, loads, overwrites = uses + found.uses, loads + found.loads, overwrites + found.overwrites
        print(f"{loads} loads, {uses} uses, {overwrites} overwrites", file=sys.stderr)
        self.assertGreater(min(uses, loads, overwrites), 1000)

    def test_a_chain_of_fma_is_four_clocks_apart_and_never_less(self):
        distances = {}
        for name, blocks in self.functions():
            for clocks, times in control_bits.fixed_distances(blocks, warp_model.dataflow).items():
                distances[clocks] = distances.get(clocks, 0) + times
        self.assertEqual(min(distances), warp_model.ARITHMETIC_CLOCKS)
        self.assertEqual(max(distances, key=distances.get), warp_model.ARITHMETIC_CLOCKS)

    def test_no_operand_is_kept_where_the_warp_yields(self):
        """Another warp would overwrite it. This is why the bit is taken to ask for another warp where it is 0."""
        rows = [row.control for _, blocks in self.functions() for block in blocks for row in block.instructions]
        self.assertGreater(sum(control.yields for control in rows), 1000)
        self.assertGreater(sum(control.reuse > 0 for control in rows), 1000)
        self.assertEqual(sum(control.yields and control.reuse > 0 for control in rows), 0)

    def test_bits_taken_from_one_place_beside_would_be_noticed(self):
        """The check could fail: with the barriers one bit to the left or to the right, nearly nothing agrees."""
        blocks = max((blocks for _, blocks in self.functions()), key=lambda blocks: sum(len(block.instructions) for block in blocks))
        right = hazards(blocks)
        for move in (-1, 1):
            moved = [dataclasses.replace(block, instructions=[self.moved(row, move) for row in block.instructions]) for block in blocks]
            wrong = hazards(moved)
            self.assertGreater(len(wrong.too_early) + len(wrong.too_early_overwrites), right.uses / 4)

    @staticmethod
    def moved(row, move):
        control = row.control
        sets, frees = (7 if barrier is None else barrier for barrier in (control.sets, control.frees))
        word = bits(control.stall, sets, frees, sum(1 << i for i in control.waits), control.reuse, int(control.yields)) << 64
        return dataclasses.replace(row, control=control_bits.control_of(word << 1 if move > 0 else word >> 1))

    def test_a_wait_that_is_missing_is_noticed(self):
        """In softmax's kernels of bfloat16, each instruction's waits taken away in turn. Some are for predicates, which nothing here follows."""
        noticed = taken = 0
        softmax = next(functions for (kernel, _), functions in self.code.items() if kernel == "softmax")
        for blocks in (blocks for symbol, blocks in softmax.items() if "bfloat16" in symbol):
            for block in blocks:
                for row in block.instructions:
                    if row.control.waits:
                        with unittest.mock.patch.object(row, "control", dataclasses.replace(row.control, waits=())):
                            found = hazards(blocks)
                        taken += 1
                        noticed += bool(found.too_early or found.too_early_overwrites)
        print(f"{noticed} of {taken} waits", file=sys.stderr)
        self.assertGreater(noticed, 0.7 * taken)


class Command(unittest.TestCase):
    def run_with(self, *arguments):
        printed, said, code = io.StringIO(), io.StringIO(), 0
        with unittest.mock.patch("sys.argv", ["listing.py", "--build", model_tests.build, *arguments]), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            try:
                listings.main()
            except SystemExit as ended:
                code = ended.code
        return code, printed.getvalue(), said.getvalue()

    def test_a_kernel_rung_or_gpu_that_is_not_there(self):
        for arguments, reason in ((("gemm", "0"), "no kernel 'gemm'; to fix: "), (("sgemm",), "expected KERNEL RUNG"), (("sgemm", "99"), "rung 99 is not in 0 .. 7"),
                                  (("sgemm", "0", "--gpu", "B200"), "to fix: take one of T4, "), (("sgemm", "0", "--write"), "not both")):
            code, printed, said = self.run_with(*arguments)
            self.assertEqual((code, printed, said.count("\n")), (2, "", 1), said)
            self.assertIn(reason, said)

    def test_a_line_of_the_source_with_its_machine_code(self):
        code, printed, said = self.run_with("reduction", "5", "--line", "reduction.cuh:115", "--hot")
        if code == 2:
            self.skipTest(said)
        self.assertIn("const float4 values = middle[i];", printed)
        self.assertIn("LDG.E.128", printed)
        self.assertNotIn("FADD", printed, "that is another line")


if __name__ == "__main__":
    model_tests.run()
