"""Lesson 26 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region two_forwards
import torch


def two_forwards(model, halves, streams):  # streams: two torch.cuda.Stream(); (None, None) on a CPU, which has none
    outputs = []  # one model on two streams: no batch norm, no autocast; two modules, each its stream, are the better use
    for half, stream in zip(halves, streams):
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream())  # fork: until the half is there
            half.record_stream(stream)  # allocated on the current stream: keep its memory until it is read
        with torch.cuda.stream(stream):  # None does nothing
            outputs.append(model(half))
    for output, stream in zip(outputs, streams):
        if stream is not None:
            torch.cuda.current_stream().wait_stream(stream)  # join: article D has neither wait
            output.record_stream(torch.cuda.current_stream())
    return torch.cat(outputs)
# endregion


TWINS = [{"case": "mlp", "technique": "two forwards", "settings": {"layers": 4, "width": 16, "batch": 16},
          "tolerance": 1e-5, "why": "matmuls of half the rows add in another order"}]


def train(workloads, twin, settings, seed):
    work = workloads.MlpTraining(settings, seed)
    while True:
        images, labels = work.batches.next()
        work.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(two_forwards(work.model, images.chunk(2), (None, None)), labels)
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
