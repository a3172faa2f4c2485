"""Lesson 91 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region gpt2
import json
import math
import struct

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn, self.c_proj, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):  # (B, T, D) -> (B, T, D)
        q, k, v = self.c_attn(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # default: every token sees all
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))  # default: approximate="none", by erf


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, length, vocabulary, padded=0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2.0 * layers) if "c_proj" in name else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        more = max(padded - vocabulary, 0)  # rows that no token has, and that the softmax must not see
        self.wte.weight = nn.Parameter(F.pad(self.wte.weight.detach(), (0, 0, 0, more)))
        self.register_buffer("padding", F.pad(torch.zeros(vocabulary), (0, more), value=-math.inf) if more else None)

    def forward(self, ids):  # (B, T) -> (B T, V)
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x).flatten(0, 1), self.wte.weight, self.padding)  # the head is the embedding


def update(model, optimizer, ids, targets, sixteen_bits=False):
    optimizer.zero_grad()
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=sixteen_bits):
        loss = F.cross_entropy(model(ids).float(), targets.flatten())  # targets are the ids one place further
    loss.backward()
    optimizer.step()  # AdamW(..., fused=True): on a CPU the default is a loop over the tensors
    return loss.detach()
# endregion


# region file
def read_safetensors(path):  # what safetensors.torch.load_file does
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), bytearray(file.read())
    types = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "I32": torch.int32}
    return {name: torch.frombuffer(data, dtype=types[entry["dtype"]], count=math.prod(entry["shape"]),
                                   offset=entry["data_offsets"][0]).view(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def load_gpt2(model, path):
    file = {name.removeprefix("transformer."): tensor for name, tensor in read_safetensors(path).items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            linear = parameter.dim() == 2 and not name.startswith(("wte", "wpe"))
            parameter.copy_(file[name].t() if linear else file[name])  # the file has (in, out), nn.Linear (out, in)
# endregion


SMALL = {"layers": 2, "width": 32, "heads": 4, "length": 16, "batch": 4, "tokens": "characters", "pad_to": 96}
TWINS = [{"case": "gpt", "technique": "+ fused attention", "settings": SMALL},
         {"case": "gpt", "technique": "+ fused AdamW", "settings": SMALL},
         {"case": "from a file", "technique": "loaded", "settings": {}}]


def model_of(settings, vocabulary, padded=0):
    return Gpt2(*(settings[name] for name in ("layers", "width", "heads", "length")), vocabulary, padded)


def optimizer_of(model, settings, fused):
    return torch.optim.AdamW(model.parameters(), lr=settings["adamw_learning_rate"], betas=(0.9, 0.95), eps=1e-6,
                             weight_decay=0, fused=fused)


def start_file(folder, settings, vocabulary, seed):
    """Where the C++ program leaves the weights that it begins with."""
    sizes = [settings[name] for name in ("layers", "width", "heads", "length")]
    return folder / "gpt2" / f"start_{'_'.join(map(str, [*sizes, vocabulary, seed]))}.safetensors"


class Windows:
    """Random windows of the text, as the C++ program draws them."""

    def __init__(self, text, settings, seed):
        self.text, self.batch, self.length = text, settings["batch"], settings["length"]
        self.order = torch.Generator().manual_seed(seed)

    def next(self):
        starts = torch.randint(len(self.text) - self.length, (self.batch, 1), generator=self.order)
        places = starts + torch.arange(self.length)
        return self.text[places], self.text[places + 1]


def train(workloads, twin, settings, seed):
    torch.manual_seed(seed)
    vocabulary, fused = 128, twin["technique"] == "+ fused AdamW"
    padded = -(-vocabulary // settings["pad_to"]) * settings["pad_to"] if fused else 0
    model = model_of(settings, vocabulary, padded)
    if twin["technique"] == "loaded":
        torch.nn.init.ones_(model.wpe.weight)
        load_gpt2(model, start_file(workloads.twin.data_folder().parent, settings, vocabulary, seed))
    optimizer = optimizer_of(model, settings, fused)
    windows = Windows(workloads.shakespeare_tokens(settings["tokens"]), settings, seed)
    while True:
        yield update(model, optimizer, *windows.next())
