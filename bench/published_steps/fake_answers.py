"""What PyTorch's predictors ask and get no answer to where nothing is computed and no GPU is there."""

import contextlib
from types import SimpleNamespace
from unittest import mock

import torch
import triton.runtime
import triton.testing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

# Steps take no branch by what they read (optimizers.py), so any number will do; 1, since Adam raises its betas to the
# power of the number of steps and divides by what is missing to 1.
READ = 1


class AnswerHost(TorchDispatchMode):
    """What FakeTensorMode refuses: the host's reads get READ, nonzero() finds nothing, pinned memory is any memory."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            return float(READ) if args[0].is_floating_point() else READ
        if func is torch.ops.aten.nonzero.default:
            return args[0].new_empty((0, args[0].dim()), dtype=torch.long)
        if func is torch.ops.aten._pin_memory.default:
            return args[0].clone()
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def fake_tensors():
    """FakeTensorMode in which a step can be made and run.

    half() and to() of a module swap fake parameters for converted ones. PyTorch refuses that for tensors to which there
    are weak references, and FakeTensorMode has some of its own, of which nobody makes use here.
    """
    no_references = SimpleNamespace(getweakrefs=lambda tensor: [])
    with mock.patch.object(torch.utils, "weakref", no_references), FakeTensorMode(), AnswerHost():
        yield


def answer_as(card: dict) -> None:
    """From now on nvidia-smi and Triton's driver, of which RuntimeEstimator asks rates, answer as this card would.

    `card` is one of `./tenfold dry --list --json`. A memory clock is not published: it is the one that makes Triton's
    formula, clock x bus x 2, the published bandwidth.
    """
    ceilings = card["ceilings"]
    properties = {"multiprocessor_count": card["sms"], "mem_bus_width": card["bus_bits"],
                  "mem_clock_rate": ceilings["bytes_per_s"] * 8 / 2 / card["bus_bits"] / 1e3}  # kHz
    answers = {"clocks.max.sm": round(ceilings["clock_hz"] / 1e6)}  # MHz
    triton.testing.nvsmi = lambda names: [answers[name] for name in names]
    triton.runtime.driver.set_active(SimpleNamespace(
        get_device_interface=lambda: torch.cuda,
        utils=SimpleNamespace(get_device_properties=lambda device: properties)))
