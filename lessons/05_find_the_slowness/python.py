"""Lesson 05 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region profile_update
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, record_function


def profile_update(update, rows=8):
    """One update, warmed up: the operators that took longest, how often each ran, and on what shapes."""
    update()
    gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * gpu
    with profile(activities=activities, record_shapes=True, profile_memory=True) as profiler:
        update()  # label its parts: with record_function("data"): ...
    by = "self_device_time_total" if gpu else "self_cpu_time_total"
    return profiler.key_averages(group_by_input_shape=True).table(sort_by=by, row_limit=rows)
# endregion


# region repaired
def epoch(model, optimizer, batches, held_out):
    losses, right = torch.zeros(()), 0
    for images, labels in batches:
        with record_function("train"):
            optimizer.zero_grad()
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            loss.backward()
        right += (logits.argmax(1) == labels).sum()  # stays a tensor: nobody waits
        optimizer.step()
        losses = losses + loss.detach()
    with torch.no_grad():
        validation = torch.stack([F.cross_entropy(model(images), labels) for images, labels in held_out]).mean()
    return losses, right, validation
# endregion


SETTINGS = {"batch": 8, "channels": 4, "updates": 3, "images": 64, "validated": 2}
TWINS = [{"case": "convnet", "technique": "all six", "settings": SETTINGS},
         {"case": "convnet", "technique": "A alone", "settings": SETTINGS}]


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)
    images, labels = workloads.fashion_mnist()
    order = torch.Generator().manual_seed(seed)

    def batches():
        for _ in range(settings["updates"]):
            picked = torch.randint(settings["images"], (settings["batch"],), generator=order)
            yield workloads.normalise_images(images[picked]), labels[picked]

    held_out = [(workloads.normalise_images(images[at:at + settings["batch"]]), labels[at:at + settings["batch"]])
                for at in range(60000 - settings["batch"] * settings["validated"], 60000, settings["batch"])]
    assert "aten::mm" in profile_update(lambda: torch.ones(4, 4) @ torch.ones(4, 4))
    while True:
        losses, _, _ = epoch(work.model, work.optimizer, batches(), held_out)
        yield losses / settings["updates"]
