"""Lesson 28 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch.nn.functional as F

# region async_scalar
import collections

import torch


class AsyncScalar:
    """push(loss) returns the loss of two steps ago; loss.item() would wait for this one's."""

    def __init__(self, delay=2):
        self.delay, self.on_the_way = delay, collections.deque()

    def push(self, value):
        host = value.detach().to("cpu", non_blocking=True)  # to page-locked memory; returns before it is there
        arrived = torch.cuda.Event() if value.is_cuda else None
        if arrived is not None:
            arrived.record()
        self.on_the_way.append((host, arrived))
        if len(self.on_the_way) <= self.delay:
            return None
        host, arrived = self.on_the_way.popleft()
        if arrived is not None:
            arrived.synchronize()  # without it the host may read what was in the memory before
        return host.item()  # of host memory: waits for nothing
# endregion


TWINS = [{"case": "mlp", "technique": "async scalar", "settings": {"layers": 4, "width": 16, "batch": 16}}]


def train(workloads, twin, settings, seed):
    work = workloads.MlpTraining(settings, seed)
    scalars = AsyncScalar()
    while True:
        images, labels = work.batches.next()
        work.optimizer.zero_grad()  # gradients become None; set_to_none=False would write zeros
        loss = F.cross_entropy(work.model(images), labels)
        loss.backward()
        work.optimizer.step()
        earlier = scalars.push(loss)
        if earlier is not None:
            yield torch.tensor(earlier)
