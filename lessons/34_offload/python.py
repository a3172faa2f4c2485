"""Lesson 34 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch.nn.functional as F

# region offloaded
import torch


def offloaded(stream, least_bytes, parameters):  # a context for one block's forward; stream: torch.cuda.Stream() or None
    stay = {parameter.untyped_storage().data_ptr() for parameter in parameters}

    def pack(tensor):
        if tensor.nbytes < least_bytes or tensor.untyped_storage().data_ptr() in stay:
            return tensor
        host = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)  # from PyTorch's cache of pinned memory
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream())
            tensor.record_stream(stream)  # or its memory is handed out again while the copy reads it
        with torch.cuda.stream(stream):  # torch.cuda.stream(None) does nothing
            return tensor.device, host.copy_(tensor, non_blocking=True)

    def unpack(packed):
        if isinstance(packed, torch.Tensor):
            return packed
        with torch.cuda.stream(stream):  # behind the copy that filled it; no block ahead: this one shows
            tensor = packed[1].to(packed[0], non_blocking=True)
        if stream is not None:
            torch.cuda.current_stream().wait_stream(stream)
            tensor.record_stream(torch.cuda.current_stream())
        return tensor

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
# endregion


SETTINGS = {"batch": 2, "layers": 3, "width": 32, "length": 16, "least_bytes": 2048}
TWINS = [{"case": "gpt", "technique": "activations", "settings": SETTINGS}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    model, optimizer = work.model, torch.optim.AdamW(work.model.parameters(), lr=1e-3)
    while True:
        ids, targets = work.next_batch()
        optimizer.zero_grad()
        h = model.embed(ids)
        for block in model.blocks:
            with offloaded(None, settings["least_bytes"], model.parameters()):
                h = block(h)
        loss = F.cross_entropy(model.head(model.norm(h)).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        yield loss.detach()
