"""Lesson 25 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region captured_step
import torch


class CapturedStep:
    """step(*batch) trains on a batch and returns its loss: the same tensor each time, so clone it to keep it."""

    def __init__(self, train):  # train(*batch) reads no value of the GPU; its AdamW is AdamW(capturable=True)
        self.train, self.inputs, self.graph = train, None, None

    def __call__(self, *batch):
        warm_up = self.inputs is None  # the first batch is trained on operator by operator: libraries make their handles
        if warm_up:
            self.inputs = [torch.empty_like(tensor) for tensor in batch]
        for own, new in zip(self.inputs, batch):
            own.copy_(new)  # the graph reads `own`, and never `new`
        return self.replay(warm_up) if batch[0].is_cuda else self.train(*self.inputs)  # a CPU has no graphs

    def replay(self, warm_up):  # not run here: needs a CUDA device
        if warm_up:
            side = torch.cuda.Stream()  # as the capture, not on the default stream
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.loss = self.train(*self.inputs)
            torch.cuda.current_stream().wait_stream(side)
            return self.loss
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):  # records, and executes nothing
                self.loss = self.train(*self.inputs)
        self.graph.replay()
        return self.loss
# endregion


TWINS = [{"case": "mlp", "technique": "static buffers", "settings": {"layers": 4, "width": 16, "batch": 16}}]


def train(workloads, twin, settings, seed):
    work = workloads.MlpTraining(settings, seed)

    def train_on(images, labels):
        work.optimizer.zero_grad()  # to None: the capture makes gradients, and each replay writes over them
        loss = torch.nn.functional.cross_entropy(work.model(images), labels)
        loss.backward()
        work.optimizer.step()
        return loss.detach()

    step = CapturedStep(train_on)
    while True:
        yield step(*work.batches.next()).clone()
