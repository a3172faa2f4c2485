"""Lesson 22 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region channels_last
import torch
import torch.nn.functional as F


def to_channels_last(model):  # before the first backward() and the first step
    return model.to(memory_format=torch.channels_last)  # parameters and buffers of 4 dimensions; others stay


def update(model, optimizer, images, labels):
    # Shape and values stay, only strides change. Not .contiguous(...): with one channel it changes nothing.
    images = images.to(memory_format=torch.channels_last)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()  # torch.backends.cudnn.benchmark is False by default: cuDNN times nothing
    return loss.detach()
# endregion


SETTINGS = {"batch": 8, "channels": 8}
TWINS = [{"case": "convnet", "technique": "channels_last", "settings": SETTINGS},
         {"case": "grouped", "technique": "channels_last", "settings": {**SETTINGS, "inner_layers": 2, "groups": 4}}]


class Deeper(torch.nn.Module):
    """The convnet with more convolutions between its first and its last."""

    def __init__(self, convnet, settings):
        super().__init__()
        channels, groups = settings["channels"], settings["groups"]
        self.convnet = convnet
        self.inner = torch.nn.ModuleList(torch.nn.Conv2d(channels, channels, 3, padding=1, groups=groups)
                                         for _ in range(settings["inner_layers"]))

    def forward(self, images):
        h = F.relu(self.convnet.conv1(images))
        for conv in self.inner:
            h = F.relu(conv(h))
        h = F.max_pool2d(F.relu(self.convnet.conv2(h)), 2)
        return self.convnet.head(h.flatten(1))


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)
    model = to_channels_last(Deeper(work.model, settings))
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["learning_rate"], momentum=0.9)
    while True:
        yield update(model, optimizer, *work.batches.next())
