"""Lesson 44 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region chunked
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def chunk_loss(h, weight, targets):  # (C, D), (V, D), (C): the logits, (C, V), live only in here
    return F.cross_entropy(F.linear(h, weight), targets, reduction="sum")


def chunked_cross_entropy(h, weight, targets, rows):  # (N, D), (V, D), (N)
    total = 0.0
    for x, y in zip(h.split(rows), targets.split(rows)):
        # Forward keeps x, not the logits; backward() makes them again: one matmul more than lesson 44's class, which
        # computes the gradients in forward. Fused ones: Liger-Kernel's LigerFusedLinearCrossEntropyLoss.
        total = total + checkpoint(chunk_loss, x, weight, y, use_reentrant=False)
    return total / (targets != -100).sum()  # ignore_index is -100 by default
# endregion


TWINS = [{"case": "gpt", "technique": "chunked",
          "settings": {"batch": 8, "layers": 2, "width": 32, "length": 32, "chunk_rows": 64}}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    while True:
        ids, targets = work.next_batch()
        work.optimizer.zero_grad()
        h = work.model.norm(work.model.hidden(ids)).flatten(0, 1)
        loss = chunked_cross_entropy(h, work.model.head.weight, targets.flatten(), settings["chunk_rows"])
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
