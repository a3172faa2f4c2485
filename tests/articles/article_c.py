"""Article C: the profiler, loading, and the caching allocator. The text has no title in the copy that the ledger cites."""

import json
import pathlib
import random
import tempfile
import threading

import torch
import torch.autograd.profiler
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from snippets import mended, snippet


class Steps:
    """A small training, one step after the other."""

    def __init__(self, device="cpu"):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.inputs, self.labels = torch.randn(4, 8, device=device), torch.zeros(4, dtype=torch.long, device=device)

    def step(self):
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(self.inputs), self.labels).backward()
        self.optimizer.step()


def spans(profiler):
    """The finished events of a profile, from its trace file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]


# --- the profiler ---------------------------------------------------------------------------------------------------


@snippet(item="C2a", section="the profiler", does="raises", lesson="01", error=("NameError", "'Activity' is not defined"),
         about="a training inside a profiler that is asked for CPU and CUDA; the name of the activities is not imported.",
         line="activities=[Activity.CPU", cpp="lessons/01_profiler/step_profiler.h",
         zh={"about": "把训练放进分析器,并要求记录 CPU 和 CUDA;表示记录种类的名字没有导入。"})
def activity_not_imported():
    with torch.autograd.profiler.profile(activities=[Activity.CPU, Activity.CUDA]):  # noqa: F821
        Steps().step()


@snippet(item="C2b", section="the profiler", does="raises", lesson="01",
         error=("TypeError", "unexpected keyword argument 'activities'"),
         about="the same with the import: the profiler of torch.autograd has neither activities nor on_trace_ready.",
         line="torch.autograd.profiler.profile(", cpp="lessons/01_profiler/step_profiler.h",
         zh={"about": "补上导入之后:torch.autograd 里的分析器没有 activities,也没有 on_trace_ready。"})
def profiler_of_autograd():
    handler = torch.profiler.tensorboard_trace_handler("traces")
    with torch.autograd.profiler.profile(activities=[ProfilerActivity.CPU], on_trace_ready=handler):
        Steps().step()


@mended("C2a", at_least={"operators in the trace": 1})
@mended("C2b", at_least={"operators in the trace": 1})
def profiler_of_kineto():
    with tempfile.TemporaryDirectory() as folder:
        training = Steps()
        with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=2, warmup=1, active=1),
                     on_trace_ready=torch.profiler.tensorboard_trace_handler(folder)) as profiler:
            for _ in range(4):
                training.step()
                profiler.step()
        (trace,) = pathlib.Path(folder).iterdir()
        return {"operators in the trace": trace.read_text().count('"aten::addmm"')}


@snippet(item="C3", section="the profiler", does="runs", lesson="01",
         about="the whole training stands inside the profiler: every step is recorded, and the trace grows with the training.",
         at_least={"operators recorded, of those of one step": 19}, cpp="lessons/01_profiler/profiled_training.h",
         zh={"about": "整个训练都放在分析器里:每一步都被记录,trace 随训练变长。", "operators recorded, of those of one step": "记录的算子数是单步的多少倍"})
def whole_training_recorded():
    def operators(steps, plan):
        training = Steps()
        with profile(activities=[ProfilerActivity.CPU], schedule=plan) as profiler:
            for _ in range(steps):
                training.step()
                profiler.step()
        return sum(event["name"].startswith("aten::") for event in spans(profiler))

    everything, one = operators(20, None), operators(20, schedule(wait=18, warmup=1, active=1))
    assert one > 0
    return {"operators recorded, of those of one step": round(everything / one, 1)}


@snippet(item="C5", section="the profiler", does="runs", lesson="01",
         about="activities and profile_memory are the options that count, and each option costs: bytes of the trace with an option"
               " over those without; the time is lesson 01's.",
         at_least={"trace with shapes, of one without": 1.1}, cpp="lessons/01_profiler/lesson.cpp", claims=("C-profiler-options",),
         zh={"about": "最重要的选项是 activities 和 profile_memory,而每个选项都有开销:这里比较开与不开时 trace 的字节数;时间见第 01 课。",
             "trace with shapes, of one without": "带形状的 trace 是不带的多少倍"})
def options_in_the_trace():
    def trace_bytes(**options):
        training = Steps()
        training.step()
        with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
            training.step()
        return len(json.dumps(spans(profiler))), sum(abs(event.self_cpu_memory_usage) for event in profiler.events())

    plain, shapes, memory = trace_bytes(), trace_bytes(record_shapes=True), trace_bytes(profile_memory=True)
    assert shapes[0] > plain[0] and plain[1] == 0 and memory[1] > 0
    return {"trace with shapes, of one without": round(shapes[0] / plain[0], 2)}


@snippet(item="C6a", section="the profiler", does="raises", lesson="01", error=("AssertionError", "No activities specified"),
         about="only CUDA is recorded, to see kernels as undisturbed as possible; on a machine without a GPU.",
         line="profile(activities=[ProfilerActivity.CUDA])",
         zh={"about": "只记录 CUDA,好让内核尽量不受干扰;在没有 GPU 的机器上。"})
def kernels_alone_without_gpu():
    with profile(activities=[ProfilerActivity.CUDA]):
        Steps().step()


@mended("C6a", at_least={"events": 1})
def what_there_is():
    with profile(activities=torch.profiler.supported_activities()) as profiler:
        Steps().step()
    return {"events": len(spans(profiler))}


@snippet(item="C6b", section="the profiler", does="runs", lesson="01", gpus=1,
         about="only CUDA is recorded: operators of the CPU are not, nor labels on the host's thread, so that nothing says which"
               " operator launched a kernel; the kernels themselves need a GPU that is there.",
         at_least={"operators of the CPU, both": 20}, at_most={"operators of the CPU, CUDA alone": 0},
         zh={"about": "只记录 CUDA:CPU 算子和主机线程上的标签都不再记录,看不出哪个算子启动了哪个内核;内核本身要有真的 GPU 才能记录。",
             "operators of the CPU, both": "两者都记录时的 CPU 算子数", "operators of the CPU, CUDA alone": "只记录 CUDA 时的 CPU 算子数"})
def kernels_alone():
    training = Steps("cuda")
    names = {}
    for kind, activities in (("both", [ProfilerActivity.CPU, ProfilerActivity.CUDA]), ("CUDA alone", [ProfilerActivity.CUDA])):
        with profile(activities=activities) as profiler, record_function("labelled"):
            training.step()
        names[kind] = [event.name for event in profiler.events() if event.device_type.name == "CPU"]
    assert "labelled" in names["both"]
    return {"operators of the CPU, both": sum(name.startswith("aten::") for name in names["both"]),
            "operators of the CPU, CUDA alone": sum(name.startswith("aten::") for name in names["CUDA alone"])}


@snippet(item="C7", section="labels", does="runs", lesson="01",
         about="two labels, around the forward pass and around the update: both are found in the trace. The backward pass is in"
               " neither unless it is called inside.",
         at_least={"labels found": 2}, cpp="lessons/01_profiler/profiled_training.h",
         zh={"about": "两个标签,一个包住前向,一个包住更新:两者都出现在 trace 里。反向传播只有写在里面才归入标签。", "labels found": "找到的标签数"})
def labels_in_the_trace():
    training = Steps()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        with record_function("loss of the batch"):
            loss = F.cross_entropy(training.model(training.inputs), training.labels)
        with record_function("update of the weights"):
            loss.backward()
            training.optimizer.step()
    labels = [event["name"] for event in spans(profiler) if event["cat"] == "user_annotation"]
    assert {"loss of the batch", "update of the weights"} <= set(labels)
    return {"labels found": 2}


@snippet(item="C8", section="labels", does="runs", lesson="01", at_least={"calls into the dispatcher for a label": 2},
         about="labels are said to have no effect while no profiler is on: they change no result, but in Python each one still"
               " calls two operators.",
         cpp="lessons/01_profiler/lesson.cpp", claims=("C-labels-free",),
         zh={"about": "文中说分析器没有打开时标签没有任何影响:结果确实不变,但在 Python 里每个标签仍会调用两个算子。", "calls into the dispatcher for a label": "每个标签的算子调用数"})
def labels_without_a_profiler():
    calls = []
    enter, leave = torch.ops.profiler._record_function_enter_new, torch.ops.profiler._record_function_exit

    class Counted:
        def __init__(self, operator):
            self.operator = operator

        def __call__(self, *arguments):
            calls.append(self.operator)
            return self.operator(*arguments)

        def __getattr__(self, name):
            return Counted(getattr(self.operator, name))

    torch.ops.profiler._record_function_enter_new, torch.ops.profiler._record_function_exit = Counted(enter), Counted(leave)
    try:
        with record_function("nobody records"):
            pass
    finally:
        torch.ops.profiler._record_function_enter_new, torch.ops.profiler._record_function_exit = enter, leave
    return {"calls into the dispatcher for a label": len(calls)}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        with record_function("layer/attention to itself"):
            x = self.attention(x)
        with record_function("layer/attention to the encoder"):
            return self.other(x)


@snippet(item="C9", section="labels", does="runs", lesson="01",
         about="finer labels inside a layer's forward: they are nested in the label around the call.",
         at_least={"labels inside the outer one": 2},
         zh={"about": "在层的 forward 里写更细的标签:它们嵌套在调用处的标签之内。", "labels inside the outer one": "位于外层标签之内的标签数"})
def nested_labels():
    layer = Layer()
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function("forward"):
        layer(torch.ones(2, 8))
    found = [event for event in spans(profiler) if event["cat"] == "user_annotation"]
    (outer,) = [event for event in found if event["name"] == "forward"]
    inner = [event for event in found if event["name"].startswith("layer/")]
    for event in inner:
        assert outer["ts"] <= event["ts"] and event["ts"] + event["dur"] <= outer["ts"] + outer["dur"]
    return {"labels inside the outer one": len(inner)}


# --- reading a trace ------------------------------------------------------------------------------------------------


class Recorded(torch.autograd.Function):
    """Passes its input on, and notes on which thread the gradient arrives."""

    threads = []

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        Recorded.threads.append(threading.get_ident())
        return gradient


def backward_thread(device):
    Recorded.threads.clear()
    Recorded.apply(torch.ones(2, device=device, requires_grad=True)).sum().backward()
    return 1 if Recorded.threads[0] != threading.get_ident() else 0


@snippet(item="C10a", section="traces", does="changes nothing", lesson="01",
         about="the backward pass has a thread of its own, by which a trace shows it: on a CPU it runs on the thread that called it.",
         at_most={"threads of the backward pass's own": 0}, claims=("C-backward-thread",),
         zh={"about": "文中说反向传播有自己的线程,在 trace 里一眼可见:在 CPU 上,它就在调用它的线程里运行。", "threads of the backward pass's own": "反向传播专用的线程数"})
def backward_on_a_cpu():
    assert backward_thread("cpu") == 0
    return {"threads of the backward pass's own": 0}


@snippet(item="C10b", section="traces", does="runs", lesson="01", gpus=1,
         about="the same for tensors of a GPU: autograd has a thread for each device.",
         at_least={"threads of the backward pass's own": 1}, claims=("C-backward-thread",),
         zh={"about": "同样的代码换成 GPU 的张量:autograd 为每个设备准备一个线程。", "threads of the backward pass's own": "反向传播专用的线程数"})
def backward_on_a_gpu():
    assert backward_thread("cuda") == 1
    return {"threads of the backward pass's own": 1}


# --- loading --------------------------------------------------------------------------------------------------------

SMS = 132  # of an H100


def use_of_gpu(kernels, begin, end):
    """(utilisation, SM efficiency) between two times, from (start, duration, blocks) of each kernel. Kernels of several streams
    may overlap. The definitions are those of the profiler's TensorBoard plug-in: a GPU is utilised while any kernel runs; a
    kernel's SM efficiency is its blocks over the GPU's SMs, at most 1, weighted by its duration."""
    busy, reached, weighted = 0.0, begin, 0.0
    for start, duration, blocks in sorted(kernels):
        busy += max(0.0, start + duration - max(start, reached))
        reached = max(reached, start + duration)
        weighted += duration * min(blocks / SMS, 1)
    return busy / (end - begin), min(weighted / (end - begin), 1.0)


@snippet(item="C12", section="loading", does="runs", lesson="01",
         about="the GPU is idle where the trace's GPU utilisation and estimated SM efficiency are zero: computed from kernels"
               " that are made up. A kernel of one block utilises the GPU and leaves all SMs but one idle, so zero finds too little.",
         at_least={"utilisation by one block": 1.0}, at_most={"SM efficiency of one block": 0.01},
         zh={"about": "文中说,GPU 利用率和估计的 SM 效率为零之处就是 GPU 空闲之处:这里用编造的内核计算。只有一个线程块的内核会让利用率为 1,而其余 SM 全部空闲,所以只找零会漏掉许多。",
             "utilisation by one block": "单个线程块的利用率", "SM efficiency of one block": "单个线程块的 SM 效率"})
def idle_gpu_found():
    loading, training = [], [(400.0, 300.0, 528), (500.0, 500.0, 528)]  # us; two streams, overlapping
    assert use_of_gpu(loading + training, 0.0, 1000.0)[0] == 0.6
    utilisation, efficiency = use_of_gpu([(0.0, 1000.0, 1)], 0.0, 1000.0)
    return {"utilisation by one block": utilisation, "SM efficiency of one block": round(efficiency, 4)}


@snippet(item="C14", section="loading", does="runs", lesson="10",
         about="loading and augmentation in background processes through num_workers: the same batches as without.",
         at_most={"batches that differ": 0}, cpp="lessons/10_parallel_loading/workers.h", claims=("C-loading-hidden",),
         zh={"about": "用 num_workers 在后台进程里加载和增强数据:得到的批与不用时相同。", "batches that differ": "不同的批数"})
def background_loading():
    data = list(range(24))
    assert [b.tolist() for b in DataLoader(data, 4, num_workers=2)] == [b.tolist() for b in DataLoader(data, 4)]
    return {"batches that differ": 0}


class Rows(IterableDataset):
    def __init__(self, shared):
        self.shared = shared

    def __iter__(self):
        worker = get_worker_info()
        return iter(range(worker.id, 30, worker.num_workers) if self.shared else range(30))


@snippet(item="C15", section="loading", does="trains something else", lesson="13", at_least={"repeated rows": 0.5},
         about="an IterableDataset with workers repeats its data, as the article warns.",
         cpp="lessons/13_sharded_stream/stream_loader.h", claims=("C-worker-info",),
         zh={"about": "IterableDataset 配上工作进程会重复数据,正如文章提醒的那样。", "repeated rows": "重复行的比例"})
def rows_repeated():
    rows = [row for batch in DataLoader(Rows(shared=False), 5, num_workers=2) for row in batch.tolist()]
    return {"repeated rows": 1 - len(set(rows)) / len(rows)}


@mended("C15", at_most={"rows not seen once": 0})
def rows_shared():
    rows = [row for batch in DataLoader(Rows(shared=True), 5, num_workers=2) for row in batch.tolist()]
    return {"rows not seen once": sum(rows.count(row) != 1 for row in range(30))}


def augment(row):
    return row + torch.rand(()).item()


def augmented(seed_process):
    """A transformation in a pool of two processes of one's own, each of which gets half the rows."""
    context = torch.multiprocessing.get_context("fork")
    torch.manual_seed(0)
    with context.Pool(2, initializer=seed_process, initargs=(torch.initial_seed(),)) as first_pool:
        halves = [first_pool.apply_async(draws, (8,)) for _ in range(2)]
        return [number for half in halves for number in half.get(60)]


def draws(count):
    barrier.wait(60)  # so that each process takes one half
    return [augment(0) for _ in range(count)]


barrier = torch.multiprocessing.get_context("fork").Barrier(2)


def unseeded(seed):
    torch.set_num_threads(1)


def seeded(seed):
    torch.set_num_threads(1)
    torch.manual_seed(seed + torch.multiprocessing.current_process()._identity[0])


@snippet(item="C16", section="loading", does="trains something else", lesson="10", at_least={"repeated augmentations": 0.5},
         about="the multiprocessing module, for those who need more freedom than the DataLoader's workers: forked processes inherit"
               " the state of the random generator, and augment alike. The DataLoader seeds its workers, a pool does not.",
         cpp="lessons/10_parallel_loading/sample_random.h",
         zh={"about": "需要更多自由时,文章建议自己用 multiprocessing:fork 出的进程继承同一个随机数状态,增强结果相同。DataLoader 会为进程设置种子,进程池不会。",
             "repeated augmentations": "重复增强的比例"})
def pool_without_seeds():
    drawn = augmented(unseeded)
    return {"repeated augmentations": 1 - len(set(drawn)) / len(drawn)}


@mended("C16", at_most={"repeated augmentations": 0})
def pool_with_seeds():
    drawn = augmented(seeded)
    return {"repeated augmentations": 1 - len(set(drawn)) / len(drawn)}


# --- the caching allocator ------------------------------------------------------------------------------------------

LENGTHS = random.Random(5).sample(range(64, 2048), 16)
WIDTHS = (8192, 4096, 2048, 6144)


def allocate_batches(lengths, tight=False):
    """The allocator's counts over batches of these lengths, each with four intermediate tensors that are freed together: calls
    of cudaMalloc, retries (blocks given back to the driver since memory ran out), and the reserved bytes after each batch."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    # A tight card has room for the longest batch and three fifths more; a roomy one is as large as it is.
    torch.cuda.set_per_process_memory_fraction(1.6 * 4 * sum(WIDTHS) * max(LENGTHS) / total if tight else 1.0)

    def counted():
        statistics = torch.cuda.memory_stats()
        return statistics["num_device_alloc"], statistics["num_alloc_retries"]

    calls, retries, reserved = [], [], []
    for length in lengths:
        before = counted()
        tensors = [torch.empty(length * width, device="cuda") for width in WIDTHS]
        del tensors
        after = counted()
        calls.append(after[0] - before[0])
        retries.append(after[1] - before[1])
        reserved.append(torch.cuda.memory_reserved())
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)
    return calls, retries, reserved


@snippet(item="C18", section="the allocator", does="runs", lesson="32", gpus=1,
         about="cudaMalloc is called only when the program begins, since blocks are used again: batches of one length.",
         at_least={"cudaMalloc in the first batch": 1}, at_most={"in all later ones": 0}, cpp="lessons/32_caching_allocator/caching_allocator.h",
         claims=("C-cudamalloc-once",),
         zh={"about": "文中说 cudaMalloc 只在程序启动时调用,因为内存块会被重用:这里所有批长度相同。", "cudaMalloc in the first batch": "第一批的 cudaMalloc 次数", "in all later ones": "之后所有批的次数"})
def one_length():
    calls, retries, reserved = allocate_batches([1024] * 8)
    assert calls[0] > 0 and len(set(reserved)) == 1
    return {"cudaMalloc in the first batch": calls[0], "in all later ones": sum(calls[1:])}


@snippet(item="C19", section="the allocator", does="runs", lesson="32", gpus=1,
         about="where lengths differ, a block that fits may be missing; the allocator is said to free blocks then. It asks the driver"
               " for more first, and frees only when the card is full.",
         at_least={"cudaMalloc after the first batch, roomy card": 1, "retries, tight card": 1}, at_most={"retries, roomy card": 0},
         cpp="lessons/32_caching_allocator/caching_allocator.h", claims=("C-lengths-thrash",),
         zh={"about": "长度不一时可能没有合适的块;文中说分配器这时会释放旧块。实际上它先向驱动要更多内存,显存满了才释放。",
             "cudaMalloc after the first batch, roomy card": "第一批之后的 cudaMalloc 次数,显存宽裕", "retries, roomy card": "重试次数,显存宽裕",
             "cudaMalloc after the first batch, tight card": "第一批之后的 cudaMalloc 次数,显存紧张", "retries, tight card": "重试次数,显存紧张"})
def many_lengths():
    calls, retries, _ = allocate_batches(LENGTHS)
    tight_calls, tight_retries, _ = allocate_batches(LENGTHS, tight=True)
    assert sum(calls[1:]) > 0 and sum(retries) == 0 and sum(tight_retries) > 0
    return {"cudaMalloc after the first batch, roomy card": sum(calls[1:]), "retries, roomy card": sum(retries),
            "cudaMalloc after the first batch, tight card": sum(tight_calls[1:]), "retries, tight card": sum(tight_retries)}


@mended("C19", at_most={"retries": 0, "changes of the reserved line": 0})
def longest_length_first():
    calls, retries, reserved = allocate_batches([max(LENGTHS)] + LENGTHS)
    return {"retries": sum(retries), "changes of the reserved line": len(set(reserved)) - 1}


@snippet(item="C20", section="the allocator", does="runs", lesson="32", gpus=1,
         about="a reserved line that goes up and down shows retries, a flat one an allocator at ease: both ways round, on a tight"
               " card and on a roomy one.",
         at_least={"times that the line falls, tight card": 1}, at_most={"times that the line falls, roomy card": 0},
         cpp="lessons/32_caching_allocator/allocator_survey.h", claims=("C-lengths-reserved",),
         zh={"about": "文中说,预留显存的曲线上下波动表示分配器遇到困难,平稳则一切正常:在显存紧张和宽裕的卡上各看一次。",
             "times that the line falls, tight card": "曲线下降的次数,显存紧张", "times that the line falls, roomy card": "曲线下降的次数,显存宽裕"})
def reserved_line():
    _, retries, reserved = allocate_batches(LENGTHS, tight=True)
    falls = sum(later < earlier for earlier, later in zip(reserved, reserved[1:]))
    _, _, roomy = allocate_batches(LENGTHS)
    assert falls > 0 and sum(later < earlier for earlier, later in zip(roomy, roomy[1:])) == 0
    return {"times that the line falls, tight card": falls, "times that the line falls, roomy card": 0}
