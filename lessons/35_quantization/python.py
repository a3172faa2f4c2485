"""Lesson 35 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import functools

# region quantize
import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic


def dynamic_int8(model):  # on a CPU; torchao has its own, Int8DynamicActivationInt8WeightConfig
    torch.backends.quantized.engine = "fbgemm"  # default: "x86", which takes oneDNN for some layers
    # {nn.Linear} alone, as most snippets have it, means one scale for a whole weight; this is one for each row.
    return quantize_dynamic(model, {nn.Linear: per_channel_dynamic_qconfig}, dtype=torch.qint8)


class Int8Weights(nn.Module):  # on any device
    def __init__(self, layer):
        super().__init__()
        scales = layer.weight.detach().abs().amax(1) / 127.5
        codes = (layer.weight.detach() * scales.reciprocal()[:, None]).round().clamp(-128, 127).to(torch.int8)
        self.register_buffer("codes", codes)  # without clamp() 128 wraps to -128
        self.register_buffer("scales", scales)
        self.bias = layer.bias

    def forward(self, x):
        y = F.linear(x, self.codes.to(x.dtype)) * self.scales  # the whole weight in 32 bits while it is multiplied
        return y if self.bias is None else y + self.bias


class OneKernel(Int8Weights):  # for a few tokens on a CPU; CUDA's kernel wants float32 and is slow
    def forward(self, x):
        y = torch._weight_int8pack_mm(x.flatten(0, -2).bfloat16(), self.codes, self.scales.bfloat16())
        y = y.to(x.dtype).unflatten(0, x.shape[:-1])
        return y if self.bias is None else y + self.bias
# endregion


def with_layers_of(kind, model):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, kind(child))
    return model


FORMS = {"dynamic int8": dynamic_int8,
         "int8 weights": functools.partial(with_layers_of, Int8Weights),
         "int8, one kernel": functools.partial(with_layers_of, OneKernel)}


SMALL = {"batch": 4, "layers": 2, "width": 32, "length": 16}
TWINS = [{"case": "gpt", "technique": name, "settings": SMALL} for name in FORMS]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    model = FORMS[twin["technique"]](work.model)
    while True:
        ids, targets = work.next_batch()
        with torch.no_grad():
            yield F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
