"""Lesson 92 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region levers
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def update(model, optimizer, ids, targets, micro_batches, sixteen_bits=False):
    optimizer.zero_grad()  # once for each update; set_to_none=True is the default and frees them
    total = 0
    for x, y in zip(ids.chunk(micro_batches), targets.chunk(micro_batches)):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=sixteen_bits):  # around forward, not backward
            h = model.embed(x)
            for block in model.blocks:
                h = checkpoint(block, h, use_reentrant=False)  # True is the old default; the autocast state is kept
            logits = model.head(model.norm(h)).flatten(0, 1).float()  # in chunks: lesson 44, or Liger's fused loss
            loss = F.cross_entropy(logits, y.flatten()) / micro_batches
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total
# endregion


# region optimizers
def small_optimizers(parameters):  # not run here: torchao is no part of PyTorch
    from torchao.optim import AdamW8bit, CPUOffloadOptimizer
    in_8_bits = AdamW8bit(parameters, lr=2e-3)
    # AdamW on the host; offload_gradients=True frees the gradients, too, but then they cannot be accumulated.
    on_the_host = CPUOffloadOptimizer(parameters, torch.optim.AdamW, fused=True, lr=2e-3)
    return in_8_bits, on_the_host
# endregion


SETTINGS = {"batch": 4, "micro_batches": 2, "layers": 2, "width": 32, "length": 16}
TWINS = [{"case": "does not fit", "technique": technique, "settings": {**SETTINGS, "autocast": "false"}}
         for technique in ("+ loss in chunks", "+ accumulation", "+ checkpointing")]
for twin in TWINS:
    twin |= {"tolerance": 2e-6, "why": "the twin's loss is not in chunks, and its fused AdamW rounds in another place"}


def train(workloads, twin, settings, seed):
    assert settings.get("adamw_learning_rate", 2e-3) == 2e-3, "python.py has another learning rate"
    work = workloads.GptTraining(settings, seed)
    optimizer = torch.optim.AdamW(work.model.parameters(), lr=2e-3, eps=1e-6)
    while True:
        ids, targets = work.next_batch()
        yield update(work.model, optimizer, ids, targets, settings["micro_batches"])
