"""Raw 32-bit floats to and from the C++ side of a parity test."""

import array
import pathlib

import torch


def read(folder, name, *shape):
    """The values of a file as a tensor of the given shape."""
    values = array.array("f", (pathlib.Path(folder) / name).read_bytes())
    return torch.tensor(values.tolist(), dtype=torch.float32).view(*shape)


def write(folder, name, tensors):
    """Writes the tensors' values one after the other."""
    values = array.array("f")
    for tensor in tensors:
        values.extend(tensor.detach().flatten().tolist())  # 32-bit values pass through Python's 64-bit ones unchanged
    (pathlib.Path(folder) / name).write_bytes(values.tobytes())
