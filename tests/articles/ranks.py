"""Runs a function on several ranks, each a process that is forked here, over Gloo."""

import os
import tempfile

import torch
import torch.distributed as dist


def run(function, rank, ranks, store, results):
    torch.set_num_threads(1)  # a forked process has none of its parent's threads
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    try:
        results.put((rank, function(rank, ranks)))
    finally:
        dist.destroy_process_group()


def on_ranks(function, ranks=2, limit_s=60):
    """What function(rank, ranks) returns on each rank, in their order: lists and numbers, since tensors would be shared."""
    context = torch.multiprocessing.get_context("fork")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [context.Process(target=run, args=(function, rank, ranks, f"{folder}/store", results), daemon=True)
                     for rank in range(ranks)]
        for process in processes:
            process.start()
        answers = dict(results.get(timeout=limit_s) for _ in processes)
        for process in processes:
            process.join(limit_s)
    return [answers[rank] for rank in range(ranks)]
