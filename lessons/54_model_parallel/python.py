"""Lesson 54 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch

# region tensor_parallel
import torch.nn.functional as F
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def divide(model, mesh):  # in a process of its own for each rank; then make the optimizer
    for block in model.blocks:
        by_rank_qkv(block.qkv, mesh.size())
        block.heads //= mesh.size()  # this rank's
        parallelize_module(block, mesh, {"qkv": ColwiseParallel(), "projection": RowwiseParallel(),  # bias: added once
                                         "up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def by_rank_qkv(qkv, ranks):  # in a process of its own for each rank: else it would get all of q and half of k
    for value in (qkv.weight, qkv.bias):
        parts = value.data.view(3, ranks, -1, *value.shape[1:])  # (3, ranks, D / ranks, ...)
        value.data = parts.transpose(0, 1).reshape(value.shape)  # each rank's q, k and v in a row


def update(model, optimizer, ids, targets):  # in a process of its own for each rank: the same batch on all
    optimizer.zero_grad()
    loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    loss.backward()  # gradients of qkv, projection, up and down are DTensors: of this rank's part
    optimizer.step()
    return loss.detach()  # the same on every rank
# endregion


TWINS = [{"case": "gpt", "technique": "tensor parallel",
          "settings": {"batch": 4, "layers": 2, "width": 32, "length": 16}}]
UPDATES = 3  # that the ranks make before they say what their losses were


def run_rank(rank, ranks, folder, workloads, settings, seed):
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{folder}/store", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    work = workloads.GptTraining(settings, seed)  # the whole model, drawn alike on all ranks
    model = divide(work.model, torch.distributed.init_device_mesh("cpu", (ranks,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["learning_rate"], momentum=0.9, foreach=False)
    losses = [update(model, optimizer, *work.next_batch()) for _ in range(UPDATES)]
    if rank == 0:
        torch.save([loss.item() for loss in losses], f"{folder}/losses.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def train(workloads, twin, settings, seed):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        arguments = (2, folder, workloads, settings, seed)
        torch.multiprocessing.start_processes(run_rank, args=arguments, nprocs=2, start_method="fork")
        yield from torch.load(f"{folder}/losses.pt")
