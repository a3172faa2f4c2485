"""Training steps of the published rows on the device "cuda": python steps.py ROW_ID prints one line of JSON."""

import json
import sys
from collections.abc import Callable
from functools import partial

import torch

import convnet_steps as conv
import convnets
import gpt2_lecture
import transformer_steps as text
import transformers_plain as transformers
from workload import Workload, host_tokens

ROWS: dict[str, Callable[[], Workload]] = {
    "milabench-2024-11-t5-small-a100": partial(text.milabench_transformer, transformers.T5, (16, 1024), "tf32-fp16"),
    "milabench-2024-06-t5-small-a100": partial(text.milabench_transformer, transformers.T5, (16, 1024), "tf32-fp16"),
    "milabench-2024-11-resnet50-noio-a100": conv.milabench_resnet50,
    "flagperf-resnet50-a100-40": conv.flagperf_resnet50,
    "flagperf-bert-large-mlm-a100-40": lambda: text.flagperf_transformer(
        lambda: text.masked_lm("eager", large=True), [host_tokens(30522, 12, 512), host_tokens(30522, 12, 512)], False),
    "flagperf-distilbert-a100-40": lambda: text.flagperf_transformer(
        transformers.DistilBertClassifier, text.distilbert_inputs(), True, early_item=True),
    "flagperf-t5-small-a100-40": lambda: text.flagperf_transformer(
        lambda: transformers.T5(fused=True), text.t5_inputs(), True),
    "csc-mahti-resnet50-2022-fp32": partial(conv.csc_resnet50, False, True, False, True),
    "csc-mahti-resnet50-2026-fp32": partial(conv.csc_resnet50, False, False, True, False),
    "csc-mahti-resnet50-2023-fp16": partial(conv.csc_resnet50, True, False, True, False),
    "csc-mahti-resnet50-2026-fp16": partial(conv.csc_resnet50, True, False, True, False),
    "99991-cifar-resnet-a100-40": conv.bag_of_tricks,
    "airbench94-eager-a100": conv.airbench94,
}
for amp, name in ((False, "tf32"), (True, "amp")):
    ROWS[f"nv-dle-resnet50-a100-{name}"] = partial(conv.deep_learning_examples, convnets.resnet50, 256, amp, 3.05e-5)
    ROWS[f"nv-dle-resnext101-32x4d-a100-{name}"] = partial(
        conv.deep_learning_examples, convnets.resnext101_32x4d, 128, amp, 6.1e-5)
    ROWS[f"nv-dle-se-resnext101-32x4d-a100-{name}"] = partial(
        conv.deep_learning_examples, convnets.se_resnext101_32x4d, 128, amp, 6.1e-5)
for card, resnet_batch, base_batch, large_batch in (
        ("a40", (360, 720), (80, 160), (28, 48)), ("a80", (640, 1280), (172, 320), (64, 112)),
        ("h100", (640, 1280), (172, 320), (64, 112)), ("h200", (1280, 2560), (296, 592), (96, 192))):
    for half in (False, True):
        ROWS[f"lambda-resnet50-{card}-{'amp' if half else 'fp32'}"] = partial(
            conv.lambda_resnet, resnet_batch[half], half, card == "h200")
        for size, layers, batches in (("base", 12, base_batch), ("large", 24, large_batch)):
            ROWS[f"lambda-bert-{size}-squad-{card}-{'fp16' if half else 'fp32'}"] = partial(
                text.lambda_bert, layers, batches[half], half, card == "h200")
for date, style in (("2024-11", "sdpa"), ("2024-06", "eager")):
    for precision in ("fp32", "tf32", "fp16", "tf32-fp16"):
        ROWS[f"milabench-{date}-bert-{precision}-a100"] = partial(
            text.milabench_transformer, partial(text.masked_lm, style), (32, 512), precision)
for stage, change in enumerate(("baseline", "mask-on-the-fly", "tf32", "fused-adamw", "pinned", "bf16",
                                "native-ln-gelu", "sdpa-flash")):
    ROWS[f"rasbt-gpt124m-a100-{stage}-{change}"] = partial(text.rasbt_gpt, stage)
for stage, precision in enumerate(("fp32", "tf32", "bf16"), start=1):
    ROWS[f"karpathy-gpt2-a100-{stage}-{precision}"] = partial(gpt2_lecture.training, precision)
for level in ("O0", "O1", "O2"):
    ROWS[f"ceshine-wrn28-10-t4-{level.lower()}"] = partial(conv.wide_resnet, level)

FUSED_ADAM = "torch's fused Adam for apex's FusedAdam"
STANDS_IN: dict[str, str] = {row: FUSED_ADAM for row in ROWS if "squad" in row and row.endswith("fp16")}
STANDS_IN["flagperf-t5-small-a100-40"] = "torch's fused rms_norm for apex's FusedRMSNorm"
STANDS_IN["ceshine-wrn28-10-t4-o1"] = "torch.autocast for apex's patched functions"
STANDS_IN["airbench94-eager-a100"] = "nothing for the one 12x12 eigh of the whitening"
STANDS_IN |= {row: "a fake process group for NCCL over one rank" for row in ROWS if row.startswith("csc-")}


def main(row: str) -> None:
    work = ROWS[row]()
    work.run(2)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    work.run(work.measured)
    end.record()
    torch.cuda.synchronize()
    print(json.dumps({"id": row, "ms_per_step": begin.elapsed_time(end) / work.measured, "items_per_step": work.items,
                      "reserved_bytes": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main(sys.argv[1])
