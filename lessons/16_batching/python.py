"""Lesson 16 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region augment
import torch


def augment(images, top, left, flip, side, mean, deviation):  # (B, H, W, 3) bytes; (B) each
    # One draw for each image. torchvision's transforms take a batch, too, but draw once for all of it.
    steps = torch.arange(side, device=images.device)
    rows = top[:, None] + steps  # (B, S)
    columns = left[:, None] + torch.where(flip[:, None], side - 1 - steps, steps)  # (B, S)
    which = torch.arange(len(images), device=images.device)[:, None, None]
    parts = images[which, rows[:, :, None], columns[:, None, :]]  # (B, S, S, 3), one operator for all images
    # contiguous(): channels first in memory, too; without it the batch is channels-last, and so is the convolution.
    return (parts.permute(0, 3, 1, 2).contiguous().float() - 255 * mean) / (255 * deviation)
# endregion


TWINS = [{"case": "convnet", "technique": "batched", "settings": {"batch": 8, "side": 32, "channels": 4}}]


def train(workloads, twin, settings, seed):
    import clipart
    import draws
    import twin as peers
    stored, side = clipart.RAW_SIDE, settings["side"]
    path, records, labels = clipart.shard(f"raw{stored}")
    mapped, _ = peers.shard_records(path)
    work = workloads.ConvNetTraining(settings, seed, colours=3, side=side, classes=8)
    for batch in draws.batches_of_samples(len(records), settings["batch"], seed):
        pixels = [bytearray(mapped[records[i][0]:sum(records[i])]) for _, i in batch]
        images = torch.stack([torch.frombuffer(p, dtype=torch.uint8).view(stored, stored, 3) for p in pixels])
        views = [draws.random_view(stored, stored, side, draws.SampleRandom(seed, epoch, i)) for epoch, i in batch]
        top, left, flip = (torch.tensor(values) for values in zip(*views))
        classes = torch.tensor([labels[i] for _, i in batch])
        yield work.update(augment(images, top, left, flip, side, mean=0.5, deviation=0.25), classes)
