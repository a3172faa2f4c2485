"""Lesson 43 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import math

import torch.nn.functional as F

# region compiled
import torch


def layer_norm(x, weight, bias, epsilon=1e-5):  # eager: every operator reads and writes all of x
    centered = x - x.mean(-1, keepdim=True)
    variance = centered.square().mean(-1, keepdim=True)
    return centered * torch.rsqrt(variance + epsilon) * weight + bias


# Compiled at the first call, which takes seconds, and at times again for other shapes; backward is compiled, too.
# fullgraph=True refuses what cannot be traced; the default cuts it into parts. A whole model: torch.compile(model).
compiled_layer_norm = torch.compile(layer_norm, fullgraph=True)
# endregion


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))


TWINS = [{"case": "gpt", "technique": "eager", "settings": {"batch": 2, "layers": 2, "width": 32, "length": 16}}]


def train(workloads, twin, settings, seed):
    # aot_eager traces forward and backward as torch.compile does; only the code generation, a minute, is left out.
    traced = torch.compile(layer_norm, fullgraph=True, backend="aot_eager")
    work = workloads.GptTraining(settings, seed)
    norms = [norm for norm in work.model.modules() if isinstance(norm, torch.nn.LayerNorm)]
    for norm in norms:
        norm.forward = lambda x, norm=norm: traced(x, norm.weight, norm.bias, norm.eps)
    for block in work.model.blocks:
        block.mlp = lambda x, block=block: block.down(gelu(F.linear(x, block.up.weight) + block.up.bias))
    while True:
        ids, targets = work.next_batch()
        work.optimizer.zero_grad()
        loss = F.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
