"""Article A, "PyTorch在GPU加速训练时有哪些优化技巧?": its snippets in the order in which it prints them, in lines of our own."""

import copy
import ctypes
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile

import torch
from torch import nn
from torch.nn import functional

from snippets import mended, snippet

BATCHES, SIZE = 12, 8


def a_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def some_batches(count=BATCHES, size=SIZE):
    generator = torch.Generator().manual_seed(2)
    return [(torch.randn(size, 6, generator=generator), torch.randint(0, 3, (size,), generator=generator)) for _ in range(count)]


def weights(model):
    return torch.cat([p.detach().flatten().cpu() for p in model.parameters()])


def distance(model, other):
    """Of the weights, relative to how far `other` has come from where both began."""
    return ((weights(model) - weights(other)).norm() / (weights(other) - weights(a_model())).norm()).item()


def trained(batches, device="cpu", rate=0.2):
    """What is meant wherever a snippet trains: SGD, an update for each (inputs, labels)."""
    model = a_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for inputs, labels in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs.to(device)), labels.to(device)).backward()
        optimizer.step()
    return model


def joined(batches, steps):
    """Groups of so many batches as one large batch each."""
    return [tuple(torch.cat(parts) for parts in zip(*batches[i:i + steps])) for i in range(0, len(batches), steps)]


# --- 1.1 memory ------------------------------------------------------------------------------------------------------

@snippet(item="A1", section="1.1", does="runs", gpus=1, lesson="03", cpp="lessons/03_memory_anatomy/lesson.cpp",
         about="Prints the allocated and the reserved memory of the GPU in GiB after a training loop.",
         claims=("A-regular-looks",), at_least={"MiB allocated": 4, "reserved / allocated": 1},
         zh={"about": "训练循环结束后,以 GiB 打印 GPU 已分配与已预留的显存。", "MiB allocated": "已分配 MiB",
             "reserved / allocated": "已预留 / 已分配"})
def memory_in_numbers():
    kept = torch.empty(1 << 20, device="cuda")
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    print(f"{allocated / 2**30} GiB allocated, {reserved / 2**30} GiB reserved, for {kept.numel()} numbers")
    return {"MiB allocated": allocated / 2**20, "reserved / allocated": reserved / allocated}


@snippet(item="A1.cpu", section="1.1", does="changes nothing", lesson="04", cpp="lessons/04_memory_leaks/lesson.cpp",
         about="The same lines where training runs on the CPU, with a list that keeps growing.", at_most={"bytes reported": 0},
         zh={"about": "同样的代码,但训练在 CPU 上进行,并且有一个不断增长的列表。", "bytes reported": "报告的字节数",
             "bytes kept": "实际占用的字节数"})
def memory_of_a_cpu():
    kept = [torch.ones(1 << 18) for _ in range(4)]
    return {"bytes reported": torch.cuda.memory_allocated(), "bytes kept": sum(t.nbytes for t in kept)}


def amp_epoch(model, optimizer, scaler, autocast, batches, device):
    seen = set()
    for inputs, labels in batches:
        optimizer.zero_grad()
        with autocast():
            outputs = model(inputs.to(device))
            loss = functional.cross_entropy(outputs, labels.to(device))
        seen.add(outputs.dtype)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return seen


def half_precision(device, scaler, autocast):
    model = a_model().to(device)
    seen = amp_epoch(model, torch.optim.SGD(model.parameters(), lr=0.2), scaler, autocast, some_batches(), device)
    reference = trained(some_batches(), device)
    return {"outputs in 16 bits": int(seen != {torch.float32}), "distance from float32": distance(model, reference)}


AMP_ZH = {"outputs in 16 bits": "输出是否为 16 位", "distance from float32": "与 float32 的相对距离"}


@snippet(item="A4", section="1.1", does="runs", gpus=1, lesson="21", cpp="lessons/21_mixed_precision/lesson.cpp",
         about="A training loop with torch.cuda.amp's autocast and gradient scaler.", warns="is deprecated",
         claims=("A-fp16-memory", "A-loss-scale"), at_least={"outputs in 16 bits": 1}, at_most={"distance from float32": 0.1},
         zh={"about": "用 torch.cuda.amp 的 autocast 和梯度缩放器写的训练循环。"} | AMP_ZH)
def old_amp_names():
    return half_precision("cuda", torch.cuda.amp.GradScaler(), torch.cuda.amp.autocast)


@snippet(item="A4.cpu", section="1.1", does="changes nothing", lesson="21",
         about="The same loop on a machine without a GPU.", warns="CUDA is not available",
         at_most={"outputs in 16 bits": 0, "distance from float32": 0}, cpp="lessons/21_mixed_precision/lesson.cpp",
         zh={"about": "同一个循环,在没有 GPU 的机器上运行。"} | AMP_ZH)
def old_amp_names_on_a_cpu():
    return half_precision("cpu", torch.cuda.amp.GradScaler(), torch.cuda.amp.autocast)


@mended("A4.cpu", at_least={"outputs in 16 bits": 1}, at_most={"distance from float32": 0.1})
def amp_that_names_its_device():
    scaler = torch.amp.GradScaler("cpu", enabled=False)  # bfloat16 has float32's range: nothing to scale
    return half_precision("cpu", scaler, lambda: torch.autocast("cpu", dtype=torch.bfloat16))


# --- 1.2 in place, accumulation --------------------------------------------------------------------------------------

def with_gradients():
    model = a_model()
    inputs, labels = some_batches(1)[0]
    functional.cross_entropy(model(inputs), labels).backward()
    return model


@snippet(item="A5", section="1.2", does="trains something else", lesson="23", cpp="lessons/23_in_place/lesson.cpp",
         about="The 'traditional' update: the name of a parameter is bound to parameter minus rate times gradient.",
         claims=("A-traditional-line",), at_least={"share of the update that is missing": 1.0},
         zh={"about": "“传统方式”的更新:把参数名重新绑定为“参数减学习率乘梯度”的结果。",
             "share of the update that is missing": "缺失的更新比例"})
def name_bound_again():
    model, before = with_gradients(), weights(a_model())
    for weight in model.parameters():
        weight = weight - 0.2 * weight.grad  # a new tensor, which nobody else knows
    meant = 0.2 * torch.cat([p.grad.flatten() for p in model.parameters()])
    return {"share of the update that is missing": 1 - ((weights(model) - before).norm() / meant.norm()).item()}


@snippet(item="A6", section="1.2", does="raises", lesson="23", cpp="lessons/23_in_place/lesson.cpp",
         about="The in-place update: rate times gradient is subtracted from the parameter itself.",
         claims=("A-in-place-line", "A-in-place-update-memory", "A-in-place-memory", "A-in-place-faster"), line="weight -= ",
         error=("RuntimeError", "a leaf Variable that requires grad is being used in an in-place operation"),
         zh={"about": "原地更新:直接从参数自身减去学习率乘梯度。"})
def parameter_changed_in_place():
    for weight in with_gradients().parameters():
        weight -= 0.2 * weight.grad


def updated_without_a_graph():
    model = with_gradients()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.2 * weight.grad
    return {"distance from SGD's update": distance(model, trained(some_batches(1)))}


mended("A5", at_most={"distance from SGD's update": 1e-6})(updated_without_a_graph)
mended("A6", at_most={"distance from SGD's update": 1e-6})(updated_without_a_graph)


def accumulated(batches, steps, rest=False):
    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    optimizer.zero_grad()
    for number, (inputs, labels) in enumerate(batches, 1):
        last = number == len(batches)
        group = len(batches) % steps if rest and number > len(batches) // steps * steps else steps
        (functional.cross_entropy(model(inputs), labels) / group).backward()
        if number % steps == 0 or rest and last:
            optimizer.step()
            optimizer.zero_grad()
    return model


LARGE_ZH = {"distance from the large batch": "与大批次训练的相对距离"}


@snippet(item="A9", section="1.2", does="runs", lesson="30", cpp="lessons/30_gradient_accumulation/lesson.cpp",
         about="Accumulation over four batches: the loss is divided by four, and every fourth batch updates and clears.",
         claims=("A-accumulation-quarter", "A-accumulation-faster"), at_most={"distance from the large batch": 1e-5},
         zh={"about": "累积四个批次:损失除以四,每到第四个批次更新参数并清零梯度。"} | LARGE_ZH)
def every_fourth_updates():
    return {"distance from the large batch": distance(accumulated(some_batches(), 4), trained(joined(some_batches(), 4)))}


@snippet(item="A9.rest", section="1.2", does="trains something else", lesson="30", cpp="lessons/30_gradient_accumulation/lesson.cpp",
         about="The same loop where the number of batches is no multiple of four: here an epoch of 10.",
         at_least={"share of the batches that train nothing": 0.19, "distance from the large batch": 0.01},
         zh={"about": "同一个循环,但批次数不是四的倍数:这里一个 epoch 有 10 个批次。",
             "share of the batches that train nothing": "未参与训练的批次比例"} | LARGE_ZH)
def two_batches_are_left():
    batches = some_batches(10)
    model = accumulated(batches, 4)
    unused = distance(model, accumulated(batches[:8], 4)) == 0  # the last two change nothing
    return {"share of the batches that train nothing": 0.2 if unused else 0.0,
            "distance from the large batch": distance(model, trained(joined(batches, 4)))}


@mended("A9.rest", at_most={"distance from the large batch": 1e-5})
def the_rest_is_a_group_of_its_own():
    batches = some_batches(10)
    return {"distance from the large batch": distance(accumulated(batches, 4, rest=True), trained(joined(batches, 4)))}


# --- 2.1 several GPUs ------------------------------------------------------------------------------------------------

def wrapped_training(device=None):
    model = a_model()
    if device:
        model.to(device)
    model = nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for inputs, labels in some_batches():
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels.to(outputs.device))
        loss.backward()
        optimizer.step()
    return model


@snippet(item="A16", section="2.1", does="changes nothing", lesson="51", cpp="lessons/51_data_parallel/data_parallel.h",
         about="A small model is wrapped in DataParallel and trained; it is never moved to a GPU (here: no GPU in the machine).",
         at_most={"distance from training without it": 0, "parameters on a GPU": 0}, claims=("A-data-parallel", "A-replicas-equal"),
         zh={"about": "把一个小模型包进 DataParallel 训练,但从未移到 GPU 上(这里:机器没有 GPU)。",
             "distance from training without it": "与不用它时的相对距离", "parameters on a GPU": "GPU 上的参数个数"})
def data_parallel_without_a_gpu():
    model = wrapped_training()
    return {"distance from training without it": distance(model, trained(some_batches())),
            "parameters on a GPU": sum(p.is_cuda for p in model.parameters())}


@snippet(item="A17", section="2.1", does="raises", gpus=2, lesson="51", cpp="lessons/51_data_parallel/data_parallel.h",
         about="The same lines on a machine with two GPUs: still nothing moves the model.", line="outputs = model(inputs)",
         error=("RuntimeError", "module must have its parameters and buffers on device cuda:0"),
         zh={"about": "同样的代码,在有两块 GPU 的机器上:模型仍然没有被移动。"})
def data_parallel_of_a_model_on_the_host():
    model = nn.DataParallel(a_model())
    for inputs, labels in some_batches():
        outputs = model(inputs)
        functional.cross_entropy(outputs, labels).backward()


@mended("A17", at_most={"distance from one large batch": 1e-5}, at_least={"GPUs that computed": 2})
def one_replica_on_each_gpu():
    """What lesson 52's DDP does, in one process: each GPU keeps its replica, the gradients are averaged, both update."""
    replicas = [a_model().to(f"cuda:{rank}") for rank in range(2)]
    optimizers = [torch.optim.SGD(replica.parameters(), lr=0.2) for replica in replicas]
    for inputs, labels in some_batches():
        for rank, replica in enumerate(replicas):
            optimizers[rank].zero_grad()
            part = slice(rank, None, 2)
            functional.cross_entropy(replica(inputs[part].to(f"cuda:{rank}")), labels[part].to(f"cuda:{rank}")).backward()
        for pair in zip(*(replica.parameters() for replica in replicas)):
            mean = sum(weight.grad.cpu() for weight in pair) / 2
            for weight in pair:
                weight.grad.copy_(mean)
        for optimizer in optimizers:
            optimizer.step()
    return {"distance from one large batch": max(distance(replica, trained(some_batches())) for replica in replicas),
            "GPUs that computed": len({p.device for replica in replicas for p in replica.parameters()})}


# --- 2.2 a kernel of one's own ---------------------------------------------------------------------------------------

INCLUDE = pathlib.Path(torch.__file__).parent / "include"
LINES = {"printed": "at::TensorBase a(const at::TensorBase& input) { return at::detail::empty_cpu(input.size(), input.options()); }",
         "right": "at::TensorBase b(const at::TensorBase& input) { return at::detail::empty_cpu(input.sizes(), input.options()); }"}


@functools.cache
def compiler_errors():
    """Of both lines, from one call, which only checks: reading LibTorch's headers takes longest."""
    compiler = next(found for name in ("c++", "g++", "clang++") if (found := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "binding.cpp"
        source.write_text("#include <ATen/EmptyTensor.h>\n" + "\n".join(LINES.values()) + "\n")
        call = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-w", "-I", INCLUDE, source], capture_output=True, text=True)
    errors = re.findall(r"binding\.cpp:(\d+):\d+: (?:fatal )?error: (.*)", call.stderr)
    return {name: [text for line, text in errors if int(line) == number] for number, name in enumerate(LINES, 2)} | {
        "elsewhere": [text for line, text in errors if int(line) not in (2, 3)]}


@snippet(item="A20", section="2.2", does="raises", lesson="43", cpp="kernels/bias_gelu/bias_gelu_torch.cpp",
         about="A C++ function that allocates an output as large as its input and launches a CUDA kernel; the size comes from size() without a dimension.",
         error=("SyntaxError", "size"), line="raise SyntaxError", claims=("A-custom-kernels",),
         zh={"about": "一个 C++ 函数,分配与输入一样大的输出并启动 CUDA 核函数;大小取自不带维度的 size()。"})
def size_without_a_dimension():
    for error in compiler_errors()["printed"]:
        raise SyntaxError(f"{error} in: input.size()")


@mended("A20", at_most={"errors": 0})
def sizes_of_all_dimensions():
    return {"errors": len(compiler_errors()["right"] + compiler_errors()["elsewhere"])}


@snippet(item="A20.name", section="2.2", does="raises", lesson="43", cpp="kernels/bias_gelu/bias_gelu_torch.cpp",
         about="The text names torch::autograd::KernelFunction as what registers a kernel.",
         error=("LookupError", "declares no KernelFunction"), line="raise LookupError(",
         zh={"about": "正文说用 torch::autograd::KernelFunction 注册核函数。"})
def a_class_that_no_header_declares():
    headers = (INCLUDE / "torch" / "csrc" / "autograd").rglob("*.h")
    if not any(re.search(r"(class|struct|using)\s+(\w+\s+)?KernelFunction\b", header.read_text()) for header in headers):
        raise LookupError("torch/csrc/autograd declares no KernelFunction")


@mended("A20.name", at_most={"difference of the gradient": 1e-12})
def an_operator_with_its_derivative():
    """In C++ the same registration is TORCH_LIBRARY and torch::autograd::Function."""
    @torch.library.custom_op("tenfold_articles::cubed", mutates_args=())
    def cubed(x: torch.Tensor) -> torch.Tensor:
        return x**3

    cubed.register_autograd(lambda ctx, upper: upper * 3 * ctx.saved_tensors[0]**2,
                            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    torch.ops.tenfold_articles.cubed(x).sum().backward()
    return {"difference of the gradient": (x.grad - 3 * x.detach()**2).abs().max().item()}


def compiled_for_a_gpu(body):
    """NVRTC compiles for a GPU without one; raises its first error."""
    package = pathlib.Path(torch.__file__).parents[1] / "nvidia"
    nvrtc = ctypes.CDLL(str(next(package.rglob("libnvrtc.so.*"))))
    program, text = ctypes.c_void_p(), f"extern \"C\" __global__ void k(float* x) {{ x[threadIdx.x] = {body}; }}".encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"k.cu", 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, 0, None)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        raise SyntaxError(log.value.decode().splitlines()[0].split("error: ")[-1])
    return {"errors": 0}


@snippet(item="A25", section="2.2", does="raises", lesson="47", cpp="kernels/fast_math/fast_math.cuh",
         about="The text recommends CUDA's built-in functions under the names __sin__ and __cos__.",
         error=("SyntaxError", "__sin__"), line="__sin__", claims=("A-intrinsics", "A-contiguous", "A-shared-memory"),
         zh={"about": "正文推荐 CUDA 内置函数,写作 __sin__ 和 __cos__。"})
def names_with_underscores_on_both_sides():
    return compiled_for_a_gpu("__sin__(x[threadIdx.x])")


@mended("A25", at_most={"errors": 0})
def the_intrinsics_names():
    return compiled_for_a_gpu("__sinf(x[threadIdx.x]) + __cosf(x[threadIdx.x])")


# --- 3.2 accumulation again ------------------------------------------------------------------------------------------

@snippet(item="A30", section="3.2", does="raises", lesson="30", cpp="lessons/30_gradient_accumulation/lesson.cpp",
         about="Accumulation in a loop without enumerate: the number of the batch that decides on the update is never set.",
         error=("NameError", "is not defined"), line="if (batch_number + 1)", claims=("A-accumulation-cleared",),
         zh={"about": "没有 enumerate 的累积循环:决定何时更新的批次编号从未赋值。"})
def number_never_set():
    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for inputs, labels in some_batches():
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        if (batch_number + 1) % 4 == 0:  # noqa: F821 - this is what is shown
            optimizer.step()


@snippet(item="A31", section="3.2", does="trains something else", lesson="30", cpp="lessons/30_gradient_accumulation/lesson.cpp",
         about="The same loop with the number set: it clears the gradients for each batch and never divides the loss.",
         claims=("A-accumulation-cleared",), at_most={"distance from every fourth batch alone": 0},
         at_least={"distance from the large batch": 0.2},
         zh={"about": "给编号赋值后的同一循环:每个批次都清零梯度,损失也从不除以步数。",
             "distance from every fourth batch alone": "与只用每第四个批次训练的相对距离"} | LARGE_ZH)
def cleared_for_every_batch():
    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for number, (inputs, labels) in enumerate(some_batches()):
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        if (number + 1) % 4 == 0:
            optimizer.step()
    return {"distance from the large batch": distance(model, trained(joined(some_batches(), 4))),
            "distance from every fourth batch alone": distance(model, trained(some_batches()[3::4]))}


def cleared_once_for_each_update():
    return {"distance from the large batch": distance(accumulated(some_batches(), 4, rest=True), trained(joined(some_batches(), 4)))}


mended("A30", at_most={"distance from the large batch": 1e-5})(cleared_once_for_each_update)
mended("A31", at_most={"distance from the large batch": 1e-5})(cleared_once_for_each_update)


# --- 4.1 mixed precision, 4.2 tools ----------------------------------------------------------------------------------

@snippet(item="A32", section="4.1", does="runs", gpus=1, lesson="21", cpp="lessons/21_mixed_precision/lesson.cpp",
         about="The loop of 1.1 again, with autocast and GradScaler imported from torch.cuda.amp by name.", warns="is deprecated",
         claims=("A-fp16-speed", "A-fp16-quality", "A-fp16-memory"), at_least={"outputs in 16 bits": 1},
         at_most={"distance from float32": 0.1},
         zh={"about": "再次给出 1.1 的循环,从 torch.cuda.amp 按名导入 autocast 和 GradScaler。"} | AMP_ZH)
def amp_imported_by_name():
    from torch.cuda.amp import GradScaler, autocast
    return half_precision("cuda", GradScaler(), autocast)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        return index


@snippet(item="A37", section="4.2", does="runs", lesson="10", cpp="lessons/10_parallel_loading/workers.h", claims=("A-workers",),
         about="A DataLoader of batches of 64, shuffled, with four worker processes.",
         at_most={"samples lost or repeated": 0, "samples in the last batch": 8}, at_least={"samples in the last batch": 8},
         zh={"about": "一个 DataLoader:批大小 64,打乱顺序,四个工作进程。", "samples lost or repeated": "丢失或重复的样本数",
             "samples in the last batch": "最后一批的样本数"})
def four_workers():
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=64, shuffle=True, num_workers=4)
    batches = [batch.tolist() for batch in loader]
    seen = [index for batch in batches for index in batch]
    return {"samples lost or repeated": abs(len(seen) - 200) + 200 - len(set(seen)), "samples in the last batch": len(batches[-1])}


@snippet(item="A38", section="4.2", does="runs", about="The gradient of a vector's square, with a vector of ones given to backward().",
         at_most={"difference from 2x": 0}, zh={"about": "对向量的平方求梯度,向 backward() 传入全一向量。", "difference from 2x": "与 2x 之差"})
def square_of_a_vector():
    x = torch.tensor([3.0, -1.0, 0.5], requires_grad=True)
    squared = x * x
    squared.backward(torch.ones(3))  # a vector-Jacobian product: squared.sum().backward() does the same
    return {"difference from 2x": (x.grad - 2 * x.detach()).abs().max().item()}


@snippet(item="A38.scalar", section="4.2", does="raises", line="(x * x).backward()",
         about="What the same lines do without that vector, which the text does not explain.",
         error=("RuntimeError", "grad can be implicitly created only for scalar outputs"),
         zh={"about": "同样的代码,若不传该向量会怎样;正文没有解释这个参数。"})
def backward_of_a_vector():
    x = torch.tensor([3.0, -1.0, 0.5], requires_grad=True)
    (x * x).backward()


@mended("A38.scalar", at_most={"difference from 2x": 0})
def backward_of_a_sum():
    x = torch.tensor([3.0, -1.0, 0.5], requires_grad=True)
    (x * x).sum().backward()
    return {"difference from 2x": (x.grad - 2 * x.detach()).abs().max().item()}


@snippet(item="A40", section="4.2", does="runs", lesson="31", cpp="lessons/31_activation_checkpointing/checkpoint.h",
         claims=("A-checkpointing",), about="The text names torch.utils.checkpoint, without a line of code, for very deep networks.",
         at_most={"distance of the gradients": 1e-6, "kept with it / without": 0.5},
         zh={"about": "正文提到用 torch.utils.checkpoint 训练很深的网络,但没有代码。", "distance of the gradients": "梯度的相对距离",
             "kept with it / without": "保存的字节:使用 / 不使用"})
def recomputed_activations():
    from torch.utils.checkpoint import checkpoint
    blocks = [copy.deepcopy(a_model()[:2]).append(nn.Linear(16, 6)) for _ in range(6)]
    gradients, kept = [], []
    for recompute in (False, True):
        held = []
        x = some_batches(1)[0][0].requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(t.nbytes) or t, lambda t: t):
            y = x
            for block in blocks:
                y = checkpoint(block, y, use_reentrant=False) if recompute else block(y)
        kept.append(sum(held))
        y.sum().backward()
        gradients.append(x.grad)
    return {"distance of the gradients": ((gradients[1] - gradients[0]).norm() / gradients[0].norm()).item(),
            "kept with it / without": kept[1] / kept[0]}
