"""Python's dispatch modes above the arithmetic of a dry GPU: each operator comes by them once and is computed once."""

import os
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def losses(device, mode):
    """Of four updates: what is added in place twice, or not at all, shows."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    inputs, labels = torch.randn(32, 8), torch.randint(0, 4, (32,))
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    with mode:
        for _ in range(4):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            torch.cuda.synchronize()  # what is still to be computed is computed here, under the mode
            found.append(loss.item())
    return found


def names_of(device):
    names = Names()
    x = torch.ones(8, 8, device=device)
    with names:
        x.add_(1).sum()
        torch.cuda.synchronize()
    return names.names


def check_modes():
    expected = losses("cpu", Names())
    got = losses("cuda", Names())
    assert all(abs(a - b) < 1e-5 for a, b in zip(got, expected)), (got, expected)
    assert names_of("cuda") == names_of("cpu") == ["aten::add_", "aten::sum"], names_of("cuda")
    outer, inner = Names(), Names()
    x = torch.ones(4, device="cuda")
    with outer, inner:
        x.add_(1)
    assert x.tolist() == [2.0] * 4, x
    assert outer.names == inner.names == ["aten::add_"], (outer.names, inner.names)


class Replaces(TorchDispatchMode):
    """Asks for something else than what it was asked for."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.add.Tensor:
            return torch.ops.aten.mul.Tensor(args[0], torch.ops.aten.full_like.default(args[0], 5.0))
        return func(*args, **(kwargs or {}))


def check_what_a_mode_replaces():
    x = torch.full((4,), 2.0, device="cuda")
    with Replaces():
        y = x + 1
    assert y.tolist() == [10.0] * 4, y
    assert x.tolist() == [2.0] * 4, x


def check_fake_tensors():
    real = torch.full((4,), 3.0, device="cuda")
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.ones(1 << 20, 1 << 20, device="cuda", requires_grad=True)  # 4 TiB: nobody allocates it
        y = (x * 2).sum()
        y.backward()
        assert x.grad.shape == x.shape and x.grad.device.type == "cuda"
        torch.cuda.synchronize()
    assert (real + 1).tolist() == [4.0] * 4


check_modes()
check_what_a_mode_replaces()
check_fake_tensors()
print("ok")
# Without the interpreter's end: while it ends, autograd's thread for the device may still be giving a tensor back, asks for the
# interpreter's lock, and is unwound through functions that may not throw ("terminate called without an active exception";
# github.com/pytorch/pytorch/issues/190489 and 38228).
sys.stdout.flush()
os._exit(0)
