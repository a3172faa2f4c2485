"""Lesson 00 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region time
import torch
from torch.utils.benchmark import Timer


def time_step(step):
    # Synchronises CUDA around what it times, and runs on one thread unless num_threads says otherwise: by hand,
    # torch.cuda.synchronize() stands before both readings of the clock. Never inside the step.
    timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
    # Warms up, chooses how many steps make a block, and repeats the block until the time is up.
    measured = timer.blocked_autorange(min_run_time=0.2)
    return measured.median, measured.iqr, measured.has_warnings  # seconds of a step, their spread, is it too large
# endregion


TWINS = [{"case": "convnet", "technique": "the same code", "settings": {"batch": 16, "channels": 4}}]


def train(workloads, twin, settings, seed):
    work, losses = workloads.ConvNetTraining(settings, seed), []
    median, _, _ = time_step(lambda: losses.append(work.update(*work.batches.next())))
    assert 0 < median < 1, f"a step of {median} s"
    yield from losses
