"""Lesson 04 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region healthy
import torch
import torch.nn.functional as F


def update(model, optimizer, batch, held_out, losses, validation):
    images, labels = batch
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()  # frees what the graph has kept; retain_graph=True would not
    optimizer.step()
    losses.append(loss.detach())  # or loss.item(), which waits for the GPU
    with torch.no_grad():  # without it every validation loss in the list keeps its activations
        validation.append(F.cross_entropy(model(held_out[0]), held_out[1]))
# endregion


def growth(step, allocated=torch.cuda.memory_allocated, steps=32):  # allocated, not reserved: a cache is no leak
    """Bytes by which each call of step() grows: the lowest between two steps, of the later half less the earlier."""
    def lowest():
        seen = []
        for _ in range(steps // 2):
            step()
            seen.append(allocated())
        return min(seen)
    before = lowest()
    return (lowest() - before) / (steps // 2)


SETTINGS = {"batch": 8, "channels": 4, "updates": 3}
TWINS = [{"case": "convnet", "technique": "validation graph kept", "settings": SETTINGS},
         {"case": "long epoch", "technique": "batches kept", "settings": SETTINGS}]


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)
    held_out = work.batches.next()
    kept = []  # growth() without a GPU: of a list
    assert growth(lambda: kept.append(torch.ones(256)), lambda: 1024 * len(kept)) == 1024
    while True:
        losses, validation = [], []
        for _ in range(settings["updates"]):
            update(work.model, work.optimizer, work.batches.next(), held_out, losses, validation)
        yield torch.stack(losses).mean()  # of an epoch, which is a step
