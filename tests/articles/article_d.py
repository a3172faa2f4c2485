"""Article D: how a GPU works, how large a batch may be, and what to do when the parameters do not fit."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from snippets import mended, snippet

CLASSES = 10


def small_model():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def batches(count, size=4):
    generator = torch.Generator().manual_seed(3)
    return [(torch.randn(size, 16, generator=generator), torch.randint(CLASSES, (size,), generator=generator))
            for _ in range(count)]


def weights(model):
    return torch.cat([p.detach().flatten().cpu() for p in model.parameters()])


def deviation(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


# --- the batch and the GPU ------------------------------------------------------------------------------------------


@snippet("D8", "stream processors", "A batch of images is made and doubled, and the comments say that a GPU spreads it over its"
         " processors. Nothing in these lines names a GPU: all of it is done by the CPU.", "changes nothing", lesson="20",
         at_most={"tensors on a GPU": 0},
         zh={"about": "创建一批图像再乘以 2,注释说 GPU 会自动分给多个处理器。但这几行没有一处提到 GPU,全部由 CPU 完成。",
             "tensors on a GPU": "在 GPU 上的张量数"})
def doubled_batch():
    images = torch.randn(32, 3, 64, 64)
    return {"tensors on a GPU": sum(tensor.is_cuda for tensor in (images, images * 2))}


@snippet("D9", "batches", "One convolution on the GPU for a batch of 32 images: it is called once for all of them, with the results of"
         " 32 single calls.", "runs", lesson="20", gpus=2, claims=("D-batch-parallel", "D-one-picture"),
         at_most={"calls for 32 images": 1, "deviation from single images": 1e-5},
         zh={"about": "在 GPU 上对 32 张图像做一次卷积:整批只调用一次,结果与逐张调用 32 次相同。",
             "calls for 32 images": "32 张图像的调用次数", "deviation from single images": "与逐张计算的偏差"})
def one_convolution_for_a_batch():
    torch.manual_seed(4)
    layer, images, calls = nn.Conv2d(3, 8, 3).cuda(), torch.randn(32, 3, 12, 12).cuda(), []
    layer.register_forward_hook(lambda *_: calls.append(1))
    together = layer(images).cpu()
    count = len(calls)
    single = torch.cat([layer(image[None]) for image in images]).cpu()
    return {"calls for 32 images": count, "deviation from single images": deviation(together, single)}


class Doubling(nn.Module):
    """A megabyte of input a sample, and as much of output; it keeps both for the backward pass."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return x * self.factor


SAMPLE = 1 << 18  # numbers, 1 MiB
ROOM = 48  # MiB that the process may have


def limited_memory():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_per_process_memory_fraction(ROOM * 2**20 / torch.cuda.get_device_properties(0).total_memory)


def searched_by_ratio(model, shape, share=0.8):
    """Doubles the batch until allocated / most allocated passes the share, or until any RuntimeError."""
    size = 1
    try:
        while True:
            output = model(torch.randn(size, *shape).cuda())
            if torch.cuda.memory_allocated() / torch.cuda.max_memory_allocated() > share:
                return size - 1
            size *= 2
    except RuntimeError:
        return size // 2
    finally:
        output = None


def fits(model, size):
    try:
        model(torch.ones(size, SAMPLE, device="cuda")).sum().backward()
        return True
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        torch.cuda.empty_cache()


def largest_batch(model):
    """By doubling, then by halving the gap; a trial is a whole step, and only out of memory counts as not fitting."""
    small, large = 0, 1
    while fits(model, large):
        small, large = large, 2 * large
    while large - small > 1:
        middle = (small + large) // 2
        small, large = (middle, large) if fits(model, middle) else (small, middle)
    return small


@snippet("D12", "the batch size", "A search doubles the batch until the allocated memory is 80 % of the most that was ever allocated. In a"
         " new process that is so at batch 1: the ratio compares with the process's own peak, not with the card.",
         "trains something else", lesson="20", gpus=2, at_least={"share of the largest batch missed": 0.9},
         claims=("D-batch-utilisation",),
         zh={"about": "不断把批大小翻倍,直到已分配显存达到历史峰值的 80%。在新进程里批大小为 1 时就已满足:这个比值是与进程自己的峰值相比,而不是与显卡容量相比。",
             "share of the largest batch missed": "与最大批大小相差的比例", "batch found": "找到的批大小", "largest batch": "最大的批大小"})
def batch_by_ratio():
    model = Doubling().cuda()
    limited_memory()
    found = searched_by_ratio(model, (SAMPLE,))
    limited_memory()
    largest = largest_batch(model)
    torch.cuda.set_per_process_memory_fraction(1.0)
    return {"batch found": found, "largest batch": largest, "share of the largest batch missed": 1 - found / largest}


@mended("D12", at_most={"does not fit": 0}, at_least={"one more does not": 1})
def batch_by_trial():
    model = Doubling().cuda()
    limited_memory()
    found = largest_batch(model)
    numbers = {"does not fit": int(not fits(model, found)), "one more does not": int(not fits(model, found + 1))}
    torch.cuda.set_per_process_memory_fraction(1.0)
    return numbers


@snippet("D12.errors", "the batch size", "The same search takes every RuntimeError for a full card. A model that does not accept the input"
         " at all gets a batch size of 0, and no message.", "trains something else", lesson="20", gpus=2,
         at_least={"errors swallowed": 1},
         zh={"about": "同一个搜索把所有 RuntimeError 都当作显存溢出。模型根本不接受该输入时,它返回 0,没有任何报错。",
             "errors swallowed": "被吞掉的错误数", "batch found": "找到的批大小"})
def batch_of_a_wrong_shape():
    found = searched_by_ratio(nn.Linear(16, 4).cuda(), (15,))
    return {"batch found": found, "errors swallowed": int(found == 0)}


@mended("D12.errors", at_most={"errors swallowed": 0})
def only_out_of_memory_is_caught():
    try:
        fits(nn.Linear(16, 4).cuda(), 1)
    except RuntimeError as error:
        return {"errors swallowed": int("shapes cannot be multiplied" not in str(error))}
    return {"errors swallowed": 1}


@snippet("D13", "the GPU's pipeline", "A DataLoader of 32 samples a batch with pinned memory and four workers. The batches are the usual"
         " ones; on a machine without a GPU nothing is pinned, with a warning.", "runs", lesson="11", claims=("D-pinned",),
         warns="no accelerator is found", at_most={"batches that differ": 0, "pinned batches": 0},
         zh={"about": "DataLoader:每批 32 个样本,锁页内存,4 个工作进程。得到的批与平常相同;没有 GPU 的机器上不会锁页,只给出警告。",
             "batches that differ": "不同的批数", "pinned batches": "锁页的批数"})
def loader_with_both():
    data = torch.arange(96.0)
    loaded = list(DataLoader(data, batch_size=32, pin_memory=True, num_workers=4))
    return {"batches that differ": sum(not torch.equal(a, b) for a, b in zip(loaded, data.split(32))),
            "pinned batches": sum(batch.is_pinned() for batch in loaded)}


def halves_on_two_streams(waits):
    model = small_model().cuda()
    hosts = [inputs.pin_memory() for inputs, _ in batches(2)]
    expected = torch.cat([small_model()(host) for host in hosts]).detach()
    torch.cuda.synchronize()
    streams, inputs = [torch.cuda.Stream() for _ in hosts], [host.to("cuda", non_blocking=True) for host in hosts]
    outputs = []
    for stream, half in zip(streams, inputs):
        if waits:
            stream.wait_stream(torch.cuda.current_stream())  # until the half is there
            half.record_stream(stream)
        with torch.cuda.stream(stream):
            outputs.append(model(half))
    for stream, output in zip(streams, outputs):
        if waits:
            torch.cuda.current_stream().wait_stream(stream)  # until the output is there
            output.record_stream(torch.cuda.current_stream())
    found = torch.cat(outputs).detach().cpu()
    torch.cuda.synchronize()
    return deviation(torch.nan_to_num(found), expected)


@snippet("D14", "overlap of compute and copies", "Two streams are made to overlap compute with copies; what they get are two forward passes and"
         " no copy, and nobody waits for them. Whoever uses the outputs reads memory that is not written yet (a dry GPU in late order).",
         "trains something else", lesson="26", gpus=2, at_least={"deviation of the outputs": 0.1}, cpp="lessons/26_streams/side_streams.h",
         claims=("D-streams", "D-streams-as-written", "D-overlap"),
         zh={"about": "用两个流让计算与数据传输重叠;但放进流里的是两次前向,没有任何拷贝,也没有人等待它们。使用输出的一方会读到尚未写好的内存(dry GPU,late 次序)。",
             "deviation of the outputs": "输出的偏差"})
def streams_without_waits():
    return {"deviation of the outputs": halves_on_two_streams(waits=False)}


@mended("D14", at_most={"deviation of the outputs": 1e-5})
def streams_with_waits():
    return {"deviation of the outputs": halves_on_two_streams(waits=True)}


# --- parameters that do not fit -------------------------------------------------------------------------------------


@snippet("D15", "the state of the memory", "Memory of the host and the GPU is read with two packages that PyTorch does not bring, and the GPU's"
         " is that of all processes on the first card, whichever one is used.", "raises", lesson="03",
         error=("ModuleNotFoundError", "No module named"), line="import psutil, GPUtil",
         zh={"about": "用两个 PyTorch 不自带的包读取系统内存和显存;显存是第一张卡上所有进程的总和,与实际使用哪张卡无关。"})
def memory_by_other_packages():
    import psutil, GPUtil  # noqa: E401
    return {"host": psutil.virtual_memory().total, "GPU": GPUtil.getGPUs()[0].memoryTotal}


@mended("D15", at_least={"MiB of the host": 1})
def memory_by_pytorch():
    numbers = {"MiB of the host": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20}
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()  # of the current device, all processes
        numbers["MiB of this process's tensors"] = torch.cuda.memory_allocated() / 2**20
    return numbers


@snippet("D22.comment", "compression", "Three blocks of Python begin with a comment of two slashes: as it stands none of them is Python.",
         "raises", error=("SyntaxError", "invalid syntax"), line='compile("//',
         zh={"about": "三个 Python 代码块以双斜杠注释开头:照抄的话,没有一个是合法的 Python。"})
def comment_of_two_slashes():
    compile("// a comment\nnumber = 1\n", "block", "exec")


@mended("D22.comment", at_most={"errors": 0})
def comment_of_python():
    compile("# a comment\nnumber = 1\n", "block", "exec")
    return {"errors": 0}


def quantized(model):
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


def linear_model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))


def bytes_of(model):
    total = 0
    for module in model.modules():
        if isinstance(module, torch.ao.nn.quantized.dynamic.Linear):
            total += module.weight().int_repr().nbytes + module.bias().nbytes
        else:
            total += sum(p.nbytes for p in module.parameters(recurse=False))
    return total


@snippet("D22", "compression", "Dynamic quantization of the linear layers, inside a function that keeps the small model to itself: the caller's"
         " model is as it was.", "changes nothing", lesson="35", at_most={"layers in 8 bits": 0}, warns="is deprecated",
         claims=("D-int8-memory",),
         zh={"about": "对线性层做动态量化,但写在一个函数里,小模型没有返回:调用者的模型原封不动。", "layers in 8 bits": "8 位的层数"})
def quantization_not_returned():
    model = linear_model()

    def example():
        small = quantized(model)
        assert small is not model

    example()
    return {"layers in 8 bits": sum(not isinstance(layer, (nn.Linear, nn.ReLU)) for layer in model)}


@mended("D22", at_most={"bytes, of those in 32 bits": 0.26, "deviation of the outputs": 0.03})
def quantization_returned():
    model, x = linear_model(), torch.randn(8, 256)
    small = quantized(model)
    return {"bytes, of those in 32 bits": bytes_of(small) / bytes_of(model),
            "deviation of the outputs": deviation(small(x), model(x).detach())}


@snippet("D22.conv", "compression", "\"About 75 % of the GPU memory saved\", of a network of convolutions as the article's own: only linear"
         " layers are quantized.", "changes nothing", lesson="35", at_most={"share of the bytes saved": 0}, claims=("D-int8-memory",),
         zh={"about": "“显存节省约 75%”,用在文中那样的卷积网络上:只有线性层会被量化。", "share of the bytes saved": "节省的字节比例"})
def quantized_convolutions():
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 128, 3))
    return {"share of the bytes saved": 1 - bytes_of(quantized(model)) / bytes_of(model)}


@snippet("D22.gpu", "compression", "The memory that is to be saved is the GPU's; the quantized model takes a batch on the GPU.", "raises",
         lesson="35", gpus=2, error=("NotImplementedError", "quantized::linear_dynamic"), line="small(x)",
         claims=("D-int8-memory",),
         zh={"about": "要节省的是显存,于是把 GPU 上的一批数据交给量化后的模型:该算子没有 CUDA 实现。"})
def quantized_on_a_gpu():
    x = torch.randn(8, 256).cuda()
    small = quantized(linear_model())
    return small(x)


@mended("D22.gpu", at_most={"bytes of the weight, of those in 32 bits": 0.26, "deviation of the outputs": 0.02})
def weights_in_8_bits_on_a_gpu():
    layer, x = linear_model()[0], torch.randn(8, 256)
    scales = layer.weight.detach().abs().amax(1, keepdim=True) / 127
    codes = (layer.weight.detach() / scales).round().to(torch.int8)
    on_gpu, factors = codes.cuda(), scales.cuda()
    found = F.linear(x.cuda(), on_gpu.float() * factors, layer.bias.detach().cuda()).cpu()  # torchao has kernels without the copy
    return {"bytes of the weight, of those in 32 bits": (codes.nbytes + scales.nbytes) / layer.weight.nbytes,
            "deviation of the outputs": deviation(found, layer(x).detach())}


class FeaturesAlone(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU())


@snippet("D23", "distillation", "The student has layers, but no forward.", "raises", lesson="63", error=("NotImplementedError", 'missing the required "forward"'),
         line="FeaturesAlone()(", zh={"about": "学生模型只有层,没有 forward。"})
def student_without_forward():
    return FeaturesAlone()(torch.ones(2, 3, 8, 8))


class Student(FeaturesAlone):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, CLASSES)  # a teacher's softmax over dim=1 is over classes: feature maps have none

    def forward(self, images):
        return self.head(self.features(images).mean((2, 3)))


@mended("D23", at_least={"outputs for each image": CLASSES})
def student_with_forward():
    return {"outputs for each image": Student()(torch.ones(2, 3, 8, 8)).shape[1]}


def logits_of_two():
    torch.manual_seed(6)
    return torch.randn(8, CLASSES), torch.randn(8, CLASSES, requires_grad=True)


def softened(teacher, student, temperature, **reduction):
    return F.kl_div(F.log_softmax(student / temperature, 1), F.softmax(teacher / temperature, 1), **reduction)


@snippet("D24", "distillation", "The distillation loss is computed and the function ends: no backward pass, no optimizer, nothing returned.",
         "changes nothing", lesson="63", at_most={"change of the student": 0, "tensors with a gradient": 0},
         zh={"about": "算出蒸馏损失后函数就结束:没有反向传播,没有优化器,也没有返回值。",
             "change of the student": "学生模型的变化", "tensors with a gradient": "有梯度的张量数"})
def distillation_that_ends_at_its_loss():
    teacher, student = small_model(), small_model()
    before = weights(student)

    def train(inputs):
        with torch.no_grad():
            soft = teacher(inputs)
        softened(soft, student(inputs), 3.0)

    train(batches(1)[0][0])
    return {"change of the student": deviation(weights(student), before),
            "tensors with a gradient": sum(p.grad is not None for p in student.parameters())}


@snippet("D24.scale", "distillation", "The same loss, used: KLDivLoss without a reduction divides by the number of classes as well, and a"
         " temperature of 3 without its square makes the gradient 9 times smaller again.", "trains something else", lesson="63",
         at_least={"times that the gradient is too small": 89}, warns="batchmean",
         zh={"about": "真正使用这个损失时:KLDivLoss 默认还会除以类别数,温度为 3 却不乘其平方,梯度又小 9 倍。",
             "times that the gradient is too small": "梯度偏小的倍数"})
def distillation_by_mean():
    teacher, student = logits_of_two()
    softened(teacher, student, 3.0, reduction="mean").backward()
    _, right = logits_of_two()
    (9.0 * softened(teacher, right, 3.0, reduction="batchmean")).backward()
    return {"times that the gradient is too small": (right.grad.norm() / student.grad.norm()).item()}


@mended("D24.scale", at_most={"deviation from the definition": 1e-5})
def distillation_by_definition():
    teacher, student = logits_of_two()
    loss = 9.0 * softened(teacher, student, 3.0, reduction="batchmean")
    p, log_q = F.softmax(teacher / 3, 1), F.log_softmax(student / 3, 1)
    definition = 9.0 * (p * (p.log() - log_q)).sum() / len(p)
    return {"deviation from the definition": abs(loss.item() / definition.item() - 1)}


class OnTwoCards(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.first = nn.Sequential(nn.Linear(16, 32), nn.ReLU()).to("cuda:0")
        self.second = nn.Linear(32, 8).to("cuda:1")

    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).to("cuda:1"))


@snippet("D21.one", "model parallel", "The second half of a model is moved to a second GPU, on a machine with one.", "raises", gpus=2,
         error=("AcceleratorError", "invalid device ordinal"), line='to("cuda:9")',
         zh={"about": "在只有一张 GPU 的机器上,把模型的后半部分放到另一张 GPU。"})
def half_on_a_missing_card():
    return nn.Linear(32, 8).to("cuda:9")


@mended("D21.one", at_most={"halves on a missing card": 0})
def halves_on_what_there_is():
    cards = [f"cuda:{i % torch.cuda.device_count()}" for i in range(2)]
    moved = [nn.Linear(32, 8).to(card) for card in cards]
    return {"halves on a missing card": sum(not layer.weight.is_cuda for layer in moved)}


@snippet("D21", "model parallel", "Half of the layers on each of two GPUs: the result is that of one device.", "runs", gpus=2,
         lesson="55", cpp="lessons/55_pipeline/lesson.cpp", claims=("D-split-equal",), at_most={"deviation from one device": 1e-5},
         zh={"about": "两张 GPU 各放一半的层:结果与单个设备相同。", "deviation from one device": "与单个设备的偏差"})
def layers_on_two_cards():
    model, (x, _) = OnTwoCards(), batches(1)[0]
    found = model(x).detach().cpu()
    torch.manual_seed(7)
    one = nn.Sequential(nn.Sequential(nn.Linear(16, 32), nn.ReLU()), nn.Linear(32, 8))
    return {"deviation from one device": deviation(found, one(x).detach())}


def waiting_share(micro_batches, stages=2):
    """Of the time of a forward pass, the share that a device waits: each stage takes a unit of time for each micro-batch, and
    needs what the stage before made of it. Modelled; no time is measured."""
    done = {}
    for micro_batch in range(micro_batches):
        for stage in range(stages):
            begin = max(done.get((stage, micro_batch - 1), 0), done.get((stage - 1, micro_batch), 0))
            done[stage, micro_batch] = begin + 1
    return 1 - micro_batches / max(done.values())


@snippet("D20", "pipeline parallel", "The heading above that model says pipeline. With the whole batch given at once one GPU waits while the"
         " other one works (modelled with stages of equal length).", "trains something else",
         lesson="55", cpp="lessons/55_pipeline/pipeline_schedule.h", claims=("D-split-pipeline", "D-pipeline-parameters"),
         at_least={"share of the time that each GPU waits": 0.5},
         zh={"about": "该模型的标题写着“流水线并行”。但整批一次送入时,一张 GPU 工作,另一张只能等待(按各段用时相等的模型计算)。",
             "share of the time that each GPU waits": "每张 GPU 等待的时间比例"})
def whole_batch_through_two_stages():
    return {"share of the time that each GPU waits": waiting_share(1)}


@mended("D20", at_most={"share of the time that each GPU waits": 0.21, "deviation of the outputs": 1e-5}, gpus=2)
def micro_batches_through_two_stages():
    model, (x, _) = OnTwoCards(), batches(1, size=8)[0]
    whole = model(x).detach().cpu()
    parts = torch.cat([model(part) for part in x.chunk(4)]).detach().cpu()  # the host queues ahead: no GPU waits for it
    return {"share of the time that each GPU waits": waiting_share(4), "deviation of the outputs": deviation(parts, whole)}


def accumulated(data, steps, last_too):
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer.zero_grad()
    for number, (inputs, labels) in enumerate(data, 1):
        in_update = min(steps, len(data) - (number - 1) // steps * steps) if last_too else steps
        (F.cross_entropy(model(inputs), labels) / in_update).backward()
        if number % steps == 0 or (last_too and number == len(data)):
            optimizer.step()
            optimizer.zero_grad()
    return weights(model)


@snippet("D25", "gradient accumulation", "The loss is divided by the number of micro-batches and the optimizer steps after every fourth. What is"
         " left at the end of the data is in no update: here of six micro-batches two.", "trains something else", lesson="30",
         at_least={"share of the micro-batches in no update": 0.33}, cpp="lessons/30_gradient_accumulation/lesson.cpp",
         claims=("D-accumulate-parameters",),
         zh={"about": "损失除以累积步数,每 4 步更新一次。数据末尾剩下的不进入任何更新:这里 6 个微批次中有 2 个。",
             "share of the micro-batches in no update": "不进入任何更新的微批次比例"})
def accumulation_without_the_rest():
    data = batches(6)
    lost = 2 if torch.equal(accumulated(data, 4, last_too=False), accumulated(data[:4], 4, last_too=False)) else 0
    return {"share of the micro-batches in no update": lost / 6}


@mended("D25", at_most={"deviation from full batches": 1e-5})
def accumulation_with_the_rest():
    data = batches(6)
    joined = [tuple(torch.cat(parts) for parts in zip(*data[i:i + 4])) for i in (0, 4)]
    full = accumulated(joined, 1, last_too=True)
    return {"deviation from full batches": deviation(accumulated(data, 4, last_too=True), full)}


def state_bytes(kind):
    model = small_model()
    optimizer = kind(model.parameters(), lr=1e-4, weight_decay=0.01)
    model(batches(1)[0][0]).sum().backward()
    optimizer.step()
    return sum(value.nbytes for state in optimizer.state.values() for value in state.values())


@snippet("D27", "memory of the optimizer", "AdamW is taken as the version of Adam that saves memory: both keep two numbers for each"
         " parameter.", "changes nothing", lesson="33", at_most={"bytes of state saved": 0}, claims=("D-adamw-memory",),
         zh={"about": "把 AdamW 当作 Adam 的省显存版本:两者都为每个参数保存两个数。", "bytes of state saved": "节省的状态字节数"})
def adamw_for_adam():
    return {"bytes of state saved": state_bytes(torch.optim.Adam) - state_bytes(torch.optim.AdamW)}


def kept_bytes(block, x):
    """What the forward pass keeps for the backward pass."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.nbytes) or tensor, lambda tensor: tensor):
        block(x)
    return sum(kept)


@snippet("D28", "checkpointing", "A forward with checkpoint is defined inside a function and never called, nor given to a model.", "changes nothing",
         lesson="31", at_most={"bytes saved": 0}, claims=("D-checkpoint-parameters",),
         zh={"about": "在函数内部定义了带 checkpoint 的 forward,却从未调用,也没有交给模型。", "bytes saved": "节省的字节数"})
def checkpoint_never_called():
    model, x = small_model(), batches(1)[0][0]
    before = kept_bytes(model, x)

    def train():
        def forward(self, x):
            return checkpoint(self.block, x)

    train()
    return {"bytes saved": before - kept_bytes(model, x)}


def gradients_of(first, second, run_first):
    second(run_first(batches(1)[0][0])).sum().backward()
    return [p.grad for p in first.parameters()]


def two_blocks():
    torch.manual_seed(8)
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU()), nn.Linear(16, 4)


@snippet("D28.first", "checkpointing", "The same call, used for the first block of a network, without use_reentrant: its input is data and needs"
         " no gradient, and so the block gets none.", "trains something else", lesson="31",
         at_least={"share of the block's parameters without a gradient": 1.0}, warns="None of the inputs have requires_grad=True",
         zh={"about": "同样的调用用在网络的第一个块上,不写 use_reentrant:输入是数据,不需要梯度,于是这个块也得不到梯度。",
             "share of the block's parameters without a gradient": "该块没有梯度的参数比例"})
def first_block_checkpointed():
    first, second = two_blocks()
    found = gradients_of(first, second, lambda x: checkpoint(first, x))
    return {"share of the block's parameters without a gradient": sum(g is None for g in found) / len(found)}


@mended("D28.first", at_most={"deviation of the gradients": 0})
def first_block_not_reentrant():
    first, second = two_blocks()
    found = gradients_of(first, second, lambda x: checkpoint(first, x, use_reentrant=False))
    first, second = two_blocks()
    expected = gradients_of(first, second, first)
    return {"deviation of the gradients": max(deviation(a, b) for a, b in zip(found, expected))}


def trained_mixed(device, clear, overflow=None, **scaler_options):
    """Weights after eight batches, and how many updates were skipped after the batch `overflow`, whose inputs are too large."""
    model = small_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", **scaler_options)
    skipped = 0
    for number, (inputs, labels) in enumerate(batches(8)):
        if clear:
            optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
            loss = F.cross_entropy(model(inputs.to(device) * (1e4 if number == overflow else 1.0)), labels.to(device))
        before = weights(model)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        skipped += overflow is not None and number > overflow and torch.equal(weights(model), before)
    return weights(model), skipped


@snippet("D29", "mixed precision", "A loop with autocast and a scaler that never clears the gradients. As long as nothing overflows, the scaler's"
         " division all but removes the old ones; after one overflow an infinity stays in the gradients, and every later update is skipped.",
         "trains something else", lesson="21", gpus=2, at_least={"updates skipped after an overflow, of 5": 5}, claims=("D-amp-parameters",),
         cpp="lessons/21_mixed_precision/lesson.cpp",
         zh={"about": "带 autocast 和 scaler 的循环从不清零梯度。只要没有溢出,scaler 的除法几乎抹去旧梯度;一旦溢出一次,无穷大就留在梯度里,之后每次更新都被跳过。",
             "updates skipped after an overflow, of 5": "溢出之后 5 次更新中被跳过的次数", "deviation of the weights without one": "没有溢出时权重的偏差"})
def mixed_precision_never_cleared():
    kept, cleared = (trained_mixed("cuda", clear=clear, init_scale=1024.0)[0] for clear in (False, True))
    return {"updates skipped after an overflow, of 5": trained_mixed("cuda", clear=False, overflow=2)[1],
            "deviation of the weights without one": deviation(kept, cleared)}


@mended("D29", at_most={"updates skipped after an overflow, of 5": 0, "deviation from 32 bits": 0.01})
def mixed_precision_cleared():
    exact = trained_mixed("cuda", clear=True, enabled=False)[0]
    return {"updates skipped after an overflow, of 5": trained_mixed("cuda", clear=True, overflow=2, init_scale=1024.0)[1],
            "deviation from 32 bits": deviation(trained_mixed("cuda", clear=True, init_scale=1024.0)[0], exact)}


def trained_by_old_names(clear):
    model = small_model()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.cuda.amp.GradScaler()
    for inputs, labels in batches(8):
        if clear:
            optimizer.zero_grad()
        with torch.cuda.amp.autocast():
            output = model(inputs)
        scaler.scale(F.cross_entropy(output, labels)).backward()
        scaler.step(optimizer)
        scaler.update()
    return weights(model), output.dtype


@snippet("D29.cpu", "mixed precision", "The same loop by its old names, torch.cuda.amp, on a machine without a GPU: warnings, everything in 32 bits,"
         " and since no scaler divides, all batches' gradients add up.", "trains something else", lesson="21", warns="Disabling",
         at_least={"deviation of the weights": 0.05}, at_most={"outputs in 16 bits": 0}, cpp="lessons/21_mixed_precision/lesson.cpp",
         zh={"about": "同一个循环,用旧名字 torch.cuda.amp,在没有 GPU 的机器上:只有警告,一切仍是 32 位;没有 scaler 来除,所有批次的梯度都累加在一起。",
             "deviation of the weights": "权重的偏差", "outputs in 16 bits": "16 位的输出数"})
def old_names_without_a_gpu():
    found, kind = trained_by_old_names(clear=False)
    return {"deviation of the weights": deviation(found, trained_by_old_names(clear=True)[0]), "outputs in 16 bits": int(kind != torch.float32)}


@mended("D29.cpu", at_most={"deviation from 32 bits": 0.02})
def bf16_on_a_cpu():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in batches(8):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):  # needs no scaler
            output = model(inputs)
        F.cross_entropy(output.float(), labels).backward()
        optimizer.step()
    return {"deviation from 32 bits": deviation(weights(model), trained_by_old_names(clear=True)[0])}


# --- the GPU's cache, matmuls ---------------------------------------------------------------------------------------


def driver_calls():
    return torch.cuda.memory_stats()["num_device_alloc"]


@snippet("D30", "the GPU's cache", "The cache of memory hands memory out again at once: a tensor in the place of a freed one needs no call of"
         " the driver.", "runs", lesson="32", gpus=2, at_most={"driver calls for the second tensor": 0}, claims=("D-cache-reuse",),
         zh={"about": "缓存可以快速重用内存:放进已释放张量位置的张量不需要调用驱动。", "driver calls for the second tensor": "第二个张量的驱动调用次数"})
def memory_used_again():
    torch.cuda.empty_cache()
    tensor = torch.empty(12 << 18, device="cuda")
    before = driver_calls()
    del tensor
    tensor = torch.empty(12 << 18, device="cuda")
    return {"driver calls for the second tensor": driver_calls() - before}


@snippet("D30.fragments", "the GPU's cache", "The cache is said to reduce fragmentation: four freed blocks do not serve a tensor as large as all"
         " four, and the driver is asked for more.", "trains something else", lesson="32", gpus=2,
         at_least={"driver calls though enough is free": 1}, claims=("D-cache-fragments",),
         zh={"about": "据说缓存能减少内存碎片:四个已释放的块不能合起来放一个与它们总和一样大的张量,仍要向驱动要内存。",
             "driver calls though enough is free": "空闲足够时仍有的驱动调用次数"})
def freed_blocks_do_not_join():
    torch.cuda.empty_cache()
    blocks = [torch.empty(12 << 18, device="cuda") for _ in range(4)]
    del blocks
    before, free = driver_calls(), torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    tensor = torch.empty(48 << 18, device="cuda")
    assert free >= tensor.nbytes
    return {"driver calls though enough is free": driver_calls() - before}


@mended("D30.fragments", at_most={"driver calls after the largest": 0})
def largest_first():
    torch.cuda.empty_cache()
    tensor = torch.empty(48 << 18, device="cuda")
    del tensor
    before = driver_calls()
    blocks = [torch.empty(12 << 18, device="cuda") for _ in range(4)]
    assert len(blocks) == 4
    return {"driver calls after the largest": driver_calls() - before}


@snippet("D31", "the GPU's cache", "pin_memory is listed as a work of the GPU's cache: pinned memory is the host's, and takes none of the GPU's.",
         "changes nothing", lesson="11", gpus=2, at_most={"bytes on the GPU": 0, "pinned tensors on the GPU": 0},
         zh={"about": "文章把 pin_memory 列为 GPU 缓存的作用:锁页内存属于主机,不占用显存。",
             "bytes on the GPU": "GPU 上的字节数", "pinned tensors on the GPU": "位于 GPU 的锁页张量数"})
def pinned_memory_is_the_hosts():
    before = torch.cuda.memory_reserved()
    pinned = torch.ones(1 << 18).pin_memory()
    assert pinned.is_pinned()
    return {"bytes on the GPU": torch.cuda.memory_reserved() - before, "pinned tensors on the GPU": int(pinned.is_cuda)}


@snippet("D32", "matmuls", "Each thread computes one element of the product as the sum of a row times a column: element by element this is the"
         " product. That threads put results into shared memory is not so (lesson 42).", "runs", lesson="42", claims=("D-gemm-shared",),
         at_most={"deviation from the matmul": 1e-5}, cpp="kernels/sgemm/sgemm.cuh",
         zh={"about": "每个线程用一行乘一列之和算出结果的一个元素:逐个元素计算确实得到矩阵乘积。但线程并不会把结果放进共享内存(见第 42 课)。",
             "deviation from the matmul": "与矩阵乘法的偏差"})
def product_by_elements():
    torch.manual_seed(9)
    a, b = torch.randn(5, 7), torch.randn(7, 6)
    elements = torch.tensor([[(a[row] * b[:, column]).sum().item() for column in range(6)] for row in range(5)])
    return {"deviation from the matmul": deviation(elements, a @ b)}
