"""Lesson 45 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch
import torch.nn.functional as F


# region adamw
def make_optimizer(parameters, technique):
    if technique == "loop":  # tensor by tensor; the default on the CPU
        return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2, foreach=False)
    if technique == "foreach":  # the default on CUDA: few launches, temporaries as large as the parameters
        return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2, foreach=True)
    # Never the default. CUDA and CPU. A GradScaler hands it the scale and the infinity flag as tensors: the host does not
    # wait for the flag. The check for infinities still reads all gradients.
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2, fused=True)
# endregion


SETTINGS = {"layers": 4, "width": 16, "batch": 16}
TWINS = [{"case": "mlp", "technique": "foreach", "settings": SETTINGS},
         {"case": "mlp", "technique": "fused", "settings": SETTINGS}]


def train(workloads, twin, settings, seed):
    assert (settings["adamw_learning_rate"], settings["weight_decay"]) == (1e-3, 1e-2), "python.py has other settings"
    work = workloads.MlpTraining(settings | {"learning_rate": 0.0}, seed)
    optimizer = make_optimizer(work.model.parameters(), twin["technique"])
    while True:
        images, labels = work.batches.next()
        optimizer.zero_grad()
        loss = F.cross_entropy(work.model(images), labels)
        loss.backward()
        optimizer.step()
        yield loss.detach()
