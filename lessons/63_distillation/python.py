"""Lesson 60 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import copy
import math

import torch
import torch.nn.functional as F


# region early_stopping
class EarlyStopping:  # PyTorch has none; Lightning's and Keras' leave the last weights unless asked for the best
    def __init__(self, model, patience=5, minimum_improvement=0.0):
        self.model, self.patience, self.minimum_improvement = model, patience, minimum_improvement
        self.best_loss, self.best, self.waited = math.inf, None, 0

    def should_stop(self, loss):
        self.waited += 1
        if loss < self.best_loss - self.minimum_improvement:  # NaN is not
            # state_dict() refers to the live tensors: without the copy the best weights go on training
            self.best_loss, self.best, self.waited = loss, copy.deepcopy(self.model.state_dict()), 0
        return self.waited >= self.patience

    def restore_best(self):
        self.model.load_state_dict(self.best)
# endregion


@torch.no_grad()
def mean_loss(model, images, labels):
    return float(F.cross_entropy(model(images), labels))


TWINS = [{"case": "convnet", "technique": "with checks", "settings": {"batch": 16, "channels": 4, "every": 3}}]


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)
    stopping = EarlyStopping(work.model)
    images, labels = workloads.fashion_mnist()
    # Any images do here: a check changes nothing of the training, and that is what the losses show.
    held_out = workloads.normalise_images(images[:64]), labels[:64]
    try:
        while True:
            total = torch.zeros(())
            for _ in range(settings["every"]):
                total += work.update(*work.batches.next())
            yield total / settings["every"]
            stopping.should_stop(mean_loss(work.model, *held_out))
    finally:
        stopping.restore_best()
        assert mean_loss(work.model, *held_out) == stopping.best_loss
