"""Trains with PyTorch's DistributedDataParallel what ddp_parity_test trains with ours: same weights, same batches."""

import datetime
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
from exchange import read, write

RANKS, STEPS, ROWS, WIDTHS, BUCKET_BYTES = 2, 6, 8, (5, 40, 33, 3), 4096
SAMPLES, SAMPLER_RANKS, SEED, EPOCH = 101, 3, 7, 2


def train(rank, folder):
    torch.set_num_threads(1)
    store = dist.FileStore(str(pathlib.Path(folder) / "store"), RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=datetime.timedelta(seconds=30))
    layers = []
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers[:-1])
    if rank == 0:  # the others start elsewhere: they must be given rank 0's weights
        torch.nn.utils.vector_to_parameters(read(folder, "start.bin", -1), model.parameters())
    parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=BUCKET_BYTES / 2**20)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
    batches = read(folder, "batches.bin", STEPS, ROWS, WIDTHS[0] + WIDTHS[-1])
    part, losses = ROWS // RANKS, []
    for step in range(STEPS):
        x, y = batches[step, rank * part : (rank + 1) * part].split([WIDTHS[0], WIDTHS[-1]], dim=1)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(x), y)
        loss.backward()
        optimizer.step()
        mean = loss.detach() / RANKS
        dist.all_reduce(mean)
        losses.append(mean)
    if rank == 0:
        write(folder, "losses.bin", losses)
        write(folder, "finish.bin", model.parameters())
    dist.barrier()
    # On a loaded machine the interpreter's teardown can meet Gloo's threads half-way; what was asked for is written.
    sys.stdout.flush()
    os._exit(0)


def sample(folder):
    indices = []
    for rank in range(SAMPLER_RANKS):
        sampler = torch.utils.data.DistributedSampler(range(SAMPLES), num_replicas=SAMPLER_RANKS, rank=rank, seed=SEED)
        sampler.set_epoch(EPOCH)
        indices.append(torch.tensor(list(sampler)))
    write(folder, "samples.bin", indices)


if __name__ == "__main__":
    sample(sys.argv[1])
    torch.multiprocessing.spawn(train, args=(sys.argv[1],), nprocs=RANKS)
