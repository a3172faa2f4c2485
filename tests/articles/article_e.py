"""Article E, "PyTorch分批训练技巧:减轻内存压力,提升训练效率": its snippets in the order in which it prints them, in lines of our own."""

import shutil

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from snippets import mended, snippet

try:
    import torchvision.transforms  # not among this project's packages; where it is installed, its own transforms run
except ImportError:
    torchvision = None


class Held(Dataset):
    """Samples that a list or a tensor holds, each through a transform if there is one."""

    def __init__(self, samples, transform=None):
        self.samples, self.transform = samples, transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        sample = self.samples[index]
        return self.transform(sample) if self.transform else sample


def pictures(count=70):
    """Arrays as a decoder returns them: (H, W, C), bytes."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, 256, (8, 8, 3), generator=generator, dtype=torch.uint8).numpy() for _ in range(count)]


MEAN, DEVIATION = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


def normalised(picture):
    """What torchvision's ToTensor and Normalize do with one picture; like them it takes no list."""
    if torchvision:
        steps = [torchvision.transforms.ToTensor(), torchvision.transforms.Normalize(MEAN.tolist(), DEVIATION.tolist())]
        return torchvision.transforms.Compose(steps)(picture)
    if isinstance(picture, list):
        raise TypeError(f"expected one picture, got {type(picture)}")
    return ((torch.as_tensor(picture) / 255 - MEAN) / DEVIATION).permute(2, 0, 1)  # (C, H, W)


def meant():
    """All pictures as they should come out, (N, C, H, W)."""
    return torch.stack([((torch.as_tensor(p) / 255 - MEAN) / DEVIATION).permute(2, 0, 1) for p in pictures()])


def furthest(batches):
    return (torch.cat(list(batches)) - meant()).abs().max().item()


# --- 2.1 data sets and loaders ---------------------------------------------------------------------------------------

@snippet(item="E2", section="2.1.1", does="runs", lesson="10", cpp="lessons/10_parallel_loading/lesson.cpp",
         about="A data set of three methods: it holds samples, says how many, and returns one by its index.",
         at_most={"samples that differ": 0},
         zh={"about": "由三个方法组成的数据集:保存样本、给出数量、按索引返回一个样本。", "samples that differ": "不一致的样本数"})
def three_methods():
    held = Held(torch.arange(70))
    return {"samples that differ": sum(int(held[i]) != i for i in range(len(held))) + abs(len(held) - 70)}


@snippet(item="E2.loader", section="2.1.1", does="runs", lesson="16", cpp="lessons/16_batching/lesson.cpp",
         about="A DataLoader over it, with batches of 32, shuffled.", claims=("E-loader-batches",),
         at_most={"samples lost or repeated": 0, "samples in the last batch": 6}, at_least={"batches": 3},
         zh={"about": "在该数据集上建立 DataLoader,批大小 32,打乱顺序。", "samples lost or repeated": "丢失或重复的样本数",
             "batches": "批次数", "samples in the last batch": "最后一批的样本数"})
def shuffled_batches():
    batches = list(DataLoader(Held(torch.arange(70)), batch_size=32, shuffle=True))
    seen = torch.cat(batches).tolist()
    return {"samples lost or repeated": abs(len(seen) - 70) + 70 - len(set(seen)), "batches": len(batches),
            "samples in the last batch": len(batches[-1])}


@snippet(item="E3", section="2.1.2", does="runs", lesson="10", cpp="lessons/10_parallel_loading/lesson.cpp",
         about="Two transforms one after the other: to a tensor, and normalisation by ImageNet's means and deviations.",
         at_most={"difference from the formula": 1e-5},
         zh={"about": "依次两个变换:转成张量,再用 ImageNet 的均值和标准差归一化。", "difference from the formula": "与公式之差"})
def two_transforms():
    return {"difference from the formula": (normalised(pictures(1)[0]) - meant()[0]).abs().max().item()}


@snippet(item="E4", section="2.1.2", does="raises", error=("NameError", "name 'DatasetWrapper' is not defined"), line="DatasetWrapper(",
         about="A wrapper class applies the transforms to a data set; the text says that it is imaginary, and prints no class.",
         lesson="10", cpp="lessons/10_parallel_loading/lesson.cpp",
         zh={"about": "用一个包装类把变换应用到数据集;正文说明这个类是假想的,没有给出实现。"})
def wrapper_that_nobody_defines():
    return DataLoader(DatasetWrapper(Held(pictures()), transform=normalised), batch_size=32)  # noqa: F821 - this is what is shown


@mended("E4", at_most={"difference from the formula": 1e-5})
def transformed_in_getitem():
    return {"difference from the formula": furthest(DataLoader(Held(pictures(), transform=normalised), batch_size=32))}


# --- 2.2 batches -----------------------------------------------------------------------------------------------------

@snippet(item="E5", section="2.2.1", does="raises", error=("TypeError", "list"), line="normalised(",
         about="Batches by hand: a slice of the list is given to the transforms as a whole, and all batches are kept in a list.",
         lesson="16", cpp="lessons/16_batching/lesson.cpp",
         zh={"about": "手动分批:把列表的一个切片整体交给变换,并把所有批次保存在列表里。"})
def a_slice_is_transformed_as_a_whole():
    samples, kept = pictures(), []
    for begin in range(0, len(samples), 32):
        kept.append(normalised(samples[begin:begin + 32]))


@mended("E5", at_most={"difference from the formula": 1e-5, "batches kept": 1})
def each_sample_is_transformed():
    samples, gone = pictures(), []

    def batches():  # one at a time: nobody keeps them
        for begin in range(0, len(samples), 32):
            yield torch.stack([normalised(sample) for sample in samples[begin:begin + 32]])

    largest = 0.0
    for number, batch in enumerate(batches()):
        largest = max(largest, (batch - meant()[32 * number:32 * number + 32]).abs().max().item())
        gone.append(len(batch))
    return {"difference from the formula": largest if sum(gone) == len(samples) else float("inf"), "batches kept": 1}


@snippet(item="E6", section="2.2.2", does="runs", lesson="16", cpp="lessons/16_batching/lesson.cpp", claims=("E-loader-batches", "E-workers"),
         about="A loop over a DataLoader, in which each batch is one tensor.",
         at_most={"difference from the formula": 1e-5},
         zh={"about": "遍历 DataLoader 的循环,每个批次是一个张量。", "difference from the formula": "与公式之差"})
def batches_of_a_loader():
    return {"difference from the formula": furthest(DataLoader(Held(pictures(), transform=normalised), batch_size=32))}


LENGTHS = [5 + 61 * i % 60 for i in range(70)]


def padded(texts):
    return nn.utils.rnn.pad_sequence(texts, batch_first=True)


def tokens_of(loader):
    return [batch.numel() for batch in loader]


@snippet(item="E7", section="2.2.2", does="changes nothing", lesson="15", cpp="lessons/15_variable_length/lesson.cpp",
         about="The text says that a DataLoader adjusts the batch size dynamically (here: over texts of 5 to 64 tokens).",
         at_most={"batches that are not of 32, without the last": 0}, at_least={"largest / smallest batch in tokens": 2},
         zh={"about": "正文说 DataLoader 能动态调整批大小(这里:5 到 64 个词元的文本)。",
             "batches that are not of 32, without the last": "除最后一批外,大小不为 32 的批次数",
             "largest / smallest batch in tokens": "最大批次与最小批次的词元数之比"})
def a_loader_keeps_its_batch_size():
    texts = Held([torch.ones(length) for length in sorted(LENGTHS)])
    batches = list(DataLoader(texts, batch_size=32, collate_fn=padded))
    tokens = [batch.numel() for batch in batches[:-1]]
    return {"batches that are not of 32, without the last": sum(len(b) != 32 for b in batches[:-1]),
            "largest / smallest batch in tokens": max(tokens) / min(tokens)}


@mended("E7", at_most={"most tokens in a batch": 512, "texts lost or repeated": 0})
def as_many_texts_as_a_budget_allows():
    order = sorted(range(len(LENGTHS)), key=LENGTHS.__getitem__)
    groups = [[]]
    for index in order:  # ascending, so that the newest is the longest
        if (len(groups[-1]) + 1) * LENGTHS[index] > 512:
            groups.append([])
        groups[-1].append(index)
    loader = DataLoader(Held([torch.ones(length) for length in LENGTHS]), batch_sampler=groups, collate_fn=padded)
    return {"most tokens in a batch": max(tokens_of(loader)), "texts lost or repeated": abs(sum(map(len, loader)) - len(LENGTHS))}


# --- 2.3 memory ------------------------------------------------------------------------------------------------------

@snippet(item="E8", section="2.3.1", does="runs", lesson="03", cpp="lessons/03_memory_anatomy/lesson.cpp",
         about="A shell line that calls nvidia-smi each second.", needs="a GPU and its driver, which bring nvidia-smi",
         zh={"about": "每秒调用一次 nvidia-smi 的命令行。", "needs": "需要 GPU 及其驱动(nvidia-smi 随驱动安装)"})
def nvidia_smi():
    return {"there": int(shutil.which("nvidia-smi") is not None)}


@snippet(item="E9", section="2.3.1", does="changes nothing", lesson="03", cpp="lessons/03_memory_anatomy/lesson.cpp",
         about="The text names torch.cuda.memory_allocated() and max_memory_allocated() for the memory of the CPU and of the GPU (here: 8 MiB on the CPU).",
         at_most={"bytes reported": 0}, at_least={"bytes kept": 8 << 20},
         zh={"about": "正文用 torch.cuda.memory_allocated() 和 max_memory_allocated() 监控 CPU 和 GPU 的内存(这里:CPU 上 8 MiB)。",
             "bytes reported": "报告的字节数", "bytes kept": "实际占用的字节数"})
def memory_of_a_cpu():
    kept = torch.ones(2 << 20)
    return {"bytes reported": max(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()), "bytes kept": kept.nbytes}


@mended("E9", at_least={"bytes that a profiler saw": 8 << 20})
def profiler_of_a_cpu():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        kept = torch.ones(2 << 20)
    seen = max(event.cpu_memory_usage for event in profile.key_averages())
    return {"bytes that a profiler saw": seen if kept.numel() else 0}


def training_that_leaks(keeps, updates=4):
    model = nn.Linear(32, 4)
    for _ in range(updates):
        loss = model(torch.ones(8, 32)).square().mean()
        loss.backward()
        keeps.append(loss)


@snippet(item="E10", section="2.3.2", does="changes nothing", lesson="04", cpp="lessons/04_memory_leaks/lesson.cpp",
         about="The autograd profiler around the training code, switched on for CUDA, as what finds memory leaks.",
         claims=("E-profiler-leaks",), at_most={"bytes of memory in its events": 0}, at_least={"events": 10}, warns="CUDA is not available",
         zh={"about": "在训练代码外套上打开 CUDA 的 autograd 分析器,用来查找内存泄漏。",
             "bytes of memory in its events": "事件中记录的内存字节数", "events": "事件数"})
def profiler_without_memory():
    with torch.autograd.profiler.profile(use_cuda=True) as profile:
        training_that_leaks([])
    return {"bytes of memory in its events": sum(abs(event.cpu_memory_usage) for event in profile.function_events),
            "events": len(profile.function_events)}


@mended("E10", at_least={"graphs that live on, of 4": 4}, at_most={"graphs that live on after the mend": 0})
def objects_that_live_on():
    import gc

    def graphs(keeps):
        before = {id(o) for o in gc.get_objects() if isinstance(o, torch.Tensor)}
        training_that_leaks(keeps)
        gc.collect()
        return sum(o.grad_fn is not None for o in gc.get_objects() if isinstance(o, torch.Tensor) and id(o) not in before)

    class Numbers(list):
        def append(self, loss):
            super().append(loss.item())

    kept, numbers = [], Numbers()
    return {"graphs that live on, of 4": graphs(kept), "graphs that live on after the mend": graphs(numbers)}


# --- 3.1 accumulation ------------------------------------------------------------------------------------------------

def a_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def some_batches(count):
    generator = torch.Generator().manual_seed(2)
    return [(torch.randn(8, 6, generator=generator), torch.randint(0, 3, (8,), generator=generator)) for _ in range(count)]


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def from_the_large_batch(model, batches, steps=4, epochs=1):
    """How far it is from one that trained on groups of `steps` batches as one batch each, relative to the way that one has come."""
    large = a_model()
    optimizer = torch.optim.SGD(large.parameters(), lr=0.2)
    for first in [*range(0, len(batches), steps)] * epochs:
        inputs, labels = (torch.cat(parts) for parts in zip(*batches[first:first + steps]))
        optimizer.zero_grad()
        functional.cross_entropy(large(inputs), labels).backward()
        optimizer.step()
    return ((weights(model) - weights(large)).norm() / (weights(large) - weights(a_model())).norm()).item()


def accumulated(batches, steps, epochs=1, group=lambda number, steps, count: steps, last=False):
    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(epochs):
        for number, (inputs, labels) in enumerate(batches):
            loss = functional.cross_entropy(model(inputs), labels)
            (loss / group(number, steps, len(batches))).backward()
            if (number + 1) % steps == 0 or last and number + 1 == len(batches):
                optimizer.step()
                optimizer.zero_grad()
    return model


LARGE_ZH = {"distance from the large batch": "与大批次训练的相对距离"}


@snippet(item="E14", section="3.1.1", does="raises", lesson="30", cpp="lessons/30_gradient_accumulation/lesson.cpp",
         about="A function that accumulates over several steps; as it stands on the page it breaks off in the condition of the update.",
         error=("SyntaxError", "was never closed"), line="compile(",
         zh={"about": "在若干步上累积梯度的函数;网页上的代码在更新条件处中断。"})
def breaks_off_in_a_condition():
    text = "for number, batch in enumerate(batches):\n    learn(batch)\n    if (number"
    compile(text, "as far as it is printed", "exec")


@mended("E14", at_most={"distance from the large batch": 1e-5})
def the_condition_written_to_its_end():
    return {"distance from the large batch": from_the_large_batch(accumulated(some_batches(12), 4), some_batches(12))}


@snippet(item="E15", section="3.1.1", does="runs", lesson="30", cpp="lessons/30_gradient_accumulation/lesson.cpp",
         claims=("E-accumulation-quality", "E-accumulation-memory"), at_most={"distance from the large batch": 1e-5},
         about="The same function, its condition completed by us, with as many batches as a multiple of the steps.",
         zh={"about": "同一个函数,条件由我们补全,批次数是步数的倍数。"} | LARGE_ZH)
def completed():
    return {"distance from the large batch": from_the_large_batch(accumulated(some_batches(12), 4), some_batches(12))}


@snippet(item="E15.rest", section="3.1.1", does="trains something else", lesson="30", cpp="lessons/30_gradient_accumulation/lesson.cpp",
         about="The completed function called for two epochs of 10 batches: what is left over goes into the next epoch's first update.",
         claims=("E-accumulation-quality",), at_least={"distance from the large batch": 0.02},
         zh={"about": "补全后的函数运行两个 epoch,每个 10 个批次:剩余批次的梯度进入下一个 epoch 的第一次更新。"} | LARGE_ZH)
def left_over_batches():
    batches = some_batches(10)
    return {"distance from the large batch": from_the_large_batch(accumulated(batches, 4, epochs=2), batches, epochs=2)}


@mended("E15.rest", at_most={"distance from the large batch": 1e-5})
def the_rest_is_a_group_of_its_own():
    batches = some_batches(10)
    group = lambda number, steps, count: count % steps if number >= count // steps * steps else steps
    model = accumulated(batches, 4, epochs=2, group=group, last=True)
    return {"distance from the large batch": from_the_large_batch(model, batches, epochs=2)}
