"""Lesson 51 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch

# region data_parallel
import threading

import torch.nn.functional as F
from torch.func import functional_call


def copy_to(device, tensor):  # differentiable: backward() copies the gradient back, and adds it to the tensor's own
    return tensor.to(device, copy=True)


def forward(model, ids, devices):  # what nn.DataParallel(model)(ids) does on GPUs; model and ids are on devices[0]
    parts = ids.chunk(len(devices))  # scatter: fewer parts if there are fewer rows
    states = dict(model.named_parameters()) | dict(model.named_buffers())
    copies = [{name: copy_to(device, state) for name, state in states.items()} for device in devices[1:len(parts)]]
    outputs = [None] * len(parts)

    def run(i):  # a thread for each replica: they share one interpreter, which runs one at a time
        outputs[i] = functional_call(model, copies[i - 1], parts[i].to(devices[i])) if i else model(parts[0])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(parts))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return torch.cat([output.to(devices[0]) for output in outputs])  # gather: the loss is computed on the first device


def update(model, optimizer, ids, targets, devices):
    optimizer.zero_grad()
    loss = F.cross_entropy(forward(model, ids, devices).flatten(0, 1), targets.flatten())
    loss.backward()  # .grad becomes the sum over the replicas, on the first device
    optimizer.step()
    return loss.detach()
# endregion


TWINS = [{"case": "gpt", "technique": "DataParallel",
          "settings": {"batch": 5, "layers": 2, "width": 32, "length": 16}}]


def train(workloads, twin, settings, seed):
    torch.set_num_threads(1)
    work = workloads.GptTraining(settings, seed)
    while True:
        yield update(work.model, work.optimizer, *work.next_batch(), ["cpu", "cpu"])
