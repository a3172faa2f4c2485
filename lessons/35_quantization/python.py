"""Lesson 35 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

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
# endregion


def int8_weights(model):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Weights(child))
    return model


SMALL = {"batch": 4, "layers": 2, "width": 32, "length": 16}
TWINS = [{"case": "gpt", "technique": "dynamic int8", "settings": SMALL},
         {"case": "gpt", "technique": "int8 weights", "settings": SMALL}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    model = (dynamic_int8 if twin["technique"] == "dynamic int8" else int8_weights)(work.model)
    while True:
        ids, targets = work.next_batch()
        with torch.no_grad():
            yield F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
