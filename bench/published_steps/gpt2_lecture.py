"""GPT-2 of build-nanogpt before it is compiled, and its training step."""

import contextlib
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW

from workload import CUDA, Workload, build, host_tokens


class Block(nn.Module):
    """Pre-norm attention, operator by operator, and feed-forward; no dropout."""

    def __init__(self, dim: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim))
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).view(1, 1, context, context))

    def attention(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(dim, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, -math.inf)
        y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Gpt2(nn.Module):
    def __init__(self, dim: int = 768, layers: int = 12, heads: int = 12, vocabulary: int = 50257,
                 context: int = 1024) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads, context) for _ in range(layers)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def training(precision: str) -> Workload:
    """16 sequences of 1024 tokens in "fp32", "tf32" or "bf16": with TF32 and autocast. A step ends with a wait."""
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    model = build(Gpt2)
    optimizer = AdamW(model.parameters(), lr=3e-4)
    ids, targets = host_tokens(50257, 16, 1024), host_tokens(50257, 16, 1024)
    autocast = torch.autocast("cuda", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()

    def step(_: int) -> None:
        x, y = ids.to(CUDA), targets.to(CUDA)
        optimizer.zero_grad()
        with autocast:
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()

    return Workload(step, 16 * 1024)
