"""Lesson 57 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import os
import itertools

import torch

# region resume
def save(path, model, optimizer, epoch, batches):  # in a process of its own: rank 0's
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "batches": batches}
    with open(path + ".part", "wb") as file:
        torch.save(state, file)
        file.flush(), os.fsync(file.fileno())  # else the new name may be on the disk before the bytes are
    os.replace(path + ".part", path)  # whoever opens it has the old checkpoint or the new one


def resume(path, model, optimizer):  # in a process of its own for each rank
    if not os.path.exists(path):
        return 0, 0
    state = torch.load(path, map_location="cpu")  # refuses half a file, but checks no checksum (2.11)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])  # momentum and averages; without them another training goes on
    return state["epoch"], state["batches"]  # for sampler.set_epoch(), and how many batches of it to skip
# endregion


TWINS = [{"case": "resume", "technique": "resumed",
          "settings": {"batch": 4, "every": 2, "layers": 1, "width": 32, "heads": 2, "length": 16}}]
STEPS = 3  # of `every` updates each, that the ranks make before they say what their losses were


def run_rank(rank, ranks, folder, workloads, settings, seed):
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{folder}/store", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    losses = []
    for step in range(STEPS):  # as if torchrun had started all ranks again
        work = workloads.GptTraining(settings, seed + step)  # other weights, which the checkpoint replaces
        rows = (len(work.text) - 1) // work.length  # sequences, one behind the other
        dataset = torch.utils.data.TensorDataset(work.text[:rows * work.length].view(rows, work.length),
                                                 work.text[1:rows * work.length + 1].view(rows, work.length))
        epoch, batches = resume(f"{folder}/checkpoint", work.model, work.optimizer)
        sampler = torch.utils.data.DistributedSampler(dataset, seed=seed)
        sampler.set_epoch(epoch)
        loader = torch.utils.data.DataLoader(dataset, batch_size=settings["batch"] // ranks, sampler=sampler)
        model = torch.nn.parallel.DistributedDataParallel(work.model)
        total = 0.0
        for ids, targets in itertools.islice(loader, batches, batches + settings["every"]):
            work.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
            loss.backward()
            work.optimizer.step()
            total += loss.detach() / settings["every"]
        losses.append(total)
        if rank == 0:
            save(f"{folder}/checkpoint", work.model, work.optimizer, epoch, batches + settings["every"])
        torch.distributed.barrier()
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
