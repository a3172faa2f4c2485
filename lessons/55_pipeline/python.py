"""Lesson 55 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch
from torch import nn

# region pipeline
import torch.nn.functional as F
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe


def part_of(model, rank, ranks):  # in a process of its own for each rank: its blocks alone
    each = len(model.blocks) // ranks
    blocks = model.blocks[rank * each:(rank + 1) * each]
    first = [Embedding(model)] if rank == 0 else []  # a module that calls model.embed
    last = [model.norm, model.head] if rank + 1 == ranks else []
    return nn.Sequential(*first, *blocks, *last)


def mean_loss(logits, targets):  # in a process of its own for each rank: of one micro-batch, not divided by their number
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


# Once: schedule = Schedule1F1B(PipelineStage(part, rank, ranks, device), n_microbatches=4, loss_fn=mean_loss)
def update(schedule, optimizer, rank, ranks, ids, targets):  # in a process of its own for each rank: the whole batch
    optimizer.zero_grad()
    losses = []
    inputs = [ids] if rank == 0 else []  # cut into micro-batches along dimension 0
    labels = {"target": targets, "losses": losses} if rank + 1 == ranks else {}
    schedule.step(*inputs, **labels)  # forward and backward of all; scale_grads=True divides by their number
    optimizer.step()
    return sum(losses) / len(losses) if losses else None  # on the last rank
# endregion


TWINS = [{"case": "gpt", "technique": technique,
          "settings": {"batch": 8, "micro_batches": 4, "layers": 2, "width": 32, "length": 16}}
         for technique in ("1F1B", "GPipe")]
SCHEDULES = {"1F1B": Schedule1F1B, "GPipe": ScheduleGPipe}
UPDATES = 3  # that the ranks make before they say what their losses were


class Embedding(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.tokens, self.positions = model.tokens, model.positions

    def forward(self, ids):
        return self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))


def run_rank(rank, ranks, folder, workloads, schedule, settings, seed):
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{folder}/store", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    work = workloads.GptTraining(settings, seed)  # the whole model, drawn alike on all ranks
    part = part_of(work.model, rank, ranks)
    optimizer = torch.optim.SGD(part.parameters(), lr=settings["learning_rate"], momentum=0.9)
    stage = PipelineStage(part, rank, ranks, torch.device("cpu"))
    schedule = SCHEDULES[schedule](stage, n_microbatches=settings["micro_batches"], loss_fn=mean_loss)
    losses = [update(schedule, optimizer, rank, ranks, *work.next_batch()) for _ in range(UPDATES)]
    if rank + 1 == ranks:
        torch.save([loss.item() for loss in losses], f"{folder}/losses.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def train(workloads, twin, settings, seed):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        arguments = (2, folder, workloads, twin["technique"], settings, seed)
        torch.multiprocessing.start_processes(run_rank, args=arguments, nprocs=2, start_method="fork")
        yield from torch.load(f"{folder}/losses.pt")
