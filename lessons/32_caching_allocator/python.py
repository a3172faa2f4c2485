"""Lesson 32 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region lengths
import torch
import torch.nn.functional as F


def rounded(ids, targets, length, multiple):  # (B, T) each, of which `length` tokens count
    up = min(ids.shape[1], -(-length // multiple) * multiple)  # few shapes come, whatever the lengths are
    return ids[:, :up], targets[:, :up].where(torch.arange(up, device=ids.device) < length, -100)  # cross_entropy ignores -100


def run_longest(model, optimizer, batch, longest):  # before the loop: its blocks stay in the allocator's cache
    for weight in model.parameters():  # a step on zeros makes the momentum first; Adam would count it: reset its state
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    optimizer.zero_grad()
    ids = torch.zeros(batch, longest, dtype=torch.long, device=weight.device)
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    optimizer.zero_grad()  # its gradients are of no use


# For the others no line changes:  PYTORCH_ALLOC_CONF=expandable_segments:True python train.py
# or roundup_power2_divisions:4, or backend:cudaMallocAsync. The default is a segment for each size that finds no block.
# endregion


# region look
def look_at_cache(device):  # not run here: needs CUDA
    stats = torch.cuda.memory_stats(device)
    print(stats["num_device_alloc"], stats["num_device_free"])  # cudaMalloc and cudaFree: do they go on after some steps?
    print(stats["num_alloc_retries"])  # times that the card was full, and the whole cache was given back
    print(stats["inactive_split_bytes.all.current"])  # stranded: free, beside a piece that is in use
# endregion


def update(model, optimizer, ids, targets):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()


# A batch of one speech: its lengths are those that a step of lesson 15 has for so many speeches.
SETTINGS = {"batch": 1, "batches": 4, "order": "shuffled", "length": 96, "multiple": 16, "layers": 2, "width": 32}
TWINS = [{"case": "reserved", "technique": "rounded lengths", "settings": SETTINGS},
         {"case": "reserved", "technique": "longest first", "settings": SETTINGS}]


def drawn_lengths(rising, seed, round_number):
    import draws  # only where the test runs this file

    near = list(rising)
    for i in range(0, len(near) - 2, 2):
        closer = draws.SampleRandom(seed, round_number, i).below((near[i + 1] - near[i]) // 2 + 1)
        near[i], near[i + 1] = near[i] + closer, near[i + 1] - closer
    return [near[place] for place in draws.epoch_order(len(near), seed, round_number)]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    texts = next(workloads.speeches({"batch": settings["batches"], "length": settings["length"]}, seed))
    rising = sorted(len(text) - 1 for text in texts)
    if twin["technique"] == "longest first":
        run_longest(work.model, work.optimizer, settings["batch"], rising[-1])
    multiple = settings["multiple"] if twin["technique"] == "rounded lengths" else 1
    round_number = -1
    while True:
        round_number += 1
        losses = []
        for length in drawn_lengths(rising, seed, round_number):
            batch = rounded(*work.next_batch(), length, multiple)
            losses.append(update(work.model, work.optimizer, *batch))
        yield sum(losses) / len(losses)
