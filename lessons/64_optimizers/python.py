"""Lesson 64 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch
import torch.nn.functional as F


# region muon
def make_optimizers(model, not_hidden=("head",)):
    tables = {id(layer.weight) for layer in model.modules() if isinstance(layer, torch.nn.Embedding)}
    hidden, rest = [], []
    for name, parameter in model.named_parameters():  # torch.optim.Muon refuses what is no matrix, but takes any matrix
        is_hidden = parameter.ndim == 2 and id(parameter) not in tables and name.split(".")[0] not in not_hidden
        (hidden if is_hidden else rest).append(parameter)
    # lr=1e-3 and weight_decay=0.1 unless said; adjust_lr_fn="match_rms_adamw" lets it share AdamW's rate
    return [torch.optim.Muon(hidden, lr=0.02, weight_decay=0.01),
            torch.optim.AdamW(rest, lr=4e-3, betas=(0.9, 0.95), weight_decay=0.01)]
# endregion


SETTINGS = {"batch": 2, "layers": 1, "width": 16, "length": 8}
TWINS = [{"case": "gpt", "technique": "Muon", "settings": {**SETTINGS, "native_bf16": "true"}},
         {"case": "gpt", "technique": "Muon", "settings": SETTINGS, "tolerance": 1e-3,
          "why": "C++ multiplies in 32 bits and rounds to bf16: the same but for the order of sums"}]


def train(workloads, twin, settings, seed):
    assert (settings["muon_rate"], settings["adamw_rate"], settings["weight_decay"]) == (0.02, 4e-3, 0.01), \
        "python.py has other settings"
    work = workloads.GptTraining(settings, seed)
    optimizers = make_optimizers(work.model)
    while True:
        ids, targets = work.next_batch()
        work.model.zero_grad()
        loss = F.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        yield loss.detach()
