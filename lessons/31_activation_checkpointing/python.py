"""Lesson 31 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import functools

import torch
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


# region selective
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

aten = torch.ops.aten
KEPT = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_cudnn_attention.default, aten._scaled_dot_product_efficient_attention.default}


def policy(context, operator, *args, **kwargs):  # asked for each operator, by the name that it has below autograd
    return CheckpointPolicy.MUST_SAVE if operator in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


def run_selectively(model, h):
    for block in model.blocks:
        h = checkpoint(block, h, use_reentrant=False,
                       context_fn=functools.partial(create_selective_checkpoint_contexts, policy))
    return h
# endregion


TWINS = [{"case": "gpt", "technique": "every block",
          "settings": {"batch": 2, "layers": 3, "width": 32, "length": 16, "dropout": 0.1}},
         {"case": "gpt", "technique": "selective",
          "settings": {"batch": 2, "layers": 3, "width": 32, "length": 16, "dropout": 0.1}}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    run = run_selectively if twin["technique"] == "selective" else run_blocks
    while True:
        ids, targets = work.next_batch()
        work.optimizer.zero_grad()
        h = run(work.model, work.model.embed(ids))
        loss = F.cross_entropy(work.model.head(work.model.norm(h)).flatten(0, 1), targets.flatten())
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
