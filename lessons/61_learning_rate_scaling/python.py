"""Lesson 61 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import math

import torch
import torch.nn.functional as F


# region noise
class GradientNoise:  # PyTorch has none; in data parallel training a rank's gradient is the small batch
    def __init__(self, small_batch, large_batch):
        self.small_batch, self.large_batch, self.small, self.large = small_batch, large_batch, 0.0, 0.0

    def add(self, micro_gradients, gradient):  # each a list of tensors, means over their samples
        def square(tensors):
            return sum(t.double().square().sum() for t in tensors)
        self.small += sum(square(micro) for micro in micro_gradients) / len(micro_gradients)
        self.large += square(gradient)  # a tensor on its device: no synchronisation

    def scale(self):  # in samples: a ratio of averages, not an average of ratios
        trace = (self.small - self.large) / (1 / self.small_batch - 1 / self.large_batch)
        squared_norm = (self.large_batch * self.large - self.small_batch * self.small) / (self.large_batch - self.small_batch)
        return float(trace / squared_norm)
# endregion


# region warm_up
def warm_up(optimizer, factor, updates):  # from the small batch's rate; .step() after each optimizer.step()
    return torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=factor, total_iters=updates)
# endregion


TWINS = [{"case": "mlp", "technique": "noise measured", "settings": {"batch": 8, "times": 4, "layers": 3, "width": 16}}]


def train(workloads, twin, settings, seed):
    work = workloads.MlpTraining(settings, seed)
    times, parameters = settings["times"], list(work.model.parameters())
    noise = GradientNoise(settings["batch"], settings["batch"] * times)
    schedule = warm_up(work.optimizer, 1.0, 1)  # the case's rate stays as it is
    while True:
        micro_gradients, total = [], torch.zeros(())
        for _ in range(times):
            images, labels = work.batches.next()
            loss = F.cross_entropy(work.model(images), labels)
            micro_gradients.append(torch.autograd.grad(loss, parameters))
            total += loss.detach() / times
        for i, parameter in enumerate(parameters):
            parameter.grad = sum(micro[i] / times for micro in micro_gradients)
        noise.add(micro_gradients, [parameter.grad for parameter in parameters])
        work.optimizer.step()
        schedule.step()
        assert math.isfinite(noise.scale())
        yield total
