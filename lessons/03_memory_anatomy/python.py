"""Lesson 03 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region memory
import torch
import torch.nn.functional as F


def update(model, optimizer, ids, targets):
    optimizer.zero_grad()  # set_to_none=True is the default: no gradient is there during forward
    loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())  # logits without a name: freed before backward
    loss.backward()
    optimizer.step()
    return loss.detach()  # .detach(): a loss that is kept keeps no graph


def look_at(step, device):  # not run here: needs CUDA; after two steps, which make the optimizer's state
    torch.cuda.reset_peak_memory_stats(device)
    torch.cuda.memory._record_memory_history()  # every block, with the line that asked for it
    step()
    print(torch.cuda.max_memory_allocated(device))  # bytes of tensors at the highest moment
    print(torch.cuda.max_memory_reserved(device))  # bytes that the caching allocator has from the driver
    torch.cuda.memory._dump_snapshot("snapshot.pickle")  # open it at pytorch.org/memory_viz
    torch.cuda.memory._record_memory_history(enabled=None)
# endregion


def held(model, optimizer, ids, targets):
    optimizer.zero_grad()
    logits = model(ids).flatten(0, 1)  # a name that lives on through backward()
    loss = F.cross_entropy(logits, targets.flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()


def kept(model, optimizer, ids, targets):
    optimizer.zero_grad(set_to_none=False)
    loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()


SETTINGS = {"batch": 2, "layers": 2, "width": 32, "length": 16}
TWINS = [{"case": "gpt", "technique": "lean", "settings": SETTINGS},
         {"case": "gpt", "technique": "logits held", "settings": SETTINGS},
         {"case": "gpt", "technique": "gradients kept", "settings": SETTINGS}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    while True:
        train_one = {"lean": update, "gradients kept": kept, "logits held": held}[twin["technique"]]
        yield train_one(work.model, work.optimizer, *work.next_batch())
