"""What a kernel lacks that is called as a plain function: a derivative, a fake implementation, PyTorch's stream, checks. The way
of some tutorials: allocate a result, hand over pointers, launch. Each fault is shown, and the operator that does not have it.

usage: without_a_schema.py [cpu|cuda]"""

import ctypes
import os

import torch
from samples import OPS, Samples, device_of_call, end
from torch._subclasses.fake_tensor import FakeTensorMode

device = device_of_call()
normal = Samples(device).normal


def raises(error, call, expected):
    try:
        call()
    except error as raised:
        assert expected in str(raised), raised
        return
    raise AssertionError(f"nothing says: {expected}")


if device == "cuda":
    runtime = ctypes.CDLL(None if hasattr(ctypes.CDLL(None), "cudaMemcpyAsync") else "libcudart.so.13")
    copy_async = runtime.cudaMemcpyAsync
    copy_async.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]


def launched(out, x, count, stream):
    """In place of a kernel `out[i] = x[i]` of `count` floats, what needs no compiler: a copy on this stream."""
    if x.is_cuda:
        assert copy_async(out, x.data_ptr(), 4 * count, 3, stream) == 0  # 3: device to device
    else:
        ctypes.memmove(out, x.data_ptr(), 4 * count)


def by_pointer(x, stream=None):
    """The plain function. Stream None is the default one, which is what <<<grid, block>>> means."""
    out = torch.empty_like(x)
    launched(out.data_ptr(), x, x.numel(), stream)
    return out


def check_derivative():
    """The graph ends at the function, and no error says so: what comes before it is not trained."""
    first, last, x = normal(8), normal(8), normal(4, 8, grad=False)
    (by_pointer(x * first) * last).sum().backward()
    assert last.grad is not None and first.grad is None
    last.grad = None
    (OPS.softmax(x * first) * last).sum().backward()
    assert last.grad is not None and first.grad is not None


def check_backend_alone():
    """With a schema but the function alone registered: PyTorch warns, once, and the gradient is none all the same."""
    library = torch.library.Library("tutorial", "DEF")
    library.define("softmax(Tensor input) -> Tensor")
    for backend in ("CPU", "CUDA"):  # a dry GPU computes on the CPU
        library.impl("softmax", lambda x: torch.ops.tenfold.softmax(x.detach()), backend)
    first, last, x = normal(8), normal(8), normal(4, 8, grad=False)
    (torch.ops.tutorial.softmax(x * first) * last).sum().backward()
    assert last.grad is not None and first.grad is None
    # And no fake implementation: neither torch.compile nor export gets past it.
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert OPS.softmax(fake).shape == x.shape
        raises(Exception, lambda: torch.ops.tutorial.softmax(fake), "tutorial.softmax")
    raises(Exception, lambda: torch.compile(torch.ops.tutorial.softmax, fullgraph=True, backend="aot_eager")(x), "tutorial.softmax")
    torch.compile(OPS.softmax, fullgraph=True, backend="aot_eager")(x)
    outcome = torch.library.opcheck(torch.ops.tutorial.softmax.default, (x,), raise_exception=False)
    assert outcome["test_faketensor"] != "SUCCESS", outcome
    return library


def check_arguments():
    """Another type or memory order is read as if it were the expected one. No error, and wrong numbers."""
    x = normal(4, 8, grad=False)
    turned = x.t()
    assert torch.equal(by_pointer(turned), turned)  # by luck: empty_like() keeps the strides of what has no gaps
    wide = by_pointer(x.double())  # its first half is copied
    assert wide.shape == x.shape and not torch.equal(wide[2:], x.double()[2:])
    raises(RuntimeError, lambda: OPS.softmax(x.double()), "takes float, half and bfloat16")
    assert torch.allclose(OPS.softmax(turned), torch.softmax(turned, -1), atol=1e-6)
    gaps = x[:, ::2]
    assert not torch.equal(by_pointer(gaps), gaps)
    assert torch.allclose(OPS.softmax(gaps), torch.softmax(gaps, -1), atol=1e-6)


def check_stream():
    """On the default stream nothing waits for what the current one still computes."""
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 16, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.add_(1)
        stale = by_pointer(x)
        torch.cuda.default_stream().synchronize()  # it has no reason to wait for the side stream
        right = by_pointer(x, torch.cuda.current_stream().cuda_stream)
        ours = OPS.softmax(x.view(256, 256))
    torch.cuda.synchronize()
    assert right.eq(1).all() and torch.allclose(ours, torch.full_like(ours, 1 / 256))
    by_luck = bool(stale.eq(1).all())  # on a GPU whichever is the faster
    assert not (by_luck and "TENFOLD_DRY_GPU" in os.environ)
    print("on the default stream:", "the right numbers, by luck" if by_luck else "old numbers")


check_derivative()
kept = check_backend_alone()
check_arguments()
if device == "cuda":
    check_stream()
end()
