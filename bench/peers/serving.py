"""A training step in Python that a lesson's program times in turns with its own: the other side of
common/measure/other_process.h, whose messages this answers over the socket that it finds as descriptor 3.

    def build(trial):
        work = workloads.GptTraining(trial.settings, trial.seed)
        ...
        return serving.Step(items=..., parameters=dict(work.model.named_parameters()), update=update)

    serving.serve(build)
"""

import ctypes
import dataclasses
import json
import resource
import socket
import struct
import time
import typing

import torch

SIZES = struct.Struct("<IQ")  # bytes of a message's head and of its body


class Skip(Exception):
    """This variant cannot run here, and why."""


@dataclasses.dataclass
class Step:
    items: int  # of one update: images, tokens
    parameters: dict  # by the names that the baseline has
    update: typing.Callable  # trains one update and returns its loss, a tensor that nobody has waited for


class Trial:
    """What a variant sees of the lesson: variant, case, device, seed, size, threads, settings."""

    def __init__(self, start):
        self.__dict__.update(start)
        self.settings, self.notes = {}, {}

    def note(self, name, value, unit):
        self.notes[name] = {"value": value, "unit": unit}


def waits():
    use = resource.getrusage(resource.RUSAGE_THREAD)
    return use.ru_nvcsw + use.ru_majflt


def read_clocks():
    return {"waits": waits(), "processor": time.process_time(), "thread": time.thread_time(), "wall": time.perf_counter()}


def timed_steps(step, device, count):
    """Losses of these steps, and what they took."""
    losses, on_cuda = [], device.startswith("cuda")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if on_cuda else []
    if on_cuda:
        events[0].record()
    before = read_clocks()
    for _ in range(count):
        losses.append(step.update().detach())
    if on_cuda:
        events[1].record()
        events[1].synchronize()
    after = read_clocks()
    times = {name: after[name] - before[name] for name in before}
    times["device"] = events[0].elapsed_time(events[1]) / 1e3 if on_cuda else 0.0
    return [loss.item() for loss in losses], times


def described(tensors):
    """What a message's head says of tensors, and their bytes."""
    head, bodies = [], []
    for name, tensor in tensors.items():
        wide = tensor.dtype == torch.float64
        values = tensor.detach().to("cpu", torch.float64 if wide else torch.float32).contiguous()
        head.append({"name": name, "shape": list(values.shape), "type": "float64" if wide else "float32"})
        bodies.append(ctypes.string_at(values.data_ptr(), values.nbytes) if values.nbytes else b"")
    return head, b"".join(bodies)


class Server:
    def __init__(self, build, start):
        self.build, self.trial, self.step = build, Trial(start), None
        torch.set_num_threads(self.trial.threads)
        if self.trial.device.startswith("cuda"):
            torch.cuda.set_device(self.trial.device)

    def answer(self, message):
        """Head and body of the answer to a message's head."""
        asked = message["do"]
        if asked == "build":
            self.step = None
            self.trial.settings = message["settings"]
            torch.manual_seed(self.trial.seed)
            self.step = self.build(self.trial)
            return {"items": self.step.items}, b""
        if asked == "steps":
            losses, times = timed_steps(self.step, self.trial.device, message["count"])
            return times, struct.pack(f"<{len(losses)}d", *losses)
        if asked == "gather":
            parameters, body = described(self.step.parameters)
            gradients, more = described({n: p.grad for n, p in self.step.parameters.items() if p.grad is not None})
            return {"parameters": parameters, "gradients": gradients}, body + more
        if asked == "drop":
            self.step = None
            return {}, b""
        return {"unknown": True}, b""

    def guarded(self, message):
        self.trial.notes = {}
        try:
            head, body = self.answer(message)
        except Skip as error:
            return {"skipped": str(error)}, b""
        except Exception as error:
            text = str(error).split("\n")[0]
            memory = isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator: " in text
            return {"failed": "out_of_memory" if memory else "error", "reason": f"{type(error).__name__}: {text}"}, b""
        return head | {"notes": self.trial.notes}, body


def serve(build):
    """Answers messages until the socket closes. `build(trial)` gives a Step, or raises Skip."""
    with socket.socket(fileno=3) as link, link.makefile("rwb") as stream:
        server = None
        while len(sizes := stream.read(SIZES.size)) == SIZES.size:
            head, body = SIZES.unpack(sizes)
            message = json.loads(stream.read(head))
            stream.read(body)
            if server is None:
                server, answer = Server(build, message), ({}, b"")
            else:
                answer = server.guarded(message)
            head = json.dumps(answer[0]).encode()
            stream.write(SIZES.pack(len(head), len(answer[1])) + head + answer[1])
            stream.flush()
