"""Lesson 50 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import itertools

# region ring
import torch
import torch.distributed as dist


def exchange(sent, to, received, source):  # in a process of its own for each rank
    both = [dist.P2POp(dist.irecv, received, source), dist.P2POp(dist.isend, sent, to)]
    for work in dist.batch_isend_irecv(both):  # one after the other would deadlock: all ranks send first
        work.wait()


def ring_all_reduce(flat):  # in a process of its own for each rank; dist.all_reduce(flat) leaves the same sum
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parts = [flat.tensor_split(ranks)[(rank - i) % ranks] for i in range(ranks + 1)]  # views, the own part first and last
    to, source = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(1, ranks):  # reduce-scatter: afterwards parts[0] is the sum
        received = torch.empty_like(parts[step + 1])
        exchange(parts[step], to, received, source)
        parts[step + 1] += received
    for step in range(ranks - 1):  # all-gather
        exchange(parts[step], to, parts[step + 1], source)
# endregion


TWINS = [{"case": "gpt", "technique": "ring", "settings": {"batch": 8, "layers": 2, "width": 32, "length": 16}}]
UPDATES = 3  # that the ranks make before they say what their losses were


def run_rank(rank, ranks, folder, workloads, settings, seed):
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    work = workloads.GptTraining(settings, seed)
    parameters = list(work.model.parameters())
    rows = (len(work.text) - 1) // work.length  # sequences, one behind the other
    dataset = torch.utils.data.TensorDataset(work.text[:rows * work.length].view(rows, work.length),
                                             work.text[1:rows * work.length + 1].view(rows, work.length))
    sampler = torch.utils.data.DistributedSampler(dataset, seed=seed)
    loader = torch.utils.data.DataLoader(dataset, batch_size=settings["batch"] // ranks, sampler=sampler)
    losses = []
    for ids, targets in itertools.islice(loader, UPDATES):
        work.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        flat = torch.cat([parameter.grad.flatten() for parameter in parameters]) / ranks
        ring_all_reduce(flat)
        for parameter, mean in zip(parameters, flat.split([parameter.numel() for parameter in parameters])):
            parameter.grad.copy_(mean.view_as(parameter))
        work.optimizer.step()
        losses.append(loss.detach())
    torch.save(losses, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def train(workloads, twin, settings, seed):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        arguments = (2, folder, workloads, settings, seed)
        torch.multiprocessing.start_processes(run_rank, args=arguments, nprocs=2, start_method="fork")
        of_ranks = [torch.load(f"{folder}/{rank}.pt") for rank in range(2)]
    yield from [sum(losses) / len(losses) for losses in zip(*of_ranks)]
