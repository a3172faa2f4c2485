"""Openclipart's images for the convnet workload: common/models/clipart.h, and images as lesson 10 augments them."""

import functools
import io

import torch
import torch.nn.functional as F

import draws
import twin

RAW_SIDE = 64  # of the images that are stored as decoded pixels


@functools.cache
def shard(form):
    """Path, (offset, bytes) of each record, and labels. Lessons skip where a shard was not packed, so it is there."""
    path = twin.data_folder() / "shards" / f"openclipart-{form}-train.shard"
    mapped, records = twin.shard_records(path)
    return path, records, twin.shard_labels(mapped)


def augmented(image, side, random):
    """(H, W, 3) bytes as (3, side, side) floats: a random part, resized, mirrored half of the time, normalised."""
    top, left, height, width, flip = draws.random_crop(*image.shape[:2], random)
    part = image[top:top + height, left:left + width].permute(2, 0, 1).float()
    part = F.interpolate(part[None], (side, side), mode="bilinear", antialias=True)[0]
    return ((part.flip(2) if flip else part) / 255 - 0.5) / 0.25


class PngImages(torch.utils.data.Dataset):
    """Images that are read, decoded and augmented when they are asked for, by (epoch, sample)."""

    def __init__(self, side, seed):
        self.path, self.records, self.labels = shard("png")
        self.side, self.seed = side, seed

    def __len__(self):
        return len(self.records)

    def __getitem__(self, number):
        from rgb import open_rgb  # needs Pillow
        epoch, sample = number
        at, size = self.records[sample]
        with open(self.path, "rb") as file:
            file.seek(at)
            picture = open_rgb(io.BytesIO(file.read(size)))
        image = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(picture.height, picture.width, 3)
        return augmented(image, self.side, draws.SampleRandom(self.seed, epoch, sample)), self.labels[sample]
