"""Lesson 30 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region accumulate
import torch.nn.functional as F


def update(model, optimizer, ids, targets, micro_batches):
    optimizer.zero_grad()  # once per update; gradients become None, not zeros (set_to_none=True is the default)
    total = 0.0
    for x, y in zip(ids.chunk(micro_batches), targets.chunk(micro_batches)):  # (B / micro_batches, T) each
        # A mean over this micro-batch. With padding: reduction="sum", divided by the tokens of the whole batch.
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / micro_batches
        loss.backward()  # adds to .grad and frees this micro-batch's activations
        total += loss.detach()  # .item() would make the host wait for the GPU
    optimizer.step()
    return total
# endregion


TWINS = [{"case": "gpt", "technique": "accumulate",
          "settings": {"batch": 8, "micro_batches": 4, "layers": 2, "width": 32, "length": 16}}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    while True:
        yield update(work.model, work.optimizer, *work.next_batch(), settings["micro_batches"])
