"""Article B: ten times as fast with PyTorch Lightning. It prints its code as pictures: what each flag of the Trainer does
is written here in plain PyTorch, since Lightning is no package of ours."""

import math
import os
import random

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torch.utils.data.distributed import DistributedSampler

from ranks import on_ranks
from snippets import mended, snippet

WORKERS = 2


class Numbers(Dataset):
    """Sample i is i."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor(index)


class Crops(Dataset):
    """Where a random crop of each image begins; `draw` takes the number from some generator."""

    def __init__(self, count, draw):
        self.count, self.draw = count, draw

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor(self.draw(), dtype=torch.float64)


def values(loader):
    return [number for batch in loader for number in batch.tolist()]


def repeated(numbers):
    """The share of numbers that came before."""
    return 1 - len(set(numbers)) / len(numbers)


# --- the figures at the beginning -----------------------------------------------------------------------------------


@snippet(item="B1", section="introduction", does="runs", lesson="03",
         about="AlexNet has 60 million parameters and the BERT that was trained in 44 minutes 350 million: counted from the"
               " models' published shapes.",
         zh={"about": "文中说 AlexNet 有 6000 万参数,44 分钟训练完的 BERT 有 3.5 亿参数:按公开的网络形状数一遍。",
             "AlexNet, million parameters": "AlexNet,百万参数", "BERT-Large, million parameters": "BERT-Large,百万参数"})
def published_models():
    convolutions = [(3, 96, 11, 1), (96, 256, 5, 2), (256, 384, 3, 1), (384, 384, 3, 2), (384, 256, 3, 2)]
    linear = [(6 * 6 * 256, 4096), (4096, 4096), (4096, 1000)]
    alexnet = sum(outputs * (inputs // groups * side * side + 1) for inputs, outputs, side, groups in convolutions)
    alexnet += sum(outputs * (inputs + 1) for inputs, outputs in linear)
    width, norm = 1024, 2 * 1024
    block = 4 * width * (width + 1) + 4 * width * (width + 1) + width * (4 * width + 1) + 2 * norm
    bert = 24 * block + (30522 + 512 + 2) * width + norm + width * (width + 1)
    return {"AlexNet, million parameters": round(alexnet / 1e6, 1), "BERT-Large, million parameters": round(bert / 1e6, 1)}


# --- parallel loading -----------------------------------------------------------------------------------------------


@snippet(item="B5", section="parallel loading", does="runs", lesson="10",
         about="num_workers of the DataLoader is the number of CPUs: the batches are those of the loader without workers, in"
               " the same order.",
         at_most={"batches that differ": 0}, cpp="lessons/10_parallel_loading/workers.h", claims=("B-workers",),
         zh={"about": "DataLoader 的 num_workers 设为 CPU 数量:得到的批与不用工作进程时相同,顺序也相同。", "batches that differ": "不同的批数"})
def as_many_workers_as_cores():
    cores = min(len(os.sched_getaffinity(0)), 4)  # os.cpu_count() also counts cores that a container may not use
    loaded = values(DataLoader(Numbers(32), batch_size=4, num_workers=cores))
    assert loaded == values(DataLoader(Numbers(32), batch_size=4))
    return {"batches that differ": 0}


@snippet(item="B6", section="parallel loading", does="changes nothing", lesson="11", warns="no accelerator is found",
         about="pin_memory=True puts batches into page-locked memory, from which the copy to the GPU is faster. Without a GPU nothing is"
               " pinned; with one the copy still makes the host wait unless it is called with non_blocking=True, of which nothing is said.",
         at_most={"pinned batches": 0}, cpp="lessons/11_pinned_loading/pinned_staging.h", claims=("B-pinned",),
         zh={"about": "pin_memory=True 把批放进锁页内存,向 GPU 传输更快。没有 GPU 时什么也不会锁页;有 GPU 时,拷贝若不写 non_blocking=True,主机仍要等待,文章没有提到这一点。",
             "pinned batches": "锁页的批数"})
def pinned_batches():
    return {"pinned batches": sum(batch.is_pinned() for batch in DataLoader(torch.arange(8.0), batch_size=4, pin_memory=True))}


@mended("B6", at_most={"sums that differ": 0})
def pinned_and_not_awaited():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    (batch,) = DataLoader(torch.arange(8.0), batch_size=8, pin_memory=device == "cuda")
    moved = batch.to(device, non_blocking=True)  # the copy is queued, and the host goes on
    return {"sums that differ": int(not torch.equal((moved + 1).cpu(), batch + 1))}


class WholeStream(IterableDataset):
    def __iter__(self):
        return iter(range(40))


class SharedStream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        return iter(range(40) if worker is None else range(worker.id, 40, worker.num_workers))


@snippet(item="B7", section="parallel loading", does="trains something else", lesson="13", at_least={"repeated samples": 0.5},
         about="an IterableDataset as it is, with two workers; the article warns that each worker has to be configured, and"
               " this is what happens otherwise.",
         cpp="lessons/13_sharded_stream/stream_loader.h", claims=("B-iterable",),
         zh={"about": "IterableDataset 不做任何设置,配两个工作进程;文章提醒要设置每个进程,这就是不设置的后果。", "repeated samples": "重复样本的比例"})
def stream_without_shards():
    return {"repeated samples": repeated(values(DataLoader(WholeStream(), batch_size=4, num_workers=WORKERS)))}


@mended("B7", at_most={"samples not seen once": 0})
def stream_with_shards():
    seen_here = values(DataLoader(SharedStream(), batch_size=4, num_workers=WORKERS))
    return {"samples not seen once": sum(seen_here.count(i) != 1 for i in range(40))}


@snippet(item="B8a", section="parallel loading", does="trains something else", lesson="10", at_least={"repeated crops": 0.4},
         about="the bug that B names: workers that draw from a generator of the data set's own, without a seed for each, all"
               " draw the same numbers. PyTorch seeds its own generator, Python's and NumPy's global ones in each worker by itself.",
         cpp="lessons/10_parallel_loading/sample_random.h", claims=("B-worker-seeds",),
         zh={"about": "文章所说的种子错误:工作进程使用数据集自己的随机数生成器,又没有各自的种子,于是抽到同样的数。PyTorch 自己会为每个进程设置 torch、random 和 NumPy 全局生成器的种子。",
             "repeated crops": "重复裁剪的比例"})
def one_generator_for_all_workers():
    generator = numpy.random.default_rng(5)

    def draw():
        return [generator.random(), torch.rand(()).item(), random.random(), numpy.random.random()]

    own, *seeded = zip(*values(DataLoader(Crops(64, draw), batch_size=4, num_workers=WORKERS)))
    assert all(repeated(numbers) < 0.1 for numbers in seeded)
    return {"repeated crops": repeated(own)}


class OwnGenerator(Crops):
    def __init__(self, count):
        super().__init__(count, self.number)
        self.generator = numpy.random.default_rng(5)

    def number(self):
        return self.generator.random()


def seed_worker(worker):
    """torch.initial_seed() is another one in each worker, and in each epoch."""
    get_worker_info().dataset.generator = numpy.random.default_rng(torch.initial_seed())


@mended("B8a", at_most={"repeated crops": 0})
def a_generator_for_each_worker():
    loader = DataLoader(OwnGenerator(64), batch_size=4, num_workers=WORKERS, worker_init_fn=seed_worker)
    return {"repeated crops": repeated(values(loader) + values(loader))}


def constant_seed(worker):
    torch.manual_seed(123 + worker)


@snippet(item="B8b", section="parallel loading", does="trains something else", lesson="10",
         at_least={"crops of the first epoch again": 1.0},
         about="a seed for each worker process, set in worker_init_fn: as a constant plus the worker's number it differs between"
               " workers, but workers start again in each epoch, and so do their numbers.",
         cpp="lessons/10_parallel_loading/sample_random.h", claims=("B-worker-seeds",),
         zh={"about": "在 worker_init_fn 里为每个进程设置种子:若写成“常数加进程号”,进程之间不同,但每个 epoch 进程重新启动,随机数也从头再来。",
             "crops of the first epoch again": "与第一个 epoch 相同的裁剪比例"})
def same_crops_in_each_epoch():
    loader = DataLoader(Crops(32, lambda: torch.rand(()).item()), batch_size=4, num_workers=WORKERS, worker_init_fn=constant_seed)
    first, second = values(loader), values(loader)
    return {"crops of the first epoch again": sum(a == b for a, b in zip(first, second)) / len(first)}


@mended("B8b", at_most={"repeated crops": 0, "crops that another run has not": 0})
def other_crops_in_each_epoch():
    torch.manual_seed(123)  # repeats the run; the loader draws a base seed from it for each epoch
    loader = DataLoader(Crops(32, lambda: torch.rand(()).item()), batch_size=4, num_workers=WORKERS)
    first, second = values(loader), values(loader)
    torch.manual_seed(123)
    again = values(loader)
    return {"repeated crops": repeated(first + second), "crops that another run has not": sum(a != b for a, b in zip(first, again))}


@snippet(item="B8c", section="parallel loading", does="runs", lesson="10",
         about="Lightning's seed_everything(123, workers=True): it seeds Python, NumPy and PyTorch, and gives each worker a seed"
               " made of the run's, the worker's and the rank's; in our lines.",
         at_most={"repeated crops": 0},
         zh={"about": "Lightning 的 seed_everything(123, workers=True):为 Python、NumPy 和 PyTorch 设置种子,并用运行、进程和 rank 的编号为每个工作进程生成种子;这里用我们自己的几行写出。",
             "repeated crops": "重复裁剪的比例"})
def everything_seeded():
    def seed_process(worker):
        base = torch.initial_seed() - worker
        for state, seed in zip((torch.manual_seed, random.seed, numpy.random.seed),
                               numpy.random.SeedSequence([base, worker, 0]).generate_state(3).tolist()):
            state(seed)

    def epoch():
        random.seed(123), numpy.random.seed(123), torch.manual_seed(123)
        loader = DataLoader(Crops(32, lambda: torch.rand(()).item()), batch_size=4, num_workers=WORKERS, worker_init_fn=seed_process)
        return values(loader)

    drawn = epoch()
    assert epoch() == drawn
    return {"repeated crops": repeated(drawn)}


class CountedBatches:
    """A batch sampler that counts what the loader has asked for."""

    def __init__(self):
        self.asked = 0

    def __iter__(self):
        for first in range(0, 64, 2):
            self.asked += 1
            yield [first, first + 1]


@snippet(item="B9a", section="parallel loading", does="runs", lesson="10",
         about="a larger prefetch_factor has more batches ready, and takes more memory: batches asked of two workers before the"
               " training has taken the first.",
         at_least={"batches ahead, prefetch_factor=8": 16}, at_most={"batches ahead, prefetch_factor=2": 4}, cpp="lessons/10_parallel_loading/loader.h",
         zh={"about": "prefetch_factor 越大,提前备好的批越多,占用内存也越大:训练取第一批之前,已向两个进程要了多少批。",
             "batches ahead, prefetch_factor=2": "prefetch_factor=2 时提前的批数", "batches ahead, prefetch_factor=8": "prefetch_factor=8 时提前的批数"})
def batches_ahead():
    asked = {}
    for factor in (2, 8):
        sampler = CountedBatches()
        iterator = iter(DataLoader(Numbers(64), batch_sampler=sampler, num_workers=WORKERS, prefetch_factor=factor))
        asked[f"batches ahead, prefetch_factor={factor}"] = sampler.asked
        del iterator
    assert list(asked.values()) == [2 * WORKERS, 8 * WORKERS]
    return asked


@snippet(item="B9b", section="parallel loading", does="raises", lesson="10", error=("ValueError", "prefetch_factor option could only"),
         about="prefetch_factor alone, in a loader without workers.",
         line="DataLoader(Numbers(8), prefetch_factor=4)", cpp="lessons/10_parallel_loading/loader.h",
         zh={"about": "只写 prefetch_factor,却没有工作进程。"})
def prefetch_without_workers():
    DataLoader(Numbers(8), prefetch_factor=4)


@mended("B9b", at_most={"samples that differ": 0})
def prefetch_with_workers():
    loaded = values(DataLoader(Numbers(8), num_workers=1, prefetch_factor=4))
    return {"samples that differ": sum(a != b for a, b in zip(loaded, range(8)))}


# --- several GPUs ---------------------------------------------------------------------------------------------------


class Watched(nn.Linear):
    """A linear layer that notes how many rows each call gets."""

    def __init__(self):
        super().__init__(4, 2)
        self.rows = []

    def forward(self, x):
        self.rows.append(len(x))
        return super().forward(x)


@snippet(item="B10", section="several GPUs", does="changes nothing", lesson="51", claims=("B-ddp-scalable",),
         about="DataParallel, the less scalable of the two: without a GPU it silently calls the model once, with the whole batch.",
         at_most={"calls of the model beyond the first": 0}, cpp="lessons/51_data_parallel/data_parallel.h",
         zh={"about": "DataParallel(两种方式中扩展性较差的一种):没有 GPU 时,它不声不响地把整批交给模型调用一次。",
             "calls of the model beyond the first": "第一次之外的模型调用", "rows in a call": "一次调用的行数"})
def data_parallel_on_a_cpu():
    model = Watched()
    nn.DataParallel(model)(torch.ones(8, 4))
    return {"calls of the model beyond the first": len(model.rows) - 1, "rows in a call": model.rows[0]}


def gradient_of(model, samples):
    model.zero_grad()
    model(samples).square().mean().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def small_model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def all_samples():
    return torch.randn(16, 8, generator=torch.Generator().manual_seed(4))


def ddp_share(rank, ranks):
    model = DistributedDataParallel(small_model())
    return gradient_of(model, all_samples().chunk(ranks)[rank]).tolist()


@snippet(item="B11", section="several GPUs", does="runs", lesson="52",
         about="DistributedDataParallel, the Trainer's strategy \"ddp\", in plain lines on two processes: after the backward pass"
               " each has the full batch's gradients.",
         at_least={"ranks with the full batch's gradients": 2}, cpp="lessons/52_ddp/ddp.h", claims=("B-ddp", "DDP-scaling"),
         zh={"about": "DistributedDataParallel,即 Trainer 的策略 \"ddp\",用普通代码在两个进程上运行:反向之后,每个进程都有整批的梯度。",
             "ranks with the full batch's gradients": "得到整批梯度的 rank 数"})
def ddp_gradients():
    expected = gradient_of(small_model(), all_samples())
    for gradient in on_ranks(ddp_share):
        torch.testing.assert_close(torch.tensor(gradient), expected)  # the same sums, in two halves
    return {"ranks with the full batch's gradients": 2}


def seen(rank, ranks, epochs, sampler_of):
    """The samples that a rank trains on, a list for each epoch."""
    data, orders = Numbers(16), []
    sampler = sampler_of(data, ranks, rank)
    for epoch in range(epochs):
        if sampler_of is sampler_told:
            sampler.set_epoch(epoch)
        torch.manual_seed(epoch)  # the run's seed is the same on all ranks
        orders.append(values(DataLoader(data, batch_size=2, sampler=sampler, shuffle=sampler is None)))
    return orders


def no_sampler(data, ranks, rank):
    return None


def sampler_untold(data, ranks, rank):
    return DistributedSampler(data, ranks, rank)


def sampler_told(data, ranks, rank):
    return DistributedSampler(data, ranks, rank)


@snippet(item="B12a", section="several GPUs", does="trains something else", lesson="52", at_least={"work done twice": 0.5},
         about="\"hardly a change to the code\": Lightning puts a DistributedSampler into the loader. With DDP and the loader as it"
               " was, each process trains on all samples.",
         cpp="lessons/52_ddp/distributed_sampler.h",
         zh={"about": "“几乎不用改代码”:Lightning 会给 loader 装上 DistributedSampler。只用 DDP 而 loader 不变,每个进程都会训练全部样本。", "work done twice": "重复劳动的比例"})
def ranks_without_sampler():
    (first,), (second,) = (seen(rank, 2, 1, no_sampler) for rank in range(2))
    return {"work done twice": repeated(first + second)}


@snippet(item="B12b", section="several GPUs", does="trains something else", lesson="52",
         at_least={"epochs in the first one's order": 1.0},
         about="with the sampler, but without set_epoch, which Lightning calls, too: each epoch has the same order, shuffle or not.",
         cpp="lessons/52_ddp/distributed_sampler.h",
         zh={"about": "有 sampler,但没有调用 set_epoch(Lightning 也会代劳):无论是否打乱,每个 epoch 的次序都一样。",
             "epochs in the first one's order": "与第一个 epoch 次序相同的 epoch 比例"})
def sampler_without_epoch():
    orders = seen(0, 2, 4, sampler_untold)
    return {"epochs in the first one's order": sum(order == orders[0] for order in orders[1:]) / 3}


@mended("B12a", at_most={"samples not seen once": 0})
@mended("B12b", at_most={"samples not seen once": 0, "epochs in the first one's order": 0})
def sampler_with_epoch():
    first, second = (seen(rank, 2, 2, sampler_told) for rank in range(2))
    return {"samples not seen once": sum((a + b).count(i) != 1 for a, b in zip(first, second) for i in range(16)),
            "epochs in the first one's order": int(first[0] == first[1])}


# --- mixed precision ------------------------------------------------------------------------------------------------


@snippet(item="B14a", section="mixed precision", does="runs", lesson="21",
         about="the Trainer's precision flag, as autocast: matmuls in 16 bits, the loss and all parameters in 32.",
         at_most={"parameters in 16 bits": 0}, cpp="lessons/21_mixed_precision/autocast.h", claims=("B-amp-speed", "B-amp-quality"),
         zh={"about": "Trainer 的精度标志,用 autocast 写出:矩阵乘法用 16 位,损失和全部参数仍是 32 位。", "parameters in 16 bits": "16 位的参数数"})
def sixteen_bits_where_possible():
    model, samples = small_model(), all_samples()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model(samples)
        loss = F.mse_loss(outputs, torch.zeros(16, 1))
    loss.backward()
    assert outputs.dtype == torch.bfloat16 and loss.dtype == torch.float32
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in model.parameters())
    return {"parameters in 16 bits": 0}


def fp16_gradients(scale):
    """The gradient of the first layer, from a loss whose gradients are small, as late in a training."""
    model, samples = small_model(), all_samples()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = (model(samples).float().square().mean() * 1e-6)
    (loss * scale).backward()
    return model[0].weight.grad / scale


@snippet(item="B14b", section="mixed precision", does="trains something else", lesson="21", at_least={"gradients lost to zero": 0.5},
         about="\"hardly a change\": the flag also brings a loss scaler. With autocast to float16 alone small gradients become zero.",
         cpp="lessons/21_mixed_precision/grad_scaler.h", claims=("A-loss-scale",),
         zh={"about": "“只需最少的修改”:这个标志还带来损失缩放。只写 float16 的 autocast,小梯度会变成零。", "gradients lost to zero": "变为零的梯度比例"})
def fp16_without_scaler():
    return {"gradients lost to zero": (fp16_gradients(1.0) == 0).float().mean().item()}


@mended("B14b", at_most={"deviation of the gradients": 0.01})
def fp16_with_scale():
    model = small_model()
    (model(all_samples()).square().mean() * 1e-6).backward()
    exact = model[0].weight.grad
    # float16 keeps 11 bits of each product
    return {"deviation of the gradients": ((fp16_gradients(65536.0) - exact).norm() / exact.norm()).item()}


# --- early stopping -------------------------------------------------------------------------------------------------


def overfit(patience, keep_best):
    """Gradient descent on few noisy samples until the held-out loss has not fallen for `patience` evaluations; the held-out
    loss of the model that is left, the best one's, and how many evaluations were made of 400."""
    generator = torch.Generator().manual_seed(6)
    truth = torch.randn(40, generator=generator)
    inputs, held_out = torch.randn(30, 40, generator=generator), torch.randn(400, 40, generator=generator)
    targets = inputs @ truth + 6 * torch.randn(30, generator=generator)
    weights = torch.zeros(40)
    best_loss, best, waited = math.inf, None, 0
    for evaluation in range(400):
        loss = (held_out @ (weights - truth)).square().mean().item()
        waited += 1
        if loss < best_loss:
            best_loss, best, waited = loss, weights.clone(), 0
        if waited >= patience:
            break
        for _ in range(5):
            weights -= 0.02 * inputs.T @ (inputs @ weights - targets) / 30
    if keep_best:
        weights = best
    return (held_out @ (weights - truth)).square().mean().item(), best_loss, evaluation


@snippet(item="B17", section="early stopping", does="trains something else", lesson="60", at_least={"held-out loss above the best": 0.01},
         about="a callback that ends the training when the validation loss has stopped falling for a number of evaluations, and the"
               " best model is said to be found: the weights that are left are the last ones.",
         cpp="lessons/60_early_stopping/early_stopping.h", claims=("B-early-stopping-time", "B-early-stopping-quality"),
         zh={"about": "验证损失在若干次评估内不再下降就结束训练的回调,文中说由此找到最佳模型:但留下的是最后的权重。",
             "held-out loss above the best": "留出集损失高出最佳值的比例"})
def stopped_with_the_last_weights():
    left, best, evaluations = overfit(patience=30, keep_best=False)
    assert evaluations < 399
    return {"held-out loss above the best": left / best - 1}


@mended("B17", at_most={"held-out loss above the best": 0})
def stopped_with_the_best_weights():
    left, best, evaluations = overfit(patience=30, keep_best=True)
    assert evaluations < 399
    return {"held-out loss above the best": left / best - 1}


# --- sharding -------------------------------------------------------------------------------------------------------


def sharded_updates(rank, ranks):
    model = DistributedDataParallel(small_model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2)
    for _ in range(3):
        gradient_of(model, all_samples().chunk(ranks)[rank])
        optimizer.step()
    held = sum(v.nbytes for state in optimizer.optim.state.values() for v in state.values() if v.dim() > 0)
    return [torch.cat([p.detach().flatten() for p in model.parameters()]).tolist(), held]


@snippet(item="B18", section="sharding", does="runs", lesson="33",
         about="the Trainer's sharded strategy, as PyTorch's ZeroRedundancyOptimizer on two processes: each keeps the optimizer"
               " state of a part of the parameters, and the updates are the same.",
         at_most={"largest share of the optimizer state on a rank": 0.8}, cpp="lessons/33_optimizer_memory/state_bytes.h",
         zh={"about": "Trainer 的分片策略,用 PyTorch 的 ZeroRedundancyOptimizer 在两个进程上写出:每个进程只保存一部分参数的优化器状态,更新结果相同。整个张量为单位分配,因此小模型分得不均。",
             "largest share of the optimizer state on a rank": "单个 rank 上优化器状态的最大比例"})
def sharded_training():
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        gradient_of(model, all_samples())
        optimizer.step()
    whole = 8 * sum(p.numel() for p in model.parameters())
    expected = torch.cat([p.detach().flatten() for p in model.parameters()])
    held = []
    for parameters, state in on_ranks(sharded_updates):
        torch.testing.assert_close(torch.tensor(parameters), expected, rtol=1e-4, atol=1e-5)  # sums in two halves
        held.append(state)
    assert sum(held) == whole
    return {"largest share of the optimizer state on a rank": round(max(held) / whole, 3)}


# --- evaluation -----------------------------------------------------------------------------------------------------


def with_dropout():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 1))


def exact_outputs():
    return with_dropout().eval()(all_samples()).detach()


@snippet(item="B20", section="evaluation", does="trains something else", lesson="29", at_least={"deviation of the outputs": 0.05},
         about="evaluation inside torch.no_grad, and nothing else; Lightning calls eval() as well, plain PyTorch does not, and dropout"
               " stays on.",
         cpp="lessons/29_evaluation/eval_mode.h", claims=("B-no-grad-memory", "B-no-grad-speed", "B-no-grad-alone"),
         zh={"about": "在 torch.no_grad 中评估,别的什么也不做;Lightning 还会调用 eval(),普通 PyTorch 不会,dropout 仍然开着。", "deviation of the outputs": "输出的偏差"})
def no_grad_alone():
    model = with_dropout()
    with torch.no_grad():
        outputs = model(all_samples())
    assert not outputs.requires_grad  # what the article promises holds: no graph
    return {"deviation of the outputs": ((outputs - exact_outputs()).norm() / exact_outputs().norm()).item()}


@mended("B20", at_most={"deviation of the outputs": 0})
def no_grad_and_eval():
    model = with_dropout()
    model.eval()
    with torch.inference_mode():
        outputs = model(all_samples())
    model.train()
    return {"deviation of the outputs": (outputs - exact_outputs()).norm().item()}
