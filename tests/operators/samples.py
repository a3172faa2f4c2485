"""Arguments for each operator of torch.ops.tenfold, and what PyTorch has for the same."""

import os
import pathlib
import sys

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "kernels" / "operators"))
import tenfold_operators  # noqa: E402,F401  loads the library

OPS = torch.ops.tenfold
OFFSETS = (0, 3, 3, 5)  # of packed sequences: three rows, none, two


class Samples:
    """Tensors of one type on one device; the same at each call with the same arguments."""

    def __init__(self, device, dtype=torch.float32):
        self.device, self.dtype, self.generator = device, dtype, torch.Generator().manual_seed(7)

    def normal(self, *shape, grad=True, dtype=None):
        values = torch.randn(shape, generator=self.generator)
        return values.to(self.device, dtype or self.dtype).requires_grad_(grad)

    def ids(self, *shape, below):
        return torch.randint(0, below, shape, generator=self.generator).to(self.device)

    def offsets(self):
        return torch.tensor(OFFSETS).to(self.device)

    def tables(self, positions, pairs):
        angle = torch.arange(positions).unsqueeze(1) / 10.0 ** torch.arange(pairs)
        return angle.cos().to(self.device, torch.float32), angle.sin().to(self.device, torch.float32)

    def differentiable(self):
        """(name, arguments) of the operators that have a derivative."""
        normal = self.normal
        return [
            ("layer_norm", (normal(3, 5, 7), normal(7), normal(7))),
            ("layer_norm", (normal(7, 4).t(), normal(7), normal(7), 1e-3)),  # columns first: copied
            ("rms_norm", (normal(6, 9), normal(9), 0.1)),
            ("softmax", (normal(2, 3, 33),)),
            ("bias_gelu", (normal(5, 12), normal(12))),
            ("bias_gelu", (normal(5, 12), normal(12), "tanh")),
            ("cross_entropy", (normal(6, 11), self.ids(6, below=11))),
            ("cross_entropy", (normal(2, 3, 11), self.ids(2, 3, below=11), 4)),
            ("embedding", (normal(13, 8), self.ids(2, 9, below=13))),
            ("rope", (normal(2, 4, 3, 8), *self.tables(6, 4))),
            ("rope", (normal(2, 4, 3, 8), *self.tables(4, 4), True)),
            ("flash_attention", (normal(1, 2, 5, 32), normal(1, 2, 6, 32), normal(1, 2, 6, 32))),
            ("flash_attention", (normal(1, 5, 2, 32).transpose(1, 2), normal(1, 2, 5, 32), normal(1, 2, 5, 32), True)),
            ("pack", (normal(3, 4, 6), self.offsets(), OFFSETS[-1])),
            ("unpack", (normal(OFFSETS[-1], 6), self.offsets(), 4, -1.0)),
        ]

    def passes(self):
        """(name, arguments) of those that have none: what the others consist of, and the update."""
        def normal(*shape, dtype=None):
            return self.normal(*shape, grad=False, dtype=dtype)
        f32 = torch.float32
        q = [normal(1, 2, 5, 32) for _ in range(4)]
        parameters = [[normal(5, 3), normal(4)] for _ in range(4)] if self.dtype == f32 else None
        calls = [
            ("layer_norm_forward", (normal(4, 7), normal(7), normal(7), 1e-5)),
            ("layer_norm_backward", (normal(4, 7), normal(4, 7), normal(7), normal(4, dtype=f32), normal(4, dtype=f32))),
            ("rms_norm_forward", (normal(4, 7), normal(7), 1e-5)),
            ("rms_norm_backward", (normal(4, 7), normal(4, 7), normal(7), normal(4, dtype=f32))),
            ("softmax_backward", (normal(4, 7), normal(4, 7))),
            ("bias_gelu_backward", (normal(4, 7), normal(4, 7), normal(7), "none")),
            ("cross_entropy_forward", (normal(4, 7), self.ids(4, below=7), -100)),
            ("cross_entropy_backward", (normal(dtype=f32), normal(4, 7))),
            ("embedding_backward", (normal(9, 8), self.ids(9, below=13), 13)),
            ("flash_attention_forward", (*q[:3], True)),
            ("flash_attention_backward", (*q, q[0], normal(1, 2, 5, dtype=f32), True)),
        ]
        if parameters:
            parameters[2] = [x.square() for x in parameters[2]]
            calls.append(("adamw_", (*parameters, 3)))
        return calls


def by_torch(name, *arguments):
    """The same by PyTorch's own operators."""
    if name == "layer_norm":
        x, weight, bias, epsilon = (*arguments, 1e-5)[:4]
        return functional.layer_norm(x, x.shape[-1:], weight, bias, epsilon)
    if name == "rms_norm":
        x, weight, epsilon = arguments
        return functional.rms_norm(x, x.shape[-1:], weight, epsilon)
    if name == "softmax":
        return functional.softmax(arguments[0], -1)
    if name == "bias_gelu":
        x, bias, approximate = (*arguments, "none")[:3]
        return functional.gelu(x + bias, approximate=approximate)
    if name == "cross_entropy":
        x, targets, ignored = (*arguments, -100)[:3]
        return functional.cross_entropy(x.flatten(0, -2), targets.flatten(), ignore_index=ignored)
    if name == "embedding":
        return functional.embedding(arguments[1], arguments[0])
    if name == "rope":
        x, cosines, sines, inverse = (*arguments, False)[:4]
        c, s = (table[:x.shape[-3]].unsqueeze(1).to(x.dtype) for table in (cosines, -sines if inverse else sines))
        a, b = x.chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1)
    if name == "flash_attention":
        q, k, v, causal = (*arguments, False)[:4]
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    lengths = [end - begin for begin, end in zip(OFFSETS, OFFSETS[1:])]
    if name == "pack":
        return torch.cat([rows[:length] for rows, length in zip(arguments[0], lengths)])
    if name == "unpack":
        packed, _, length, padding = arguments
        return torch.stack([functional.pad(rows, (0, 0, 0, length - len(rows)), value=padding) for rows in packed.split(lengths)])
    raise KeyError(name)


def device_of_call():
    """What the program was called with, cpu or cuda. Without a GPU the test is skipped."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    return device


def end():
    """Without the interpreter's own end, as in tests/dry_gpu/python_modes.py."""
    print("ok")
    sys.stdout.flush()
    os._exit(0)
