"""A small GPT trained with torch.ops.tenfold and AdamW of tenfold_operators against the same one of PyTorch's own operators.

usage: gpt.py [cpu|cuda]  with cuda, PyTorch's own trains on the CPU all the same"""

import torch
from samples import OPS, device_of_call, end, tenfold_operators
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS, UPDATES = 2, 8, 64, 2, 2, 24, 6
# Sums are taken in another order. After some updates that is a few times 2^-23, which Adam's division by small averages
# widens.
TOLERANCE = 2e-5


class Torch:
    layer_norm = staticmethod(lambda x, weight, bias: functional.layer_norm(x, x.shape[-1:], weight, bias))
    bias_gelu = staticmethod(lambda x, bias: functional.gelu(x + bias))
    embedding = staticmethod(lambda weight, ids: functional.embedding(ids, weight))
    cross_entropy = staticmethod(functional.cross_entropy)
    attention = staticmethod(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    AdamW = torch.optim.AdamW


class Ours:
    layer_norm, bias_gelu, embedding, cross_entropy = OPS.layer_norm, OPS.bias_gelu, OPS.embedding, OPS.cross_entropy
    attention = staticmethod(lambda q, k, v: OPS.flash_attention(q, k, v, True))
    AdamW = tenfold_operators.AdamW


class Gpt(nn.Module):
    def __init__(self, ops):
        super().__init__()
        self.ops = ops
        self.words, self.places = (nn.Parameter(0.1 * torch.randn(count, WIDTH)) for count in (WORDS, LENGTH))
        self.blocks = nn.ModuleList()
        for _ in range(LAYERS):
            self.blocks.append(nn.ModuleDict({
                "norm1": nn.LayerNorm(WIDTH), "qkv": nn.Linear(WIDTH, 3 * WIDTH), "out": nn.Linear(WIDTH, WIDTH),
                "norm2": nn.LayerNorm(WIDTH), "up": nn.Linear(WIDTH, 4 * WIDTH), "down": nn.Linear(4 * WIDTH, WIDTH)}))
        self.norm = nn.LayerNorm(WIDTH)

    def normed(self, norm, x):
        return self.ops.layer_norm(x, norm.weight, norm.bias)

    def forward(self, ids):  # (B, T) -> (B, T, WORDS)
        x = self.ops.embedding(self.words, ids) + self.places
        for block in self.blocks:
            heads = block["qkv"](self.normed(block["norm1"], x)).reshape(*ids.shape, 3, HEADS, -1)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            x = x + block["out"](self.ops.attention(q, k, v).transpose(1, 2).reshape(x.shape))
            up = block["up"]
            x = x + block["down"](self.ops.bias_gelu(self.normed(block["norm2"], x) @ up.weight.t(), up.bias))
        return self.normed(self.norm, x) @ self.words.t()


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func._schema.name)
        return func(*args, **(kwargs or {}))


def losses(ops, device):
    torch.manual_seed(3)
    model = Gpt(ops)
    text = torch.randint(0, WORDS, (BATCH, LENGTH + 1))
    model.to(device)
    ids, targets = text[:, :-1].to(device), text[:, 1:].to(device)
    optimizer = ops.AdamW(model.parameters(), lr=3e-3)
    found = []
    for _ in range(UPDATES):
        optimizer.zero_grad()
        loss = ops.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


device = device_of_call()
with Names() as called:
    ours = losses(Ours, device)
expected = losses(Torch, "cpu")
assert expected[-1] < 0.8 * expected[0], expected  # it trains
worst = max(abs(a - b) / b for a, b in zip(ours, expected))
print(f"losses {', '.join(f'{loss:.6f}' for loss in ours)}; largest relative difference {worst:.1e}")
assert worst <= TOLERANCE, (ours, expected)
own = {name.removeprefix("tenfold::") for name in called.names if name.startswith("tenfold::")}
missing = {f"{name}{way}" for name in ("layer_norm", "flash_attention", "cross_entropy") for way in ("_forward", "_backward")}
missing |= {"bias_gelu", "bias_gelu_backward", "embedding", "embedding_backward", "adamw_"}
assert own == missing, own ^ missing
for name in ("native_layer_norm", "gelu", "_log_softmax", "_scaled_dot_product_flash_attention_for_cpu", "embedding"):
    assert f"aten::{name}" not in called.names, name
end()
