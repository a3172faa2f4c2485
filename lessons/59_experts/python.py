"""Lesson 59 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch

# region expert_parallel
import torch.distributed as dist
import torch.nn.functional as F


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(context, rows, to, source):  # in a process of its own for each rank
        context.splits = to, source
        received = rows.new_empty(sum(source), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), source, to)
        return received

    @staticmethod
    def backward(context, gradient):  # in a process of its own for each rank: the same ways back
        to, source = context.splits
        return AllToAll.apply(gradient, source, to), None, None


def mixture(x, router, up, down, active):  # in a process of its own for each rank; x: (n, D), up: this rank's experts
    ranks, own = dist.get_world_size(), up.size(0)
    weights, experts = F.linear(x, router).softmax(-1).topk(active)
    weights = weights / weights.sum(-1, keepdim=True)  # not if active is 1: the router would have no gradient
    order = experts.flatten().argsort(stable=True)
    counts = experts.flatten().bincount(minlength=ranks * own)
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts)  # how many rows come from each rank for each expert
    to, source = (c.view(ranks, own).sum(1).tolist() for c in (counts, received))  # the host waits here
    rows = AllToAll.apply(x[order // active], to, source)  # by rank, and then by expert
    by_expert = torch.arange(own).repeat(ranks).repeat_interleave(received).argsort(stable=True)
    ends = received.view(ranks, own).sum(0).cumsum(0).int()
    inner = F.gelu(F.grouped_mm(rows[by_expert], up, offs=ends), approximate="tanh")
    results = F.grouped_mm(inner, down, offs=ends)[by_expert.argsort()]
    pairs = AllToAll.apply(results, source, to)[order.argsort()]
    return (pairs.view(*experts.shape, -1) * weights.unsqueeze(-1)).sum(1)


def average(experts, others):  # in a process of its own for each rank; after backward()
    for parameter in others:
        dist.all_reduce(parameter.grad.div_(dist.get_world_size()))
    for parameter in experts:  # a sum over all ranks' tokens already: divided, and never all-reduced
        parameter.grad.div_(dist.get_world_size())
# endregion


TWINS = [{"case": "ranks", "technique": "expert parallel",
          "settings": {"batch": 4, "layers": 2, "width": 32, "length": 16, "experts": 4}}]
UPDATES = 3  # that the ranks make before they say what their losses were


class Mixture(torch.nn.Module):
    def __init__(self, width, layers, settings, rank, ranks):
        super().__init__()
        experts, self.active = settings["experts"], settings["active"]
        own = slice(rank * experts // ranks, (rank + 1) * experts // ranks)

        def drawn(deviation, *sizes):
            return torch.empty(sizes).normal_(0, deviation)

        self.router = torch.nn.Parameter(drawn(0.02, experts, width))
        self.up = torch.nn.Parameter(drawn(0.02, experts, width, 4 * width)[own].clone())
        self.down = torch.nn.Parameter(drawn(0.02 / (2 * layers) ** 0.5, experts, 4 * width, width)[own].clone())

    def forward(self, x):
        return mixture(x.flatten(0, 1), self.router, self.up, self.down, self.active).view_as(x)


def run_rank(rank, ranks, folder, workloads, settings, seed):
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    work = workloads.GptTraining(settings, seed)  # the whole model, drawn alike on all ranks
    mixtures = []
    for block in work.model.blocks:
        mixtures.append(Mixture(settings["width"], settings["layers"], settings, rank, ranks))
        block.up, block.down = torch.nn.Identity(), torch.nn.Identity()
        block.mixture = mixtures[-1]
        block.mlp = lambda x, mixture=mixtures[-1]: mixture(x)
    experts = [parameter for each in mixtures for parameter in (each.up, each.down)]
    held = {id(parameter) for parameter in experts}
    others = [parameter for parameter in work.model.parameters() if id(parameter) not in held]
    optimizer = torch.optim.SGD(others + experts, lr=settings["learning_rate"], momentum=0.9, foreach=False)
    rows = settings["batch"] // ranks
    losses = []
    for _ in range(UPDATES):
        ids, targets = (t[rank * rows:(rank + 1) * rows] for t in work.next_batch())
        optimizer.zero_grad()
        loss = F.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        average(experts, others)
        optimizer.step()
        mean = loss.detach() / ranks
        dist.all_reduce(mean)
        losses.append(mean.item())
    if rank == 0:
        torch.save(losses, f"{folder}/losses.pt")
    dist.barrier()
    dist.destroy_process_group()


def train(workloads, twin, settings, seed):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        arguments = (2, folder, workloads, settings, seed)
        torch.multiprocessing.start_processes(run_rank, args=arguments, nprocs=2, start_method="fork")
        yield from torch.load(f"{folder}/losses.pt")
