"""Lesson 52 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import itertools

import torch

# region ddp
import contextlib

import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def own_share(dataset, rows, **sampler_options):  # in a process of its own for each rank; rows: of this rank
    sampler = DistributedSampler(dataset, **sampler_options)  # without it every rank reads the whole data set
    return DataLoader(dataset, batch_size=rows, sampler=sampler)


def batches(loader, epochs):  # in a process of its own for each rank
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)  # or all epochs have the same order
        yield from loader


# Once: ddp = DistributedDataParallel(model), with buckets of bucket_cap_mb=25 by default (the first has 1 MiB).
def update(ddp, optimizer, ids, targets, micro_batches):  # in a process of its own for each rank: its rows
    assert len(ids) % micro_batches == 0  # chunk() may return fewer parts: then no backward() would be synchronised
    optimizer.zero_grad()
    total = 0.0
    for i, (x, y) in enumerate(zip(ids.chunk(micro_batches), targets.chunk(micro_batches))):
        last = i + 1 == micro_batches
        with contextlib.nullcontext() if last else ddp.no_sync():  # around forward, too
            loss = F.cross_entropy(ddp(x).flatten(0, 1), y.flatten()) / micro_batches
            loss.backward()  # all-reduces start as buckets fill; .grad becomes the mean over the ranks, not the sum
        total += loss.detach()
    optimizer.step()
    return total  # this rank's; an average over the ranks needs an all_reduce of its own
# endregion


TWINS = [{"case": "accumulate", "technique": "overlapped, no_sync",
          "settings": {"batch": 8, "micro_batches": 2, "layers": 2, "width": 32, "length": 16}}]
UPDATES = 3  # that the ranks make before they say what their losses were


def run_rank(rank, ranks, folder, workloads, settings, seed):
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{folder}/store", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    work = workloads.GptTraining(settings, seed)
    ddp = DistributedDataParallel(work.model, bucket_cap_mb=settings["bucket_kib"] / 1024)
    length = work.length
    rows = (len(work.text) - 1) // length  # sequences, one behind the other
    dataset = torch.utils.data.TensorDataset(work.text[:rows * length].view(rows, length),
                                             work.text[1:rows * length + 1].view(rows, length))
    losses = []
    loader = own_share(dataset, settings["batch"] // ranks, seed=seed)
    for ids, targets in itertools.islice(batches(loader, epochs=1), UPDATES):
        losses.append(update(ddp, work.optimizer, ids, targets, settings["micro_batches"]))
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
