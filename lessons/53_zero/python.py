"""Lesson 53 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import itertools

import torch

# region zero
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


def shard(model, reshard_after_forward=True):  # in a process of its own for each rank; then make the optimizer
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=reshard_after_forward)  # True: stage 3; False: parameters stay
    return fully_shard(model)  # what is in no block: gathered for the whole step


def update(model, optimizer, ids, targets, micro_batches, max_norm):  # in a process of its own for each rank
    optimizer.zero_grad()
    total = 0.0
    for x, y in zip(ids.chunk(micro_batches), targets.chunk(micro_batches)):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / micro_batches
        loss.backward()  # reduce-scatters each micro-batch; .grad becomes the mean over the ranks, of this rank's shard
        total += loss.detach()
    if max_norm > 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # of DTensors: the norm over all ranks
    optimizer.step()
    return total  # this rank's
# endregion


TWINS = [{"case": "accumulate", "technique": "stage 3",
          "settings": {"batch": 8, "micro_batches": 2, "layers": 2, "width": 32, "length": 16},
          "tolerance": 1e-5, "why": "AdamW divides by small numbers, so that sums in another order show"}]
UPDATES = 3  # that the ranks make before they say what their losses were


def run_rank(rank, ranks, folder, workloads, settings, seed):
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{folder}/store", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    work = workloads.GptTraining(settings, seed)
    model = shard(work.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["adamw_learning_rate"], eps=1e-6, weight_decay=1e-2)
    length = work.length
    rows = (len(work.text) - 1) // length  # sequences, one behind the other
    dataset = torch.utils.data.TensorDataset(work.text[:rows * length].view(rows, length),
                                             work.text[1:rows * length + 1].view(rows, length))
    sampler = torch.utils.data.DistributedSampler(dataset, seed=seed)
    losses = []
    loader = torch.utils.data.DataLoader(dataset, batch_size=settings["batch"] // ranks, sampler=sampler)
    for ids, targets in itertools.islice(loader, UPDATES):
        losses.append(update(model, optimizer, ids, targets, settings["micro_batches"], settings["max_norm"]))
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
