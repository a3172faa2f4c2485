"""Lesson 90 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch
import torch.nn.functional as F


# region pipeline
def train_one(model, optimizer, ids, targets, sixteen_bits=False):  # targets of padding are -100
    optimizer.zero_grad()  # one process; with ranks: loss * ranks * own_tokens / all_tokens, as DDP averages the ranks' means
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=sixteen_bits):
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()  # read it with .item() now and then, not in each step


def validate(model, batches):  # sums, not means of means: the last batch is shorter
    model.eval()  # inference_mode() does not turn dropout off
    with torch.inference_mode():
        loss = sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") for x, y in batches)
    model.train()  # lesson 29 puts back each module's own mode
    return loss / sum((y != -100).sum() for _, y in batches)  # several ranks: all_reduce both sums first


# After init_process_group() and torch.cuda.set_device(rank).
def levers(dataset, model, rank, ranks, batch=16, workers=2):  # not run here: needs a GPU for each rank
    sampler = torch.utils.data.DistributedSampler(dataset, ranks, rank, drop_last=True)  # set_epoch() before each epoch
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch // ranks, sampler=sampler, drop_last=True,
                                         num_workers=max(1, workers // ranks), persistent_workers=True, pin_memory=True)
    ddp = torch.nn.parallel.DistributedDataParallel(model.to(rank), device_ids=[rank])
    return loader, ddp, torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9, fused=True)
# endregion


# Two ranks of the program share a batch; this is one process with the whole of it.
TWINS = [{"case": "gpt", "technique": "+ ranks", "settings": {"batch": 4},
          "tolerance": 1e-5, "why": "two ranks add in another order"}]
GPT = {"layers": 6, "width": 64, "heads": 4, "length": 64, "tokens": "characters", "dropout": 0.0, "learning_rate": 0.1,
       "equal": 0}


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(GPT | settings, seed)
    optimizer = torch.optim.SGD(work.model.parameters(), lr=0.1, momentum=0.9)
    try:
        for texts in workloads.speeches(GPT | settings, seed):
            ids = torch.zeros(len(texts), GPT["length"], dtype=torch.long)
            targets = torch.full_like(ids, -100)
            for row, text in enumerate(texts):
                ids[row, :len(text) - 1], targets[row, :len(text) - 1] = text[:-1], text[1:]
            yield train_one(work.model, optimizer, ids, targets)
    finally:
        assert validate(work.model, [(ids, targets), (ids[:1], targets[:1])]).isfinite()
