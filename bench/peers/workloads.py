"""The lessons' three workloads in PyTorch: convnet, gpt and mlp as common/models has them.

Parameters are created in the same order, so that a seed gives the same weights; batches are drawn by generators of
their own with the same seed, so that they are the same batches. `settings` is a mapping with the names that the
lessons' settings have.
"""

import functools
import gzip
import itertools
import math
import os
import pathlib
import subprocess

import torch
import torch.nn.functional as F
from torch import nn

import twin

# --- gpt: common/models/gpt.cpp and token_stream.cpp ----------------------------------------------------------------


class Block(nn.Module):
    """One pre-norm transformer block: x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.heads, self.dropout = heads, dropout

    def attention(self, q, k, v):
        """Causal; (B, H, T, D / H) each and back. A lesson may put another function in its place."""
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)

    def mlp(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))

    def forward(self, x):  # (B, T, D) -> (B, T, D)
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        h = x + self.drop(self.projection(self.attention(q, k, v).transpose(1, 2).flatten(2)))
        return h + self.drop(self.mlp(self.norm2(h)))

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout > 0 else x


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, length, vocabulary, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        norm, head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)  # drawn before the blocks
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = norm, head
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:  # GPT-2's initialisation
                residual = "projection" in name or "down" in name
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2.0 * layers) if residual else 0.02)

    def embed(self, ids, places=None):  # (B, T) -> (B, T, D)
        return self.tokens(ids) + self.positions(torch.arange(ids.shape[1]) if places is None else places)

    def hidden(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = block(h)
        return h

    def forward(self, ids):  # (B, T) -> (B, T, V)
        return self.head(self.norm(self.hidden(ids)))


@functools.cache
def shakespeare_tokens(tokens, train=True):
    """The works to train on, or the held-out plays, as one row of ids, an end mark behind each."""
    held_out = {"henry_v", "macbeth", "twelfth_night", "winters_tale"}
    folder = twin.data_folder() / "shakespeare"
    files = {path.name.removesuffix("_gut.txt"): path for path in folder.glob("*_gut.txt")}
    texts = [path.read_bytes() for name, path in sorted(files.items()) if (name not in held_out) == train]
    if tokens != "characters":
        raise ValueError(f"the twins have no tokenizer for tokens={tokens}; set tokens=characters")
    return torch.frombuffer(bytearray(b"".join(text + b"\0" for text in texts)), dtype=torch.uint8).long()


class GptTraining:
    """Model, SGD with momentum, and random windows of the text."""

    def __init__(self, settings, seed):
        torch.manual_seed(seed)
        self.batch, self.length = settings["batch"], settings["length"]
        sizes = [settings[name] for name in ("layers", "width", "heads", "length")]
        self.model = Gpt(*sizes, vocabulary=128, dropout=settings["dropout"])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=settings["learning_rate"], momentum=0.9)
        self.text, self.order = shakespeare_tokens(settings["tokens"]), torch.Generator().manual_seed(seed)

    def next_batch(self):
        """Ids and next ids, (B, T) each."""
        starts = torch.randint(len(self.text) - self.length, (self.batch, 1), generator=self.order)
        places = starts + torch.arange(self.length)
        return self.text[places], self.text[places + 1]


def like_libtorch(model):
    """Lets each linear layer add its bias as an operator of its own, as LibTorch's does for inputs of three dimensions.
    In 16 bits that rounds once more."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            layer.forward = lambda x, layer=layer: (x @ layer.weight.t()).add_(layer.bias)
    return model


def speeches(settings, seed):
    """Step after step the texts that lesson 15 draws, as rows of ids; characters only."""
    program = pathlib.Path(os.environ["TENFOLD_BUILD"]) / "tests" / "speech_batches"
    for steps in itertools.accumulate(itertools.repeat(8)):
        command = [program, *map(str, (settings["batch"], settings["length"], seed, steps))]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for line in lines[-8:]:
            yield [torch.tensor([int(number) for number in text.split()]) for text in line.split(";")]


# --- convnet and mlp: common/models/{convnet,mlp,fashion_mnist}.cpp -------------------------------------------------


class ConvNet(nn.Module):
    """Two convolutions and a linear layer; `side` is a multiple of 4."""

    def __init__(self, channels, colours=1, side=28, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(colours, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1, stride=2)
        self.head = nn.Linear(2 * channels * (side // 4) ** 2, classes)

    def forward(self, images):  # (B, colours, side, side) -> (B, classes)
        h = F.relu(self.conv1(images))
        h = F.max_pool2d(F.relu(self.conv2(h)), 2)
        return self.head(h.flatten(1))


class Mlp(nn.Module):
    """Images are averaged to 7 x 7; `layers` linear layers with ReLU between."""

    def __init__(self, layers, width):
        super().__init__()
        sizes = [49] + (layers - 1) * [width] + [10]
        linear = [nn.Linear(inputs, outputs) for inputs, outputs in zip(sizes, sizes[1:])]
        self.layers = nn.Sequential(*[part for layer in linear[:-1] for part in (layer, nn.ReLU())], linear[-1])

    def forward(self, images):  # (B, 1, 28, 28) -> (B, 10)
        return self.layers(F.avg_pool2d(images, 4).flatten(1))


@functools.cache
def fashion_mnist():
    """The images to train on, (60000, 1, 28, 28) bytes, and their labels, (60000)."""
    def values(name, header):
        with gzip.open(twin.data_folder() / "fashion-mnist" / f"train-{name}-ubyte.gz") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[header:]
    return values("images-idx3", 16).view(-1, 1, 28, 28), values("labels-idx1", 8).long()


MEAN, DEVIATION = 0.2860, 0.3530  # of the images' pixels, on the scale 0 to 1


def normalise_images(images):
    """Bytes as floats of mean 0 and deviation 1."""
    return images.float().mul_(1 / (255 * DEVIATION)).sub_(MEAN / DEVIATION)


class FashionBatches:
    def __init__(self, batch, seed):
        self.batch, self.order = batch, torch.Generator().manual_seed(seed)

    def draw(self):
        """Which images come next, (B)."""
        return torch.randint(60000, (self.batch,), generator=self.order)

    def next(self):
        """(B, 1, 28, 28) floats and (B) labels."""
        images, labels = fashion_mnist()
        picked = self.draw()
        return normalise_images(images[picked]), labels[picked]


class ConvNetTraining:
    """Model and SGD with momentum; what it trains on is the lesson's, or `batches`."""

    def __init__(self, settings, seed, **shape):
        torch.manual_seed(seed)
        self.model = ConvNet(settings["channels"], **shape)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=settings["learning_rate"], momentum=0.9)
        self.batches = FashionBatches(settings["batch"], seed)

    def update(self, images, labels):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class MlpTraining(ConvNetTraining):
    def __init__(self, settings, seed):
        torch.manual_seed(seed)
        self.model = Mlp(settings["layers"], settings["width"])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=settings["learning_rate"], momentum=0.9)
        self.batches = FashionBatches(settings["batch"], seed)
