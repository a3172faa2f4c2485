"""Lesson 28 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch.nn.functional as F

# region log_every_n
def mean_losses(losses, n):
    """The mean of every n losses. Waits for the GPU once for each mean, not for each loss."""
    total = 0
    for step, loss in enumerate(losses, 1):
        total = total + loss.detach()  # one more operator in the queue
        if step % n == 0:
            yield total.item() / n  # the only wait
            total = 0
# endregion


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
            arrived.record(torch.cuda.current_stream(value.device))  # of its GPU, which need not be the current one
        self.on_the_way.append((host, arrived))
        return self.take() if len(self.on_the_way) > self.delay else None

    def take(self):
        host, arrived = self.on_the_way.popleft()
        if arrived is not None:
            arrived.synchronize()  # without it the host may read what was in the memory before
        return host.item()  # of host memory: waits for nothing

    def drain(self):
        """At the end of training: what is still on its way."""
        while self.on_the_way:
            yield self.take()
# endregion


SETTINGS = {"layers": 4, "width": 16, "batch": 16}
TWINS = [{"case": "mlp", "technique": "read every n", "settings": SETTINGS | {"read_every": 1}},
         {"case": "mlp", "technique": "async scalar", "settings": SETTINGS}]


def losses_of(workloads, settings, seed):
    work = workloads.MlpTraining(settings, seed)
    while True:
        images, labels = work.batches.next()
        work.optimizer.zero_grad()  # gradients become None; set_to_none=False would write zeros
        loss = F.cross_entropy(work.model(images), labels)
        loss.backward()
        work.optimizer.step()
        yield loss


def train(workloads, twin, settings, seed):
    losses = losses_of(workloads, settings, seed)
    if twin["technique"] == "read every n":
        for mean in mean_losses(losses, settings["read_every"]):
            yield torch.tensor(mean)
    scalars = AsyncScalar()
    try:
        for loss in losses:
            earlier = scalars.push(loss)
            if earlier is not None:
                yield torch.tensor(earlier)
    finally:
        assert len(list(scalars.drain())) == scalars.delay
