"""Lesson 23 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region in_place
import torch
import torch.nn.functional as F


def forward(model, inner, images):
    h = F.leaky_relu(model.conv1(images), 0.1, inplace=True)  # allowed: a convolution does not keep its output
    for conv in inner:
        h = F.leaky_relu(conv(h), 0.1, inplace=True)  # default False; gelu has no such argument
    h = F.max_pool2d(F.leaky_relu(model.conv2(h), 0.1, inplace=True), 2)
    return model.head(h.flatten(1))


@torch.no_grad()  # without it: "a leaf Variable that requires grad is being used in an in-place operation."
def update(parameters, velocities, lr):  # what torch.optim.SGD(momentum=0.9) does
    for p, v in zip(parameters, velocities):
        v.mul_(0.9).add_(p.grad)
        p.add_(v, alpha=-lr)  # `p -= lr * v` does the same with a tensor more; `p = p - lr * v` trains nothing
# endregion


TWINS = [{"case": "leaky ReLU", "technique": "in-place activation",
          "settings": {"batch": 8, "channels": 8, "inner_layers": 2}}]


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)
    channels = settings["channels"]
    inner = [torch.nn.Conv2d(channels, channels, 3, padding=1) for _ in range(settings["inner_layers"])]
    parameters = [p for layer in (work.model, *inner) for p in layer.parameters()]
    velocities = [torch.zeros_like(p) for p in parameters]
    while True:
        images, labels = work.batches.next()
        loss = F.cross_entropy(forward(work.model, inner, images), labels)
        for p in parameters:
            p.grad = None
        loss.backward()
        update(parameters, velocities, settings["learning_rate"])
        yield loss.detach()
