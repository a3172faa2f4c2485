"""Lesson 58 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch

# region ulysses
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.nn.functional import all_to_all_single


def exchange(x, cut, join):  # in a process of its own for each rank: to each its part along `cut`
    parts = torch.stack(x.chunk(dist.get_world_size(), cut))
    return torch.cat(all_to_all_single(torch.empty_like(parts), parts).unbind(0), join)  # its backward is one, too


def attention(q, k, v):  # in a process of its own for each rank: (B, H, T / N, d) each, and back
    q, k, v = exchange(torch.stack((q, k, v)), cut=2, join=3)  # all tokens of H / N heads
    return exchange(F.scaled_dot_product_attention(q, k, v, is_causal=True), cut=2, join=1)


def update(model, optimizer, ids, targets):  # in a process of its own for each rank: the same batch on all
    places = torch.arange(ids.shape[1]).chunk(dist.get_world_size())[dist.get_rank()]  # this rank's positions, too
    optimizer.zero_grad()
    h = model.embed(ids[:, places], places)
    for block in model.blocks:  # with attention() above for block.attention
        h = block(h)
    logits = model.head(model.norm(h)).flatten(0, 1)
    loss = F.cross_entropy(logits, targets[:, places].flatten(), reduction="sum") / targets.numel()  # of all ranks
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)  # a sum: the loss is divided by all targets already
    optimizer.step()
    return loss.detach() * dist.get_world_size()  # the mean over the ranks is the loss
# endregion


TWINS = [{"case": "gpt", "technique": "Ulysses",
          "settings": {"batch": 4, "layers": 2, "width": 32, "length": 16}}]
UPDATES = 3  # that the ranks make before they say what their losses were


def run_rank(rank, ranks, folder, workloads, settings, seed):
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    work = workloads.GptTraining(settings, seed)  # drawn alike on all ranks
    for block in work.model.blocks:
        block.attention = attention
    losses = [update(work.model, work.optimizer, *work.next_batch()) for _ in range(UPDATES)]
    torch.save(losses, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def train(workloads, twin, settings, seed):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        arguments = (2, folder, workloads, settings, seed)
        torch.multiprocessing.start_processes(run_rank, args=arguments, nprocs=2, start_method="fork")
        losses = [torch.load(f"{folder}/{rank}.pt") for rank in range(2)]
        yield from (sum(of_ranks).item() / 2 for of_ranks in zip(*losses))
