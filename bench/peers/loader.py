"""PyTorch's DataLoader and Pillow doing what loader_bench does: files in, batches of normalised float tensors out.

torchvision is not needed: its RandomResizedCrop (antialiased, bilinear), flip, ToTensor and Normalize are written out with the
calls that were fastest here. Favourable to Python, too: Pillow resizes straight from the box, so nothing is cropped first; channels
are split as bytes, twice as fast as a permuted tensor; JPEG bytes are sliced from the mapped shard, with no file to open. PNG files
are opened one by one, as a data set of files is read. Workers are kept, with the default depth of two batches for each; numbers go
on from epoch to epoch, so that their queue never runs dry between epochs.

What compare.py prints beside the pairs: the best number of workers of one side against the best of the other.

# cores: all
# best: png = png/* against png/*
# best: jpeg256 = jpeg256/* against jpeg256/*
# best: raw256 shard against PNG files = raw256/* against png/*
# best: torch::data against this, png = torch_data/png/* against png/*
# best: torch::data against this, jpeg256 = torch_data/jpeg256/* against jpeg256/*
# best: lesson 10 against torch::data, png = png/* against own torch_data/png/*
# best: lesson 10 against torch::data, jpeg256 = jpeg256/* against own torch_data/jpeg256/*
"""

import hashlib
import io
import itertools
import math
import random
import sys
import warnings

import twin
from rgb import open_rgb

warnings.filterwarnings("ignore", message=".*(NumPy|not writable|worker processes).*")  # none is needed, nothing is written, 4 are meant

try:
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
except ImportError as error:
    print(f"{error}; to fix: ./tenfold setup tests", file=sys.stderr)
    sys.exit(77)

torch.set_num_threads(1)
SIDE, BATCH, STEP = 224, 32, 7919
MEAN, DEVIATION = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.25)
SCALE, SHIFT = 1 / (255 * DEVIATION), MEAN / DEVIATION
LOW, HIGH = math.log(3 / 4), math.log(4 / 3)


def random_box(width, height):
    """random_crop of lesson 10: a quarter of the area to all of it, sides 3 : 4 to 4 : 3."""
    for _ in range(10):
        area = width * height * random.uniform(0.25, 1)
        aspect = math.exp(random.uniform(LOW, HIGH))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 1 <= w <= width and 1 <= h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    aspect = width / height
    allowed = min(max(aspect, 3 / 4), 4 / 3)
    w = width if aspect <= allowed else max(1, round(height * allowed))
    h = height if aspect >= allowed else max(1, round(width / allowed))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def centre_box(width, height):
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def transform(picture, augment):
    """(3, SIDE, SIDE) floats, normalised."""
    box = (random_box if augment else centre_box)(*picture.size)
    picture = picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box)
    if augment and random.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    channels = b"".join(channel.tobytes() for channel in picture.split())
    return torch.frombuffer(channels, dtype=torch.uint8).view(3, SIDE, SIDE).float().mul_(SCALE).sub_(SHIFT)


class Drawings(Dataset):
    """The pictures of loader_bench; numbers past the end begin again."""

    def __init__(self, form, batches, augment=True):
        self.shard, records = twin.shard_records(twin.data_folder() / "shards" / f"openclipart-{form}-train.shard")
        self.size, self.augment = batches * BATCH, augment
        order = [i * STEP % len(records) for i in range(self.size)]
        self.records, self.paths = [records[i] for i in order], None
        labels = twin.shard_labels(self.shard)
        self.labels = [labels[i] for i in order]
        if form == "png":
            names = twin.shard_names(self.shard)
            self.paths = [str(twin.data_folder() / "openclipart" / names[i]) for i in order]

    def __len__(self):
        return self.size

    def decoded(self, i):
        if self.paths:
            with open(self.paths[i], "rb") as file:
                return open_rgb(file)
        at, size = self.records[i]
        return open_rgb(io.BytesIO(self.shard[at:at + size]))

    def __getitem__(self, number):
        i = number % self.size
        return transform(self.decoded(i), self.augment), self.labels[i]


def onwards():
    """Batches of 0, 1, 2 and on without an end."""
    for first in itertools.count(0, BATCH):
        yield range(first, first + BATCH)


class Epochs:
    """Calls that each take an epoch of batches from one loader, the first only as many as it makes ahead: the clock then starts,
    as it stops, with an empty queue. One loader at a time has workers."""

    running = None

    def __init__(self, pictures, workers):
        self.pictures, self.workers, self.batches = pictures, workers, None

    def __call__(self):
        if Epochs.running is not self:
            Epochs.stop()
            Epochs.running = self
            self.batches = iter(DataLoader(self.pictures, batch_sampler=onwards(), num_workers=self.workers))
            self.take(2 * self.workers + 1)
        else:
            self.take(len(self.pictures) // BATCH)

    @staticmethod
    def stop():
        """No worker fills its queue while something else is timed."""
        if Epochs.running:
            Epochs.running.batches = None
        Epochs.running = None

    def take(self, count):
        for _ in range(count):
            next(self.batches)


def augment(pictures):
    decoded = [pictures.decoded(i) for i in range(BATCH)]

    def batch():
        Epochs.stop()
        for picture in decoded:
            transform(picture, True)
    return batch


def answer(sets):
    """What comes out without augmentation: labels exactly; pictures as means of their quarters, batch by batch."""
    labels, means = "", []
    for name, batches in sets.items():
        for images, classes in DataLoader(Drawings(name, batches, augment=False), batch_size=BATCH):
            labels += "".join(map(str, classes.tolist()))
            means += torch.nn.functional.adaptive_avg_pool2d(images, 2).mean(0).flatten().tolist()
    return f"{len(labels)} pictures, labels {hashlib.sha256(labels.encode()).hexdigest()}", means


if __name__ == "__main__":
    sets, cases = {"png": 4, "jpeg256": 10}, {}
    for name, batches in sets.items():
        pictures = Drawings(name, batches)
        for workers in (0, 1, 2, 4):
            cases[f"{name}/workers:{workers}"] = (Epochs(pictures, workers), len(pictures))
        cases[f"augment/{name}"] = (augment(pictures), BATCH)
    exact, means = answer(sets)
    # Pillow rounds to whole bytes after resizing along each side. Half a level is 0.008 here; over a quarter of a batch little remains.
    twin.run(exact, cases, work="items", near=means, tolerance=0.001, libraries=("torch", "pillow"))
