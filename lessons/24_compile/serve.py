"""What Python does for lesson 24, asked over the messages of common/measure/other_process.h: training steps, eager and
compiled; a package for AOTInductor; and what Dynamo counts. `variant` says which."""

import fcntl
import hashlib
import json
import logging
import os
import pathlib
import resource
import shutil
import time

import twin

# A cache of the suite's own, which all runs share: only the first one compiles. One thread compiles, so that what it
# takes is the time of one core.
CACHE = twin.data_folder().parent / "inductor"
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(CACHE)
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import serving
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import python as lesson
import workloads


def clock(device):
    """Seconds of the processor, of this process and of the compilers that it has waited for; a GPU's by the wall clock."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        return time.perf_counter()
    use = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in use)


# --- training steps --------------------------------------------------------------------------------------------------


class Work:
    """A workload's model, optimizer and batches, on the trial's device."""

    def __init__(self, trial):
        settings, seed = trial.settings, trial.seed
        if trial.workload == "gpt":
            if settings["tokens"] != "characters":
                raise serving.Skip("the GPT in Python reads characters alone")
            work = workloads.GptTraining(settings, seed)
            self.items, self.next_batch = settings["batch"] * settings["length"], work.next_batch
            self.example = [torch.zeros(settings["batch"], settings["length"], dtype=torch.long) for _ in range(2)]
        elif trial.workload == "mlp":
            work = workloads.MlpTraining(settings, seed)
            self.items, self.next_batch = settings["batch"], work.batches.next
            self.example = [torch.zeros(settings["batch"], 1, 28, 28), torch.zeros(settings["batch"], dtype=torch.long)]
        else:
            work = lesson.ElementwiseTraining(settings, seed)
            # The one batch stays on the device, as in C++: copying it takes several times a step's own time.
            self.items, self.example = settings["rows"], [part.to(trial.device) for part in work.batch]
            self.next_batch = lambda: self.example
        self.device, self.model, self.optimizer = trial.device, work.model.to(trial.device), work.optimizer

    def parameters(self):
        """By the names that they have in C++: "block0.up.bias" for "blocks.0.up.bias"."""
        return {name.replace("blocks.", "block", 1): one for name, one in self.model.named_parameters()}

    def loss(self, inputs, targets):
        outputs, targets = self.model(inputs.to(self.device)), targets.to(self.device)
        if outputs.shape == targets.shape:
            return F.mse_loss(outputs, targets)
        return F.cross_entropy(outputs.flatten(0, -2), targets.flatten())

    def differentiate(self):
        """Forward and backward of a batch that no training sees: nothing is updated."""
        self.optimizer.zero_grad()
        self.loss(*self.example).backward()

    def update(self):
        self.optimizer.zero_grad()
        loss = self.loss(*self.next_batch())
        loss.backward()
        self.optimizer.step()
        return loss


class CountOperators(TorchDispatchMode):
    """Operators that move bytes, and the bytes of their tensors: views are neither."""

    def __init__(self):
        super().__init__()
        self.operators = self.bytes = 0

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        results = operator(*arguments, **(named or {}))
        read = [one for one in torch.utils._pytree.tree_leaves((arguments, named)) if isinstance(one, torch.Tensor)]
        written = [one for one in torch.utils._pytree.tree_leaves(results) if isinstance(one, torch.Tensor)]
        if not operator.is_view:
            self.operators += 1
            self.bytes += sum(min(one.nbytes, one.untyped_storage().nbytes()) for one in read + written)
        return results


def steady_seconds(work, steps=6):
    work.differentiate()
    before = clock(work.device)
    for _ in range(steps):
        work.differentiate()
    return (clock(work.device) - before) / steps


def cache_of(trial, work):
    """A folder of the cache for these shapes alone, so that it is empty when it is said to be."""
    shapes = [list(one.shape) for one in [*work.model.parameters(), *work.example]]
    said = json.dumps([trial.workload, shapes, trial.device, torch.__version__, torch.backends.cpu.get_cpu_capability()])
    folder = CACHE / f"{trial.workload}_{hashlib.sha256(said.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compile_and_count(trial, work):
    """Compiles by a first step and notes what that took, what came out, and when it is paid back."""
    folder = cache_of(trial, work)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    record = folder / "compiled.json"
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be at it
        if record.exists():
            counted = json.loads(record.read_text())
            trial.note("compile, cache filled", first_step(trial, work)["seconds"], "s of a core")
        else:
            shutil.rmtree(folder)  # what one left that did not come to its end
            folder.mkdir()
            counted = first_step(trial, work)
            record.write_text(json.dumps(counted))
    compiled = steady_seconds(work)
    with torch.compiler.set_stance("force_eager"):
        eager = steady_seconds(work)
        with CountOperators() as count:
            work.differentiate()
    parts = len(getattr(work.model, "blocks", [None]))
    trial.note("compile, cache empty", counted["seconds"], "s of a core")
    trial.note("graph breaks", counted["breaks"], "")
    trial.note("loops before fusion", parts * counted["loops"], "a step")
    trial.note("loops after fusion", parts * counted["kernels"], "a step")
    trial.note("operators, eager", count.operators, "a step")
    if parts == 1:  # else eager's bytes are of more than what is compiled
        trial.note("bytes, eager", count.bytes / 2**20, "MiB a step")
        trial.note("bytes, compiled", counted["bytes"] / 2**20, "MiB a step")
    trial.note("saved by compiling", (eager - compiled) * 1e3, "ms a step")
    if eager - compiled > 0.01 * eager:  # two such short measurements tell no less, and what saves nothing never pays
        trial.note("steps until paid back", counted["seconds"] / (eager - compiled), "steps")
    work.optimizer.zero_grad()


def first_step(trial, work):
    """What the first step takes, which compiles, and what Inductor counts of it."""
    before = clock(trial.device)
    from torch._dynamo.utils import counters  # the first step loads the compiler, too
    from torch._inductor import compile_fx, metrics

    logger = compile_fx.inductor_metrics_log  # counts bytes only for those who listen
    logger.setLevel(logging.INFO)
    logger.propagate = False
    work.differentiate()
    return {"seconds": clock(trial.device) - before, "loops": metrics.ir_nodes_pre_fusion,
            "kernels": metrics.generated_kernel_count, "bytes": metrics.num_bytes_accessed,
            "breaks": sum(counters["graph_break"].values())}


counted_before = False


def training(trial):
    work = Work(trial)
    if trial.variant == "Python eager":
        return serving.Step(items=work.items, parameters=work.parameters(), update=work.update)
    if trial.device == "cpu" and not (shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")):
        raise serving.Skip("needs a C++ compiler: Inductor's kernels for a CPU are C++, and there is no g++")
    lesson.compiled(work.model)

    def update():
        global counted_before
        if not counted_before:  # with the first step, as for everybody; a build alone compiles nothing
            compile_and_count(trial, work)
        counted_before = True
        return work.update()

    return serving.Step(items=work.items, parameters=work.parameters(), update=update)


# --- a package -------------------------------------------------------------------------------------------------------


def packaged(trial):
    """Makes the package that TENFOLD_PACKAGE names, and beside it what that took."""
    path = pathlib.Path(os.environ["TENFOLD_PACKAGE"])
    if not shutil.which(os.environ.get("CXX", "g++")):
        raise serving.Skip("needs a C++ compiler: a package for a CPU is compiled C++, and there is no g++")
    work = Work(trial)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A header compiled beforehand pays from the second package on.
    torch._inductor.config.aot_inductor.precompile_headers = False
    before, part = clock("cpu"), path.with_suffix(f".{os.getpid()}.pt2")
    with torch.no_grad():
        lesson.package(work.model, (work.example[0],), str(part))
    path.with_name(path.name + ".seconds").write_text(str(clock("cpu") - before))
    os.replace(part, path)
    return serving.Step(items=work.items, parameters={}, update=None)


# --- what Dynamo counts ----------------------------------------------------------------------------------------------


def graphs_of(function, batches, **how):
    """Graphs made for these calls, and calls that none of them ran."""
    torch._dynamo.reset()
    graphs, ran = [], []

    def backend(graph, example):
        graphs.append(graph)

        def run(*arguments):
            ran.append(graph)
            return graph(*arguments)

        return run

    call, without = torch.compile(function, backend=backend, **how), 0
    for batch in batches:
        before = len(ran)
        call(batch)
        without += len(ran) == before
    return len(graphs), without


def counted(trial):
    model = lesson.Elementwise(2, 8)
    lengths = [torch.randn(length, 8) for length in range(20, 32)]
    marked = [batch.clone() for batch in lengths]
    for batch in marked:
        torch._dynamo.mark_dynamic(batch, 0)

    def plain(h):
        return model(model(h))

    for look, batches, how in (("dynamic=None", lengths, {}), ("dynamic=False", lengths, {"dynamic": False}),
                               ("dynamic=True", lengths, {"dynamic": True}), ("mark_dynamic", marked, {})):
        graphs, without = graphs_of(plain, batches, **how)
        trial.note(f"{look} | graphs compiled", graphs, "")
        trial.note(f"{look} | calls left eager", without, "of 12")

    def with_item(h):
        h = model(h)
        return model(h / h.abs().max().item())

    def with_print(h):
        h = model(h)
        print("between")
        return model(h)

    def with_branch(h):
        h = model(h)
        return model(h) if h.sum() > 0 else model(-h)

    for look, function in (("as it is", plain), ("item()", with_item), ("print()", with_print),
                           ("if on a value", with_branch)):
        graphs, _ = graphs_of(function, lengths[:1])
        trial.note(f"{look} | graphs", graphs, "")
        trial.note(f"{look} | graph breaks", graphs - 1, "")  # of one call
    return serving.Step(items=1, parameters={}, update=None)


VARIANTS = {"package": packaged, "counts": counted}
serving.serve(lambda trial: VARIANTS.get(trial.variant, training)(trial))
