"""Lesson 14 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region packed
import mmap

import torch
from torch.utils.data import Dataset


class PackedImages(Dataset):
    def __init__(self, path, offsets, labels, shape, transform):  # shape: (H, W, 3), of every image
        self.path, self.bytes = path, None
        self.offsets, self.labels, self.shape, self.transform = offsets, labels, shape, transform

    def __len__(self):
        return len(self.offsets)

    def __getitem__(self, i):
        if self.bytes is None:  # mapped, not read, by each worker: a map cannot be sent to one that is not forked
            with open(self.path, "rb") as file:
                self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # frombuffer copies nothing: do not write to it. A slice of self.bytes would be a copy.
        size = self.shape[0] * self.shape[1] * self.shape[2]
        image = torch.frombuffer(self.bytes, dtype=torch.uint8, count=size, offset=self.offsets[i]).view(self.shape)
        return self.transform(image, i), self.labels[i]
# endregion


TWINS = [{"case": "convnet", "technique": "packed, raw", "settings": {"batch": 8, "side": 32, "channels": 4}}]


def train(workloads, twin, settings, seed):
    import clipart
    import draws
    path, records, labels = clipart.shard(f"raw{clipart.RAW_SIDE}")
    epoch = 0

    def transform(image, i):
        return clipart.augmented(image, settings["side"], draws.SampleRandom(seed, epoch, i))

    images = PackedImages(path, [at for at, _ in records], labels, (clipart.RAW_SIDE, clipart.RAW_SIDE, 3), transform)
    work = workloads.ConvNetTraining(settings, seed, colours=3, side=settings["side"], classes=8)
    for batch in draws.batches_of_samples(len(images), settings["batch"], seed):
        epoch = batch[0][0]
        samples, classes = zip(*(images[sample] for _, sample in batch))
        yield work.update(torch.stack(samples), torch.tensor(classes))
