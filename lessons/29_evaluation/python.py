"""Lesson 29 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region evaluate
import torch
import torch.nn.functional as F


def evaluate(model, batches):
    modes = {module: module.training for module in model.modules()}
    model.eval()  # dropout off, BatchNorm reads its running statistics; inference_mode() changes neither
    total, count = 0.0, 0
    try:
        with torch.inference_mode():  # or no_grad(), where a result goes on into training; both record no graph
            for ids, targets in batches:  # of any size: the last one is often smaller
                logits = model(ids).flatten(0, 1).float()  # a sum in 16 bits overflows, or stops growing
                # The default reduction="mean" is a mean over this batch; targets of ignore_index=-100 are in neither.
                total += F.cross_entropy(logits, targets.flatten(), reduction="sum")
                count += targets.numel()  # with padding: (targets != -100).sum()
    finally:
        for module, training in modes.items():
            module.training = training  # not train(): a frozen BatchNorm stays in eval()
    return (total / count).item()  # one .item() at the end: in the loop it would make the host wait for every batch
# endregion


SMALL = {"batch": 4, "layers": 2, "width": 32, "length": 16, "evaluation_batch": 4, "held_out": 9}
TWINS = [{"case": "gpt", "technique": "inference_mode", "settings": SMALL},
         {"case": "dropout", "technique": "no_grad", "settings": SMALL}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    text, length = workloads.shakespeare_tokens(settings["tokens"], train=False), settings["length"]
    starts = torch.randint(len(text) - length, (settings["held_out"], 1), generator=torch.Generator().manual_seed(1))
    places = starts + torch.arange(length)
    rows = settings["evaluation_batch"]
    while True:
        ids, targets = work.next_batch()
        work.optimizer.zero_grad()
        F.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten()).backward()
        work.optimizer.step()
        yield evaluate(work.model, zip(text[places].split(rows), text[places + 1].split(rows)))
