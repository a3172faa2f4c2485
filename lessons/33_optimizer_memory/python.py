"""Lesson 33 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch
import torch.nn.functional as F


# region optimizers
def make_optimizer(parameters, technique):
    if technique == "Adam":  # as many bytes of state as AdamW: 8 for each parameter
        return torch.optim.Adam(parameters, lr=2e-3)
    # Row and column means of a matrix's squares. lr is relative to the parameters' own size; default 1e-2. The for-loop
    # is the default on CUDA, too: foreach would need temporaries as large as all parameters.
    return torch.optim.Adafactor(parameters, lr=0.03)


def make_8_bit_optimizer(parameters):  # not run here: pip install torchao; it relies on torch.compile
    from torchao.optim import AdamW8bit
    return AdamW8bit(parameters, lr=2e-3)  # blocks of 256; tensors of fewer than 4096 values stay in 32 bits
# endregion


SETTINGS = {"batch": 4, "layers": 2, "width": 32, "length": 16}
TWINS = [{"case": "gpt", "technique": "Adam", "settings": SETTINGS},
         {"case": "gpt", "technique": "Adafactor", "settings": SETTINGS}]


def train(workloads, twin, settings, seed):
    assert (settings.get("adamw_learning_rate", 2e-3), settings.get("adafactor_rate", 0.03)) == (2e-3, 0.03), \
        "python.py has other settings"
    work = workloads.GptTraining(settings, seed)
    optimizer = make_optimizer(work.model.parameters(), twin["technique"])
    while True:
        ids, targets = work.next_batch()
        optimizer.zero_grad()
        loss = F.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        yield loss.detach()
