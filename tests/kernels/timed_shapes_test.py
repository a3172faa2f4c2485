#!/usr/bin/env python3
"""What is modelled is what bench/ times: the shapes of the two are compared, each read where it is written.

A bench program's sizes are the first arguments of its place.pick(): those above its first ladder are of all, those of a ladder are of
that ladder; a backward pass is the ladder `backward`, else the first one counts. Needs nothing built.
"""

import pathlib
import re
import sys
import unittest

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "common" / "tools"))
import kernel_time


def parts_of(source):
    """(what stands before the first ladder, {ladder: its text})"""
    before, *rest = re.split(r"^Ladder (?=\w+\()", source, flags=re.MULTILINE)
    ladders = {text.partition("(")[0]: text.partition("\n}\n")[0] for text in rest}
    return before, ladders


def picks_of(source, backward):
    """{name: value} of a ladder's place.pick(). A value that the builder hands over is that of the first one."""
    before, ladders = parts_of(source)
    name = "backward" if backward else next(iter(ladders))
    text = before + ladders[name]
    constants = dict(re.findall(r"\b(k\w+) = (?:int64_t\{1\} << )(\d+)", source))
    constants = {constant: 1 << int(bits) for constant, bits in constants.items()}
    handed = re.search(rf"return {name}\(place(?:, torch::k\w+)?, (\w+)\);", source)
    picks = {}
    for size, value in re.findall(r"\b(\w+)(?: = |\()place\.pick\((\w+),", text):
        if not value.isdigit():
            value = constants.get(handed[1], handed[1])
        picks[size] = int(value)
    return picks


def adamw(picks):
    """All tensors of a GPT-2: two embeddings, the blocks, the last norm."""
    width = picks["width"]
    return {"count": (picks["vocabulary"] + picks["length"]) * width + picks["layers"] * (12 * width + 13) * width + 2 * width}


def flash_attention(picks):
    return {size: picks[size] for size in ("batch", "heads", "head_dim")} | \
        {"queries": picks["length"], "keys": picks["length"], "causal": 1}


def rope(picks):
    return {"tokens": picks["sequences"] * picks["positions"]} | {size: picks[size] for size in ("heads", "head_dim", "positions")}


# Where the two name their sizes differently.
FROM_PICKS = {"adamw": adamw, "flash_attention": flash_attention, "rope": rope}


class TimedShapes(unittest.TestCase):
    def test_every_kernel_is_modelled_at_the_shape_that_its_bench_times(self):
        for operation, shape in kernel_time.SHAPES.items():
            with self.subTest(operation):
                kernel = kernel_time.folder_of(operation)
                source = (root / "bench" / f"{kernel}_bench.cpp").read_text()
                picks = picks_of(source, backward=operation != kernel)
                modelled = {name: int(value) for name, value in kernel_time.sizes_of(shape).items()}
                self.assertEqual(FROM_PICKS.get(kernel, dict)(picks), modelled)

    def test_what_is_published_is_at_these_shapes(self):
        for operation, entry in kernel_time.committed().items():
            self.assertEqual(entry["shape"], kernel_time.SHAPES[operation], operation)

    def test_a_drifted_shape_is_seen(self):
        source = (root / "bench" / "flash_attention_bench.cpp").read_text()
        picks = picks_of(source.replace("place.pick(8, 1)", "place.pick(4, 1)"), backward=True)
        self.assertEqual(picks["batch"], 4)
        self.assertNotEqual(flash_attention(picks), {name: int(value) for name, value in
                                                     kernel_time.sizes_of(kernel_time.SHAPES["flash_attention_backward"]).items()})


if __name__ == "__main__":
    unittest.main(verbosity=2)
