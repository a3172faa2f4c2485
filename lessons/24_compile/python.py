"""Lesson 24 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import os

# region compiled
import torch


def compiled(model):
    for part in getattr(model, "blocks", [model]):  # blocks are alike: the first one's code serves them all
        part.compile(dynamic=False)  # default: dynamic=None, where a second shape makes code for any size
    return model


def package(model, example, path):  # in a process of its own
    program = torch.export.export(model.eval(), example)  # default: these sizes alone; dynamic_shapes= frees some
    takes = {"inputs": "; ".join(type_and_sizes(tensor) for tensor in example)}  # for compiled_package.h
    takes |= {f"weight {name}": type_and_sizes(weight) for name, weight in model.named_parameters()}
    torch._inductor.aoti_compile_and_package(  # by default it stores the weights, too
        program, package_path=path, inductor_configs={"aot_inductor.metadata": takes})
# endregion


def type_and_sizes(tensor):  # in a process of its own
    return " ".join([str(tensor.dtype).removeprefix("torch."), *map(str, tensor.shape)])


class Elementwise(torch.nn.Module):
    """elementwise.h has it in C++: parameters are drawn in this order."""

    def __init__(self, layers, features):
        super().__init__()
        self.scale, self.shift, self.gate = (torch.nn.ParameterList() for _ in range(3))
        for _ in range(layers):
            for parameters in (self.scale, self.shift, self.gate):
                parameters.append(torch.nn.Parameter(torch.randn(features)))

    def forward(self, h):  # (N, D) -> (N, D)
        for scale, shift, gate in zip(self.scale, self.shift, self.gate):
            h = h + gate * torch.relu(h * scale + shift)
        return h


class ElementwiseTraining:
    def __init__(self, settings, seed):
        torch.manual_seed(seed)
        self.model = Elementwise(settings["layers"], settings["features"])
        self.batch = [torch.randn(settings["rows"], settings["features"]) for _ in range(2)]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.3)

    def next_batch(self):
        return self.batch


TWINS = [{"case": "elementwise", "technique": "torch.compile", "settings": {"rows": 64, "features": 32, "layers": 2}}]


def train(workloads, twin, settings, seed):
    # Inductor keeps loops as it chose them for a CPU, and compiles them where the CPU is told to have less.
    name = "twin" + os.environ.get("ATEN_CPU_CAPABILITY", "")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(workloads.twin.data_folder().parent / "inductor" / name)
    work = ElementwiseTraining(settings, seed)
    model = compiled(work.model)
    while True:
        work.optimizer.zero_grad()
        inputs, targets = work.next_batch()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
