"""Lesson 01 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import itertools
import pathlib
import tempfile

# region profile
import torch.nn.functional as F
from torch.profiler import profile, record_function, schedule


def update(model, optimizer, images, labels):
    optimizer.zero_grad()
    with record_function("forward"):  # a few microseconds in Python, whether or not somebody records
        loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train_window(batches, train_one, wait, active, path):
    with profile(activities=None,  # the default: all there are, on a GPU its kernels, too
                 schedule=schedule(wait=wait, warmup=1, active=active),  # default: every step is recorded
                 on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),  # default: no file; each cycle overwrites it
                 record_shapes=False, profile_memory=False, with_stack=False) as profiler:  # the defaults
        batches = iter(batches)
        for _ in range(wait + 1 + active):
            with record_function("data"):  # the wait for a batch; a DataLoader labels itself
                batch = next(batches)
            loss = train_one(*batch)
            profiler.step()  # the step is over: without this line the schedule stands still
    return loss
# endregion


SETTINGS = {"window": 6, "batch": 8, "layers": 3, "width": 16}
TWINS = [{"case": "mlp", "technique": "schedule", "settings": SETTINGS | {"recorded": 2}},
         {"case": "mlp", "technique": "labels", "settings": SETTINGS}]


def train(workloads, twin, settings, seed):
    work = workloads.MlpTraining(settings, seed)
    window, active = settings["window"], settings.get("recorded", 1)
    batches = (work.batches.next() for _ in itertools.count())
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        while True:
            yield train_window(itertools.islice(batches, window), lambda *b: update(work.model, work.optimizer, *b),
                               window - 1 - active, active, str(trace))
            assert trace.stat().st_size > 0, "the schedule has written no trace"
