"""Lesson 91's training step in Python, next to the C++ program's: over the messages of common/measure/other_process.h.
It has all techniques that the device has, and reads the text's ids from a file that the program wrote."""

import os
import shutil

import twin

CACHE = twin.data_folder().parent
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(CACHE / "inductor" / "gpt2")  # only the first run compiles
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import serving
import torch

import python as lesson
import workloads


class Rows:
    """A parameter without the padding of its rows, and its gradient."""

    def __init__(self, parameter, rows):
        self.parameter, self.rows, self.dtype = parameter, rows, parameter.dtype

    def detach(self):
        return self.parameter.detach()[:self.rows]

    @property
    def grad(self):
        return None if self.parameter.grad is None else self.parameter.grad[:self.rows]


def build(trial):
    settings, seed, device = trial.settings, trial.seed, trial.device
    if settings["tokens"] == "gpt2":
        text, vocabulary = lesson.read_safetensors(CACHE / "gpt2" / "shakespeare.safetensors")["ids"].long(), 50257
    else:
        text, vocabulary = workloads.shakespeare_tokens(settings["tokens"]), 128
    on_cuda = device.startswith("cuda")
    torch.backends.cuda.matmul.allow_tf32 = on_cuda
    padded = -(-vocabulary // settings["pad_to"]) * settings["pad_to"]
    model = lesson.model_of(settings, vocabulary, padded).to(device)
    if trial.variant == "torch.compile":
        if os.environ.get("TENFOLD_RUN_PRESET") in ("check", "smoke"):
            raise serving.Skip("compiles for ten seconds: with the presets quick and full")
        if not (shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")):
            raise serving.Skip("needs a C++ compiler: Inductor's kernels for a CPU are C++, and there is no g++")
        for block in model.h:  # blocks are alike: the first one's code serves them all
            block.compile(dynamic=False)
    optimizer = lesson.optimizer_of(model, settings, fused=True)
    windows = lesson.Windows(text, settings, seed)

    def update():
        ids, targets = (ids.to(device) for ids in windows.next())
        return lesson.update(model, optimizer, ids, targets, sixteen_bits=on_cuda)

    parameters = dict(model.named_parameters())
    parameters["wte.weight"] = Rows(parameters["wte.weight"], vocabulary)
    return serving.Step(items=settings["batch"] * settings["length"], parameters=parameters, update=update)


serving.serve(build)
