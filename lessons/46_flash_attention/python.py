"""Lesson 46 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""


import torch

# region sdpa
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def attention(q, k, v):  # (B, H, T, D) each
    # On CUDA the FlashAttention kernels take float16 and bfloat16, heads of at most 256, GPUs from sm_80 on, and no
    # attn_mask: is_causal=True, not a mask that says the same. With float32 or a mask PyTorch takes memory-efficient
    # kernels; where none fits, MATH, which materialises the scores without a word. Here that is an error instead.
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
# endregion


def eager_attention(q, k, v):
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(2, 3) / q.shape[3] ** 0.5).masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ v


TWINS = [{"case": "gpt", "technique": "SDPA", "settings": {"batch": 2, "layers": 2, "width": 32, "length": 32}}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    for block in work.model.blocks:
        block.attention = attention
    while True:
        ids, targets = work.next_batch()
        work.optimizer.zero_grad()
        loss = F.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
