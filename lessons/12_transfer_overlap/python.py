"""Lesson 12 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region prefetched
import itertools

import torch


def prefetched(loader, device):  # a DataLoader with pin_memory=True: from ordinary memory no copy overlaps
    stream = torch.cuda.Stream() if device.type == "cuda" else None  # torch.cuda.stream(None) does nothing
    ready = None
    for batch in itertools.chain(loader, [None]):  # once more at the end, for the last batch
        if ready is not None and stream is not None:
            torch.cuda.current_stream().wait_stream(stream)  # before the next copy is queued
            for tensor in ready:
                tensor.record_stream(torch.cuda.current_stream())  # allocated on `stream`: keep it until it is read
        following = None
        if batch is not None:
            with torch.cuda.stream(stream):
                following = [tensor.to(device, non_blocking=True) for tensor in batch]
        if ready is not None:
            yield ready
        ready = following
# endregion


TWINS = [{"case": "convnet", "technique": "prefetch to device", "settings": {"batch": 16, "channels": 4}}]


def shuffled_batches(workloads, batch):
    """Epochs of the images in one order, drawn by PyTorch's own generator after the model's parameters."""
    images, labels = workloads.fashion_mnist()
    order = torch.randperm(len(images))
    while True:
        for first in range(0, len(order) - batch + 1, batch):
            picked = order[first:first + batch]
            yield images[picked], labels[picked]


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)
    for images, labels in prefetched(shuffled_batches(workloads, settings["batch"]), torch.device("cpu")):
        yield work.update(workloads.normalise_images(images), labels)
