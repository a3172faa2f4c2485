"""Lesson 65 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn

# region resume
import os


def save(path, model, optimizer, scaler, updates, batches):
    state = {"model": model.state_dict(),  # with batch normalisation's statistics
             "optimizer": optimizer.state_dict(),  # momentum, and each group's learning rate
             "scaler": scaler.state_dict(), "updates": updates,  # the schedule follows from it, or scheduler.state_dict()
             "generator": torch.get_rng_state(),  # on GPUs torch.cuda.get_rng_state_all(), too
             "batches": batches}  # that the loop has got; a DataLoader's workers have read more
    with open(path + ".part", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())  # else the new name may be on the disk before the bytes are
    os.replace(path + ".part", path)


def resume(path, model, optimizer, scaler):
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    torch.set_rng_state(state["generator"])  # last: a model's first weights and a DataLoader's iterator draw from it
    return state["updates"], state["batches"]
# endregion


class NormedNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1, stride=2)
        self.norm2 = nn.BatchNorm2d(2 * channels)
        self.head = nn.Linear(2 * channels * 7 * 7, 10)

    def forward(self, images):  # (B, 1, 28, 28) -> (B, 10)
        h = F.relu(self.norm1(self.conv1(images)))
        h = F.max_pool2d(F.relu(self.norm2(self.conv2(h))), 2).flatten(1)
        h = F.dropout(h, 0.25, self.training)
        with torch.autocast("cpu", torch.half):
            return self.head(h)


class AugmentedImages(torch.utils.data.Dataset):
    """Indexed by (epoch, sample): what is random belongs to these two."""

    def __init__(self, images, labels, seed):
        self.images, self.labels, self.seed = images, labels, seed

    def __getitem__(self, index):
        import draws
        epoch, sample = index
        random = draws.SampleRandom(self.seed, epoch, sample)
        mirrored, down, right = random.uniform() < 0.5, random.below(5) - 2, random.below(5) - 2
        image = F.pad(self.images[sample], (2, 2, 2, 2))[:, 2 - down:30 - down, 2 - right:30 - right]
        if mirrored:
            image = F.pad(self.images[sample].flip(-1), (2, 2, 2, 2))[:, 2 - down:30 - down, 2 + right:30 + right]
        return image, self.labels[sample]


TWINS = [{"case": "resume", "technique": "resumed", "settings": {"batch": 16, "channels": 4, "every": 4, "images": 80}}]


def schedule(update):
    at = (update + 1) / 8
    return min(at, 1 / math.sqrt(at))


def train(workloads, twin, settings, seed):
    import draws
    import tempfile
    images, labels = workloads.fashion_mnist()
    with tempfile.TemporaryDirectory() as folder:
        for step in itertools.count():  # as if the process had been started again
            torch.manual_seed(seed + step)  # other weights, which the checkpoint replaces
            model = NormedNet(settings["channels"])
            optimizer = torch.optim.SGD(model.parameters(), lr=settings["learning_rate"], momentum=0.9)
            scaler = torch.amp.GradScaler("cpu", init_scale=settings["scale"], growth_interval=settings["growth_interval"])
            updates, batches = resume(f"{folder}/checkpoint", model, optimizer, scaler) if step > 0 else (0, 0)
            order = draws.batches_of_samples(settings["images"], settings["batch"], seed)
            loader = torch.utils.data.DataLoader(
                AugmentedImages(images, labels, seed), num_workers=1,
                batch_sampler=list(itertools.islice(order, batches, batches + settings["every"])),
                generator=torch.Generator())  # else its iterator draws a seed from the generator that was restored
            total = 0
            for inputs, targets in loader:
                optimizer.param_groups[0]["lr"] = settings["learning_rate"] * schedule(updates)
                optimizer.zero_grad()
                loss = F.cross_entropy(model(workloads.normalise_images(inputs)).float(), targets)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                updates, batches, total = updates + 1, batches + 1, total + loss.detach()
            save(f"{folder}/checkpoint", model, optimizer, scaler, updates, batches)
            yield total / settings["every"]
