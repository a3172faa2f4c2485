"""Lesson 56 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import itertools

import torch

# region local
import torch.nn.functional as F
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer


def local_sgd(optimizer, inner_updates):  # in a process of its own for each rank; the model is in no DDP
    averager = PeriodicModelAverager(inner_updates, warmup_steps=inner_updates - 1)  # else the first update is averaged
    return PostLocalSGDOptimizer(optimizer, averager)  # its step() averages the parameters, not the optimizer's state


# Compressed instead, once: DDP with a hook that has PowerSGD's error feedback and warm start by default.
def powersgd(ddp, rank):  # not run here: its first Q is drawn by other random numbers
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=1000)  # exact before
    ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
# endregion


TWINS = [{"case": "gpt", "technique": "local SGD",
          "settings": {"batch": 8, "inner_updates": 3, "layers": 2, "width": 32, "length": 16}}]
ROUNDS = 3  # that the ranks make before they say what their losses were


def run_rank(rank, ranks, folder, workloads, settings, seed):
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{folder}/store", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    work = workloads.GptTraining(settings, seed)
    inner_updates = settings["inner_updates"]
    optimizer = local_sgd(work.optimizer, inner_updates)
    length = work.length
    rows = (len(work.text) - 1) // length  # sequences, one behind the other
    dataset = torch.utils.data.TensorDataset(work.text[:rows * length].view(rows, length),
                                             work.text[1:rows * length + 1].view(rows, length))
    sampler = torch.utils.data.DistributedSampler(dataset, seed=seed)
    loader = iter(torch.utils.data.DataLoader(dataset, batch_size=settings["batch"] // ranks, sampler=sampler))
    losses = []
    for _ in range(ROUNDS):
        total = 0.0
        for ids, targets in itertools.islice(loader, inner_updates):
            optimizer.zero_grad()
            loss = F.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten())
            loss.backward()
            optimizer.step()
            total += loss.detach()
        losses.append(total / inner_updates)
    torch.save(losses, f"{folder}/{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def train(workloads, twin, settings, seed):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        arguments = (2, folder, workloads, settings, seed)
        torch.multiprocessing.start_processes(run_rank, args=arguments, nprocs=2, start_method="fork")
        of_ranks = [torch.load(f"{folder}/{rank}.pt") for rank in range(2)]
    yield from [sum(losses) / len(losses) for losses in zip(*of_ranks)]
