"""Lesson 20 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region largest_batch
import torch


def largest_batch(limit, try_batch):  # try_batch(n) builds a model and trains two updates: the first has no optimizer state
    fits, too_many, failed = 0, limit + 1, False
    while too_many - fits > 1:
        n = (fits + too_many) // 2 if failed else min(max(1, 2 * fits), limit)  # double, then bisect
        try:
            with torch.random.fork_rng():  # the search draws random numbers; the training after it shall not see that
                try_batch(n)
            fits = n
        except torch.OutOfMemoryError:  # alone: RuntimeError, its base, is also every wrong shape
            too_many, failed = n, True
        torch.cuda.empty_cache()  # after the except block: the exception holds the frames, and so the tensors
    return fits
# endregion


import contextlib
import copy

TWINS = [{"case": "convnet", "technique": "search first",
          "settings": {"batch": 16, "channels": 4, "budget_mib": 2}}]


@contextlib.contextmanager
def kept_for_backward(budget):
    """On a CPU, whose memory is too large to fill: what a forward pass keeps may take so many bytes."""
    kept = 0

    def keep(tensor):
        nonlocal kept
        kept += tensor.nbytes
        if kept > budget:
            raise torch.OutOfMemoryError(f"{kept} bytes kept of {budget}")
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)

    def try_batch(n):
        trial = copy.deepcopy(work)  # the search must not train the model, nor use up its batches
        trial.batches.batch = n
        for _ in range(2):
            with kept_for_backward(settings["budget_mib"] << 20):
                trial.update(*trial.batches.next())

    if not 1 < largest_batch(1 << 20, try_batch) < 1 << 20:
        raise RuntimeError("the search ended without running out of memory")
    while True:
        yield work.update(*work.batches.next())
