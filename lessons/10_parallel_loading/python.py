"""Lesson 10 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region loader
import torch
from torch.utils.data import DataLoader


def make_loader(dataset, **order):  # order: batch_size=32, shuffle=True, drop_last=True
    return DataLoader(
        dataset, **order,
        num_workers=2,  # processes, not threads; the default, 0, loads in the training loop
        prefetch_factor=2,  # batches that each worker has ready or is at work on: 2 x 2 here
        persistent_workers=True,  # else every epoch starts its workers again; the default is False
        pin_memory=torch.cuda.is_available(),  # one more copy of each batch, by a thread of its own
        # PyTorch seeds torch, random and NumPy's global generator in each worker. A generator of your own is copied
        # into every worker and draws the same numbers in all of them: seed it in worker_init_fn.
        worker_init_fn=None)
# endregion


TWINS = [{"case": "convnet", "technique": "2 workers", "settings": {"batch": 4, "side": 32}}]


def train(workloads, twin, settings, seed):
    import clipart
    import draws
    work = workloads.ConvNetTraining(settings, seed, colours=3, side=settings["side"], classes=10)
    images = clipart.PngImages(settings["side"], seed)
    loader = make_loader(images, batch_sampler=draws.batches_of_samples(len(images), settings["batch"], seed))
    for batch in loader:
        yield work.update(*batch)
