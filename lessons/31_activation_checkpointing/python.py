"""Lesson 31 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch.nn.functional as F

# region every_block
from torch.utils.checkpoint import checkpoint


def run_blocks(model, h):
    for block in model.blocks:  # keeps each block's input, (B, T, D), and runs the block again in backward()
        # Say use_reentrant=False: without it PyTorch warns and takes True, which refuses keyword arguments and gives no
        # gradients when no input needs one. preserve_rng_state=True is the default: dropout repeats its mask.
        h = checkpoint(block, h, use_reentrant=False)
    return h
# endregion


TWINS = [{"case": "gpt", "technique": "every block",
          "settings": {"batch": 2, "layers": 3, "width": 32, "length": 16, "dropout": 0.1}}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    while True:
        ids, targets = work.next_batch()
        work.optimizer.zero_grad()
        h = run_blocks(work.model, work.model.embed(ids))
        loss = F.cross_entropy(work.model.head(work.model.norm(h)).flatten(0, 1), targets.flatten())
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
