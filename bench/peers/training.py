"""The same training steps in Python, eager and compiled PyTorch: what training_bench does from C++."""
# malloc: fixed
# best: MLP with AdamW, eager = mlp/adamw* against mlp/adamw*
# best: MLP with AdamW, torch.compile = mlp/adamw* against mlp/compiled_adamw*
# best: GPT with AdamW, eager = gpt/adamw* against gpt/adamw*
# best: GPT with AdamW, torch.compile = gpt/adamw* against gpt/compiled_adamw*
# best: GPT-2 small with AdamW, eager = gpt_85m/adamw* against gpt_85m/adamw*
# best: GPT-2 small with AdamW, torch.compile = gpt_85m/adamw* against gpt_85m/compiled_adamw*

import os
import pathlib
import re
import shutil
import subprocess
import sys

import twin

os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(twin.data_folder().parent / "inductor" / "training")  # only the first run compiles
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch.nn.functional as F

import workloads

UPDATES = 3


def first_update():
    """What a process of its own does: one update of the MLP's size on images of zeros. Prints its peak of resident bytes."""
    torch.manual_seed(1234)
    model = workloads.Mlp(8, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    F.cross_entropy(model(torch.zeros(32, 1, 28, 28)), torch.zeros(32, dtype=torch.long)).backward()
    optimizer.step()
    # Of this program alone: getrusage() keeps the peak of the process that started it.
    print(1024 * int(re.search(r"^VmHWM:\s*(\d+)", pathlib.Path("/proc/self/status").read_text(), re.M)[1]))


def start():
    done = subprocess.run([sys.executable, __file__, "--first-update"], stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


OPTIMIZERS = {"adamw": {}, "adamw_foreach": {"foreach": True}, "adamw_fused": {"fused": True}}


def training(work, optimizer):
    """The update of a workload with this optimizer, its model compiled where the name says so; it gives its loss."""
    if optimizer.startswith("compiled_"):
        optimizer = optimizer.removeprefix("compiled_")
        # In place, so that the optimizer's parameters stay the model's; blocks are alike, and the first one's code serves all.
        for module in getattr(work.model, "blocks", [work.model]):
            module.compile(dynamic=False)
    if optimizer != "sgd":
        work.optimizer = torch.optim.AdamW(work.model.parameters(), lr=1e-3, weight_decay=1e-2, **OPTIMIZERS[optimizer])
    if isinstance(work, workloads.GptTraining):
        def update():
            ids, targets = work.next_batch()
            work.optimizer.zero_grad()
            loss = F.cross_entropy(work.model(ids).flatten(0, 1), targets.flatten())
            loss.backward()
            work.optimizer.step()
            return loss.item()
        return update
    return lambda: work.update(*work.batches.next()).item()


IMAGES = {"mlp": (workloads.MlpTraining, {"layers": 8, "width": 64, "batch": 32, "learning_rate": 0.05}),
          "convnet": (workloads.ConvNetTraining, {"channels": 16, "batch": 64, "learning_rate": 0.01})}
GPT = {"layers": 6, "width": 64, "heads": 4, "length": 64, "batch": 8, "dropout": 0.0, "learning_rate": 0.1, "tokens": "characters"}
SMALL = {"layers": 12, "width": 768, "heads": 12, "batch": 1}  # as many weights as GPT-2 small, without its token table
CASES = {"mlp/sgd": ("mlp", {}), "mlp/adamw": ("mlp", {}), "mlp/adamw_foreach": ("mlp", {}), "mlp/adamw_fused": ("mlp", {}),
         "convnet/sgd": ("convnet", {}),
         "gpt/sgd": ("gpt", {}), "gpt/adamw": ("gpt", {}), "gpt/adamw_foreach": ("gpt", {}), "gpt/adamw_fused": ("gpt", {}),
         "gpt_85m/sgd": ("gpt", SMALL), "gpt_85m/adamw_fused": ("gpt", SMALL)}
# What the program has not: their losses are compared with nothing but the tests of 91.
COMPILED = {"mlp/compiled_adamw_fused": ("mlp", {}), "gpt/compiled_adamw_fused": ("gpt", {}),
            "gpt_85m/compiled_adamw_fused": ("gpt", SMALL)}
if not (shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")):
    COMPILED = {}  # Inductor's kernels for a CPU are C++


def make(name):
    """(update, items of it)"""
    workload, sizes = (CASES | COMPILED)[name]
    optimizer = name.split("/")[1]
    if workload == "gpt":
        settings = GPT | sizes
        return training(workloads.GptTraining(settings, 1234), optimizer), settings["batch"] * settings["length"]
    kind, settings = IMAGES[workload]
    return training(kind(settings, 1234), optimizer), settings["batch"]


def last_loss(update):
    for _ in range(UPDATES - 1):
        update()
    return update()


if sys.argv[1:] == ["--first-update"]:
    first_update()
else:
    # The program has no AdamW by foreach: its losses are those of the cases that both have.
    # 2e-6 is four times the last bit of the largest loss, 6.2: by other vector instructions they were a bit apart at most.
    # After three updates of AdamW, whose first ones divide by squares of one gradient, the large model's is some bits further.
    both = [name for name in CASES if "foreach" not in name]
    losses = [last_loss(make(name)[0]) for name in both]
    tolerances = [1e-5 if name == "gpt_85m/adamw_fused" else 2e-6 for name in both]
    cases = {name: make(name) for name in CASES | COMPILED}
    twin.run("losses", cases | {"start": (start, 1)}, work="items", near=losses, tolerance=tolerances, libraries=("torch",),
             sizes={"resident after a first update": start()})
