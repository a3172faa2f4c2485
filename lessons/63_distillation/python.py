"""Lesson 63 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch
import torch.nn.functional as F
from torch import nn


# region distillation
def distillation_loss(student, teacher, labels, temperature=4.0, alpha=0.9):
    log_q, log_p = (F.log_softmax(logits.float() / temperature, 1) for logits in (student, teacher))
    # F.kl_div divides by rows times classes by default, "mean"; "batchmean" is the definition. The student comes first.
    soft = F.kl_div(log_q, log_p, reduction="batchmean", log_target=True)
    return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(student.float(), labels)


@torch.no_grad()
def teacher_logits(teacher, batches, samples, classes=10):
    """Each sample passes the teacher once; `batches` gives the samples' numbers and their inputs, in any order."""
    teacher.eval()  # a teacher in train() drops out, and answers otherwise each time
    kept = torch.full((samples, classes), float("nan"))  # NaN: nobody has put this row
    for ids, inputs in batches:
        kept[ids] = teacher(inputs)
    assert kept.isfinite().all()
    return kept
# endregion


class Teacher(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.dropout = net, nn.Dropout(0.3)

    def forward(self, images):
        h = F.relu(self.net.conv1(images))
        h = F.max_pool2d(F.relu(self.net.conv2(h)), 2)
        return self.net.head(self.dropout(h.flatten(1)))


def trained_teacher(workloads, settings):
    torch.manual_seed(1)
    teacher, order = Teacher(workloads.ConvNet(settings["teacher_channels"])), torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(teacher.parameters(), lr=0.05, momentum=0.9)
    images, labels = workloads.fashion_mnist()
    updates = settings["teacher_updates"] * settings["updates"]
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - update / updates)
        picked = torch.randint(60000, (64,), generator=order)
        optimizer.zero_grad()
        F.cross_entropy(teacher(workloads.normalise_images(images[picked])), labels[picked]).backward()
        optimizer.step()
    return teacher


TWINS = [{"case": "convnet", "technique": "cached logits",
          "settings": {"batch": 8, "channels": 4, "images": 256, "pool": 512, "teacher_channels": 4, "updates": 3}}]


def train(workloads, twin, settings, seed):
    images, labels = workloads.fashion_mnist()
    teacher, pool = trained_teacher(workloads, settings), settings["pool"]
    numbers = torch.arange(pool).split(64)
    kept = teacher_logits(teacher, ((ids, workloads.normalise_images(images[ids])) for ids in numbers), pool)
    work, order = workloads.ConvNetTraining(settings, seed), torch.Generator().manual_seed(seed)
    starts = pool - settings["images"] + 1
    first = seed % starts * settings["images"] % starts
    while True:
        ids = first + torch.randint(settings["images"], (settings["batch"],), generator=order)
        work.optimizer.zero_grad()
        student = work.model(workloads.normalise_images(images[ids]))
        loss = distillation_loss(student, kept[ids], labels[ids], settings["temperature"], settings["alpha"])
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
