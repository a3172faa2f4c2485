"""Lesson 11 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region pinned
import torch
from torch.utils.data import DataLoader


def loader_of(dataset, device, **order):  # made once, or its workers start again in each epoch. order: batch_size=64, ...
    return DataLoader(dataset, **order, num_workers=1, persistent_workers=True,
                      pin_memory=device.type == "cuda")  # the default is False


def batches_on(device, loader):
    for batch in loader:
        # From page-locked memory the host goes on at once. From ordinary memory non_blocking=True is accepted, too, and
        # the host waits. Back from the GPU it is dangerous: synchronise before the host reads what arrives.
        yield [tensor.to(device, non_blocking=True) for tensor in batch]
# endregion


TWINS = [{"case": "convnet", "technique": "prefetched", "settings": {"batch": 16, "channels": 4}}]


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)
    order = iter(lambda: work.batches.draw().tolist(), None)
    dataset = torch.utils.data.TensorDataset(*workloads.fashion_mnist())
    cpu = torch.device("cpu")
    for images, labels in batches_on(cpu, loader_of(dataset, cpu, batch_sampler=order)):
        yield work.update(workloads.normalise_images(images), labels)
