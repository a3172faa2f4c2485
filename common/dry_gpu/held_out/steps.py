"""Training steps of the published rows on the device "cuda": python steps.py ROW_ID prints one line of JSON."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer
from torch.testing._internal.distributed.fake_pg import FakeStore

import convnets
import transformers_plain as transformers
from optimizers import (
    SCALE, ApexO2, BertAdam, clip_grad_norm_per_parameter, clip_gradients, scaler_step, unscale_into)

CUDA = torch.device("cuda")


@dataclass
class Workload:
    """What a row's clock covers: a prologue, steps of `items` images, samples or tokens each, an epilogue."""

    step: Callable[[int], None]
    items: int
    measured: int = 4
    prologue: Callable[[], None] = lambda: None
    epilogue: Callable[[], None] = lambda: None


def allow_tf32(matmul: bool, convolutions: bool = True) -> None:
    torch.backends.cuda.matmul.allow_tf32 = matmul
    torch.backends.cudnn.allow_tf32 = convolutions


def build(make: Callable[[], nn.Module]) -> nn.Module:
    with CUDA:
        return make().train()


def host_tokens(vocabulary: int, *shape: int, pinned: bool = False) -> Tensor:
    tokens = torch.randint(0, vocabulary, shape)
    return tokens.pin_memory() if pinned else tokens


def sgd(groups: object, lr: float, foreach: bool | None, **settings: float) -> Optimizer:
    """torch.optim.SGD; foreach=False is the loop over parameters of torch 1.x."""
    return torch.optim.SGD(groups, lr=lr, foreach=foreach, **settings)


def split_groups(model: nn.Module, plain: tuple[str, ...], decay: float) -> list[dict]:
    """Two parameter groups; names that contain one of `plain` have no weight decay."""
    named = list(model.named_parameters())
    without = [p for n, p in named if any(word in n for word in plain)]
    decayed = [p for n, p in named if not any(word in n for word in plain)]
    return [{"params": without, "weight_decay": 0.0}, {"params": decayed, "weight_decay": decay}]


def label_smoothing_of_mixup(logits: Tensor, target: Tensor) -> Tensor:
    """DeepLearningExamples' loss for mixed one-hot targets, smoothing 0.1."""
    log_probabilities = F.log_softmax(logits.float(), dim=-1)
    likelihood = (-log_probabilities * target.float()).sum(-1)
    smooth = -log_probabilities.mean(dim=-1)
    return (0.9 * likelihood + 0.1 * smooth).mean()


def mixed_batch(images: Tensor, labels: Tensor, mean: Tensor, std: Tensor,
                side: torch.cuda.Stream) -> tuple[Tensor, Tensor]:
    """The prefetcher's copy, one-hot and normalisation on a side stream, then mixup with CPU permutation."""
    with torch.cuda.stream(side):
        x, y = images.cuda(non_blocking=True).float(), labels.cuda(non_blocking=True)
        target = torch.zeros(y.size(0), 1000, device=CUDA).scatter_(1, y.unsqueeze(1), 1.0)
        x = x.sub_(mean).div_(std)
    torch.cuda.current_stream().wait_stream(side)
    permutation = torch.randperm(x.size(0)).cuda()
    weight = 0.7
    return weight * x + (1 - weight) * x[permutation, :], weight * target + (1 - weight) * target[permutation, :]


def deep_learning_examples(make: Callable[[], nn.Module], batch: int, amp: bool, decay: float) -> Workload:
    """NVIDIA's ImageNet trainer: eight micro-batches a step; SGD and zero_grad loop over parameters."""
    torch.backends.cudnn.benchmark = True
    allow_tf32(True)
    layout = torch.channels_last if amp else torch.contiguous_format
    model = build(make).to(memory_format=layout)
    optimizer = sgd(split_groups(model, ("bn",), decay), 0.256, False, momentum=0.875)
    scaler = torch.amp.GradScaler("cuda", init_scale=128.0, growth_interval=10**9, enabled=amp)
    images = torch.zeros(batch, 3, 224, 224, dtype=torch.uint8).contiguous(memory_format=layout).pin_memory()
    labels, side = host_tokens(1000, batch, pinned=True), torch.cuda.Stream()
    mean, std = (torch.full((1, 3, 1, 1), v, device=CUDA) for v in (120.0, 58.0))

    def step(_: int) -> None:
        for micro in range(8):
            x, target = mixed_batch(images, labels, mean, std, side)
            with torch.autocast("cuda", torch.float16, enabled=amp):
                loss = label_smoothing_of_mixup(model(x), target)
                loss /= 8
            scaler.scale(loss).backward()
            if micro == 7:
                scaler_step(scaler, optimizer)
                optimizer.zero_grad(set_to_none=False)
            torch.cuda.synchronize()
            loss.item()

    return Workload(step, 8 * batch, measured=3)


def lambda_resnet(batch: int, amp: bool, torch2: bool) -> Workload:
    """Lambda's run of the same trainer on one synthetic batch, NCHW, a step each batch."""
    torch.backends.cudnn.benchmark = True
    allow_tf32(True)
    model = build(convnets.resnet50)
    optimizer = sgd(split_groups(model, ("bn",), 1e-4), 0.1, None if torch2 else False, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0, growth_interval=10**9, enabled=amp)
    images = torch.randn(batch, 3, 224, 224, device=CUDA)
    labels = torch.zeros(batch, dtype=torch.long, device=CUDA)

    def step(_: int) -> None:
        with torch.autocast("cuda", torch.float16, enabled=amp):
            loss = F.cross_entropy(model(images), labels)
            loss /= 1
        scaler.scale(loss).backward()
        scaler_step(scaler, optimizer)
        optimizer.zero_grad(set_to_none=torch2)
        torch.cuda.synchronize()
        loss.item()

    return Workload(step, batch)


def milabench_resnet50() -> Workload:
    """milabench's resnet50-noio: 244x244 (sic), soft targets, the optimizer inside the autocast block."""
    allow_tf32(True)
    model = build(convnets.resnet50)
    optimizer = sgd(model.parameters(), 0.01, None)
    scaler = torch.amp.GradScaler("cuda")
    images = torch.randn(256, 3, 244, 244, device=CUDA)
    target = torch.rand(256, 1000, device=CUDA)

    def step(_: int) -> None:
        x = images.to(torch.float16)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(x), target)
            scaler.scale(loss).backward()
            scaler_step(scaler, optimizer)

    return Workload(step, 256)


def data_parallel(model: nn.Module) -> nn.Module:
    """DistributedDataParallel over one rank: NCCL launches nothing for it in place, so a fake group stands in."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[0])

    def keep(_: object, bucket: torch.distributed.GradBucket) -> torch.futures.Future[Tensor]:
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    parallel.register_comm_hook(None, keep)
    return parallel


def csc_resnet50(amp: bool, matmul_tf32: bool, torch2: bool, zero_grad: bool) -> Workload:
    """CSC's script: DistributedDataParallel over one rank, fp32 images copied from pinned memory each step."""
    allow_tf32(matmul_tf32)
    model = build(convnets.resnet50)
    optimizer = sgd(model.parameters(), 1e-4, None if torch2 else False)
    parallel = data_parallel(model)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    images = torch.zeros(32, 3, 224, 224).pin_memory()
    labels = host_tokens(1000, 32, pinned=True)

    def step(_: int) -> None:
        x, y = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16, enabled=amp):
            loss = F.cross_entropy(parallel(x), y)
        if zero_grad:
            optimizer.zero_grad(set_to_none=torch2)
        scaler.scale(loss).backward()
        scaler_step(scaler, optimizer)

    return Workload(step, 32)


def flagperf_resnet50() -> Workload:
    """FlagPerf on one card: no process group, hence no DDP; deterministic cuDNN; torch 1.8's SGD loop."""
    torch.backends.cudnn.deterministic = True
    allow_tf32(True)
    model = build(convnets.resnet50)
    optimizer = sgd(model.parameters(), 0.8, False, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(256, 3, 224, 224, device=CUDA)
    labels = torch.zeros(256, dtype=torch.long, device=CUDA)

    def step(_: int) -> None:
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return Workload(step, 256)


def wide_resnet(level: str) -> Workload:
    """WRN-28-10 on a T4 by apex level; torch 1.1 asks each gradient's norm one by one (10 is not exceeded)."""
    model = build(convnets.WideResNet)
    level2 = ApexO2(model, keep_batchnorm=True) if level == "O2" else None
    trained = level2.trained() if level2 else list(model.parameters())
    optimizer = sgd(trained, 0.1, False, momentum=0.9, weight_decay=5e-4)
    images, labels = torch.zeros(128, 3, 32, 32).pin_memory(), host_tokens(10, 128, pinned=True)
    overflow = torch.zeros(1, dtype=torch.int, device=CUDA)

    def step(_: int) -> None:
        x, y = images.to(CUDA), labels.to(CUDA)
        if level2:
            level2.zero_grad()
        else:
            optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.float16, enabled=level == "O1"):
            loss = F.cross_entropy(model(x.half()).float() if level2 else model(x), y)
        if level2:
            level2.backward(loss)
        elif level == "O1":  # apex puts the zeroed gradients aside and adds the unscaled new ones to them
            aside = [p.grad for p in trained]
            optimizer.zero_grad(set_to_none=True)
            (loss.float() * SCALE).backward()
            unscale_into(aside, trained, overflow)
        else:
            loss.backward()
        loss.item()
        clip_grad_norm_per_parameter(trained)
        optimizer.step()
        if level2:
            level2.to_model()

    return Workload(step, 128)


def bag_of_tricks() -> Workload:
    """cifar10-fast-simple: one epoch of 97 steps of 512, with its shuffle, crops and flips."""
    torch.backends.cudnn.benchmark = True
    batch = 512
    model, average = (build(convnets.BagOfTricksResNet).half() for _ in range(2))
    for module in (*model.modules(), *average.modules()):
        if isinstance(module, nn.BatchNorm2d):
            module.float()
    parameters = [p for p in model.parameters() if p.requires_grad]
    matrices = [(p, torch.zeros_like(p)) for p in parameters if p.dim() > 1]
    biases = [(p, torch.zeros_like(p)) for p in parameters if p.dim() <= 1]
    padded = torch.zeros(50000, 3, 40, 40, dtype=torch.float16, device=CUDA)
    labels = torch.zeros(50000, dtype=torch.long, device=CUDA)
    epoch: dict[str, Tensor] = {}
    schedule = torch.linspace(0.0, 2e-3, 194)

    def crop(images: Tensor) -> Tensor:
        x, y = (torch.randint(8, size=(1,))[0] for _ in range(2))
        return images[:, :, y : y + 32, x : x + 32]

    def shuffle() -> None:
        order = torch.randperm(50000, device=CUDA)
        images, epoch["labels"] = padded[order], labels[order]
        images = torch.cat([crop(images[i : i + batch]) for i in range(0, 50000, batch)])
        images[:25000] = torch.flip(images[:25000], [-1])
        epoch["images"] = images

    def nesterov(pairs: list[tuple[Tensor, Tensor]], lr: Tensor, decay: float) -> None:
        for parameter, velocity in pairs:
            gradient, weight = parameter.grad.data, parameter.data
            gradient.add_(weight, alpha=decay).mul_(-lr)
            velocity.mul_(0.9).add_(gradient)
            weight.add_(gradient.add_(velocity, alpha=0.9))

    def step(i: int) -> None:
        rows = slice(i * batch, (i + 1) * batch)
        model.zero_grad(set_to_none=False)
        log_probabilities = F.log_softmax(model(epoch["images"][rows]), dim=1)
        spread = -log_probabilities.mean(dim=1)
        loss = 0.8 * F.nll_loss(log_probabilities, epoch["labels"][rows], reduction="none") + 0.2 * spread
        loss.sum().backward()
        nesterov(matrices, schedule[i], 0.256)
        nesterov(biases, 64.0 * schedule[i], 0.004)
        if i % 5 == 0:
            for mean, value in zip(average.state_dict().values(), model.state_dict().values()):
                if mean.dtype.is_floating_point:
                    mean *= 0.951
                    mean += 0.049 * value

    return Workload(step, batch, measured=97, prologue=shuffle)


def airbench94() -> Workload:
    """airbench94, uncompiled: a whole run of 476 steps with whitening, loader work and the last evaluation."""
    torch.backends.cudnn.benchmark = True
    batch, steps, crops = 1024, 476, 25
    model = build(convnets.Airbench94).half().to(memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.float()
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = [{"params": [p for n, p in named if ("norm" in n) == norm], "lr": lr, "weight_decay": decay}
              for norm, lr, decay in ((True, 0.094, 0.02), (False, 0.0015, 1.3))]
    optimizer = torch.optim.SGD(groups, momentum=0.85, nesterov=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 0.2 + 0.8 * min(1.0, i / 109))
    half = {"dtype": torch.float16, "device": CUDA}
    train = torch.zeros(50000, 3, 32, 32, **half).contiguous(memory_format=torch.channels_last)
    test = torch.zeros(10000, 3, 32, 32, **half).contiguous(memory_format=torch.channels_last)
    labels, test_labels = (torch.zeros(n, dtype=torch.long, device=CUDA) for n in (50000, 10000))
    slow = {name: value.clone() for name, value in model.state_dict().items()}
    loader: dict[str, Iterator[tuple[Tensor, Tensor]]] = {}

    def normalize(images: Tensor) -> Tensor:
        mean, std = (torch.tensor(v).to(images) for v in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))
        (std == 0).any().item()
        return images.clone().sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))

    def crop(padded: Tensor) -> Tensor:
        """25 masks of shifts; a mask's count is garbage here, so each selects its expected share of rows."""
        shifts = torch.randint(-2, 3, (50000, 2), device=CUDA)
        images = torch.empty(50000, 3, 32, 32, **half)
        share = torch.arange(50000 // crops, device=CUDA)
        for shift in range(crops):
            y, x = shift // 5, shift % 5
            mask = (shifts[:, 0] == y - 2) & (shifts[:, 1] == x - 2)
            mask.nonzero()
            chosen = padded[share, :, y : y + 32, x : x + 32]
            mask.nonzero()
            images[share] = chosen
        return images

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        mirrored = (torch.rand(50000, device=CUDA) < 0.5).view(-1, 1, 1, 1)
        images = normalize(train)
        padded = F.pad(torch.where(mirrored, images.flip(-1), images), (2,) * 4, "reflect")
        for epoch in range(10):
            model.whiten.bias.requires_grad = epoch < 3
            images = crop(padded)
            images = images.flip(-1) if epoch % 2 == 1 else images
            order = torch.randperm(50000, device=CUDA)
            for i in range(48):
                rows = order[i * batch : (i + 1) * batch]
                yield images[rows], labels[rows]

    def whiten() -> None:
        """Whitening from 5000 images; the eigenvectors of the 12x12 covariance are not computed (no cuSOLVER)."""
        patches = normalize(train[:5000]).unfold(2, 2, 1).unfold(3, 2, 1).transpose(1, 3).reshape(-1, 12).float()
        vectors = patches.T @ patches / len(patches)
        values = vectors.diagonal()
        scaled = vectors.T.reshape(12, 3, 2, 2).flip(0) / torch.sqrt(values.flip(0).view(-1, 1, 1, 1) + 5e-4)
        model.whiten.weight.data[:] = torch.cat((scaled, -scaled))
        loader["train"] = batches()
        model.train()

    def lookahead(decay: float) -> None:
        for mean, value in zip(slow.values(), model.state_dict().values()):
            if value.dtype.is_floating_point:
                mean.lerp_(value, 1 - decay)
                value.copy_(mean)

    def step(i: int) -> None:
        x, y = next(loader["train"])
        loss = F.cross_entropy(model(x), y, label_smoothing=0.2, reduction="none").sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if i % 5 == 4:
            lookahead(0.77 * ((i + 1) / steps) ** 3)

    def views(x: Tensor) -> Tensor:
        return 0.5 * model(x) + 0.5 * model(x.flip(-1))

    def evaluate() -> None:
        """The last lookahead, and six views of each test image."""
        lookahead(1.0)
        model.eval()
        logits = []
        with torch.no_grad():
            for x in normalize(test).split(2000):
                padded = F.pad(x, (1,) * 4, "reflect")
                moved = torch.stack([views(padded[:, :, i : i + 32, i : i + 32]) for i in (0, 2)]).mean(0)
                logits.append(0.5 * views(x) + 0.5 * moved)
            (torch.cat(logits).argmax(1) == test_labels).float().mean().item()

    return Workload(step, batch, measured=steps, prologue=whiten, epilogue=evaluate)


def lambda_bert(layers: int, batch: int, fp16: bool, torch2: bool) -> Workload:
    """Lambda's SQuAD fine-tuning: apex O2 and FusedAdam, or TF32 and BertAdam; the norm is clipped to 1."""
    allow_tf32(True)
    dim, heads = (768, 12) if layers == 12 else (1024, 16)
    model = build(lambda: transformers.BertQuestionAnswering(dim, layers, heads))
    used = [(n, p) for n, p in model.named_parameters() if "pooler" not in n]
    level2 = ApexO2(model, keep_batchnorm=False, used=[p for _, p in used]) if fp16 else None
    named = list(zip([n for n, _ in used], level2.trained() if level2 else [p for _, p in used]))
    groups = [{"params": [p for n, p in named if ("bias" in n or "norm" in n) != decayed],
               "weight_decay": 0.01 if decayed else 0.0} for decayed in (True, False)]
    optimizer = AdamW(groups, lr=3e-5, fused=True) if fp16 else BertAdam(groups, lr=3e-5, foreach=torch2)
    tokens = [host_tokens(n, batch, 384) for n in (30000, 2, 2)]
    spans = [host_tokens(384, batch) for _ in range(2)]

    def step(_: int) -> None:
        ids, types, mask, start, end = (t.to(CUDA) for t in (*tokens, *spans))
        start_logits, end_logits = model(ids, types, mask)
        if level2:
            start_logits, end_logits = start_logits.float(), end_logits.float()
        start.clamp_(0, 384)
        end.clamp_(0, 384)
        loss = (F.cross_entropy(start_logits, start, ignore_index=384)
                + F.cross_entropy(end_logits, end, ignore_index=384)) / 2
        if level2:
            level2.backward(loss)
        else:
            loss.backward()
        clip_gradients([p for group in groups for p in group["params"]])
        optimizer.step()
        if level2:
            level2.to_model()
            level2.zero_grad()
        else:
            optimizer.zero_grad(set_to_none=torch2)
        loss.item()

    return Workload(step, batch)


def milabench_transformer(make: Callable[[], nn.Module], shape: tuple[int, int], precision: str) -> Workload:
    """milabench's huggingface step: Adam, token copies each step, and no zero_grad: gradients accumulate."""
    allow_tf32("tf32" in precision, "tf32" in precision)
    model = build(make)
    optimizer = Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled="fp16" in precision)
    ids, labels = host_tokens(30000, *shape), host_tokens(30000, *shape)

    def step(_: int) -> None:
        x, y = ids.to(CUDA), labels.to(CUDA)
        with torch.autocast("cuda", torch.float16, enabled="fp16" in precision):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler_step(scaler, optimizer)

    return Workload(step, shape[0])


def flagperf_transformer(make: Callable[[], nn.Module], inputs: list[Tensor], two_groups: bool,
                         early_item: bool = False) -> Workload:
    """FlagPerf's TF32 step with AdamW of torch 1.x, a loop; weight decay 0 still multiplied the weights there."""
    torch.backends.cudnn.deterministic = True
    allow_tf32(True)
    model = build(make)
    groups = split_groups(model, ("bias", "norm"), 1e-12) if two_groups else model.parameters()
    if two_groups:
        groups[0]["weight_decay"] = 1e-12
    optimizer = AdamW(groups, lr=5e-5, foreach=False)
    tensors = [t.to(CUDA) for t in inputs]

    def step(_: int) -> None:
        loss = model(*tensors)
        if early_item:
            loss.item()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return Workload(step, inputs[0].size(0))


def rasbt_gpt(stage: int) -> Workload:
    """The book's GPT-2 124M after `stage` of its seven changes; 15 steps and two evaluation batches a clock."""
    torch.set_float32_matmul_precision("high" if stage >= 2 else "highest")
    model = build(lambda: transformers.Gpt(stored_mask=stage < 1, native=stage >= 6, sdpa=stage >= 7))
    if stage >= 5:
        model.to(torch.bfloat16)
    optimizer = AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=True if stage >= 3 else None)
    ids, labels = (host_tokens(50257, 8, 1024, pinned=stage >= 4) for _ in range(2))

    def loss_of_batch() -> Tensor:
        x, y = ids.to(CUDA), labels.to(CUDA)
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    def evaluate() -> None:
        model.eval()
        with torch.no_grad():
            loss_of_batch().item()
            loss_of_batch().item()
        model.train()

    def step(_: int) -> None:
        optimizer.zero_grad()
        loss_of_batch().backward()
        optimizer.step()

    return Workload(step, 8 * 1024, measured=15, prologue=evaluate)


def masked_lm(style: str, large: bool = False) -> nn.Module:
    dim, layers, heads = (1024, 24, 16) if large else (768, 12, 12)
    return transformers.BertMaskedLM(dim, layers, heads, style)


def t5_inputs() -> list[Tensor]:
    source, target = host_tokens(32128, 32, 1024), host_tokens(32128, 32, 128)
    return [source, target, torch.ones_like(source), target.clone()]


def distilbert_inputs() -> list[Tensor]:
    ids = host_tokens(30522, 96, 512)
    return [ids, torch.ones_like(ids), host_tokens(2, 96)]


ROWS: dict[str, Callable[[], Workload]] = {
    "milabench-2024-11-t5-small-a100": partial(milabench_transformer, transformers.T5, (16, 1024), "tf32-fp16"),
    "milabench-2024-06-t5-small-a100": partial(milabench_transformer, transformers.T5, (16, 1024), "tf32-fp16"),
    "milabench-2024-11-resnet50-noio-a100": milabench_resnet50,
    "flagperf-resnet50-a100-40": flagperf_resnet50,
    "flagperf-bert-large-mlm-a100-40": lambda: flagperf_transformer(
        lambda: masked_lm("eager", large=True), [host_tokens(30522, 12, 512), host_tokens(30522, 12, 512)], False),
    "flagperf-distilbert-a100-40": lambda: flagperf_transformer(
        transformers.DistilBertClassifier, distilbert_inputs(), True, early_item=True),
    "flagperf-t5-small-a100-40": lambda: flagperf_transformer(
        lambda: transformers.T5(fused=True), t5_inputs(), True),
    "csc-mahti-resnet50-2022-fp32": partial(csc_resnet50, False, True, False, True),
    "csc-mahti-resnet50-2026-fp32": partial(csc_resnet50, False, False, True, False),
    "csc-mahti-resnet50-2023-fp16": partial(csc_resnet50, True, False, True, False),
    "csc-mahti-resnet50-2026-fp16": partial(csc_resnet50, True, False, True, False),
    "99991-cifar-resnet-a100-40": bag_of_tricks,
    "airbench94-eager-a100": airbench94,
}
for amp, name in ((False, "tf32"), (True, "amp")):
    ROWS[f"nv-dle-resnet50-a100-{name}"] = partial(deep_learning_examples, convnets.resnet50, 256, amp, 3.05e-5)
    ROWS[f"nv-dle-resnext101-32x4d-a100-{name}"] = partial(
        deep_learning_examples, convnets.resnext101_32x4d, 128, amp, 6.1e-5)
for card, resnet_batch, base_batch, large_batch in (
        ("a40", (360, 720), (80, 160), (28, 48)), ("a80", (640, 1280), (172, 320), (64, 112)),
        ("h100", (640, 1280), (172, 320), (64, 112)), ("h200", (1280, 2560), (296, 592), (96, 192))):
    for half in (False, True):
        ROWS[f"lambda-resnet50-{card}-{'amp' if half else 'fp32'}"] = partial(
            lambda_resnet, resnet_batch[half], half, card == "h200")
        for size, layers, batches in (("base", 12, base_batch), ("large", 24, large_batch)):
            ROWS[f"lambda-bert-{size}-squad-{card}-{'fp16' if half else 'fp32'}"] = partial(
                lambda_bert, layers, batches[half], half, card == "h200")
for date, style in (("2024-11", "sdpa"), ("2024-06", "eager")):
    for precision in ("fp32", "tf32", "fp16", "tf32-fp16"):
        ROWS[f"milabench-{date}-bert-{precision}-a100"] = partial(
            milabench_transformer, partial(masked_lm, style), (32, 512), precision)
for stage, change in enumerate(("baseline", "mask-on-the-fly", "tf32", "fused-adamw", "pinned", "bf16",
                                "native-ln-gelu", "sdpa-flash")):
    ROWS[f"rasbt-gpt124m-a100-{stage}-{change}"] = partial(rasbt_gpt, stage)
for level in ("O0", "O1", "O2"):
    ROWS[f"ceshine-wrn28-10-t4-{level.lower()}"] = partial(wide_resnet, level)

FUSED_ADAM = "torch's fused Adam for apex's FusedAdam"
STANDS_IN: dict[str, str] = {row: FUSED_ADAM for row in ROWS if "squad" in row and row.endswith("fp16")}
STANDS_IN["flagperf-t5-small-a100-40"] = "torch's fused rms_norm for apex's FusedRMSNorm"
STANDS_IN["ceshine-wrn28-10-t4-o1"] = "torch.autocast for apex's patched functions"
STANDS_IN["airbench94-eager-a100"] = "nothing for the one 12x12 eigh of the whitening"
STANDS_IN |= {row: "a fake process group for NCCL over one rank" for row in ROWS if row.startswith("csc-")}
LEFT_OUT: dict[str, str] = {}


def main(row: str) -> None:
    work = ROWS[row]()
    work.prologue()
    for i in range(2):
        work.step(i)
    work.epilogue()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    work.prologue()
    for i in range(work.measured):
        work.step(i)
    work.epilogue()
    end.record()
    torch.cuda.synchronize()
    result = {"id": row, "ms_per_step": begin.elapsed_time(end) / work.measured, "items_per_step": work.items}
    if row in STANDS_IN:
        result["stands_in"] = STANDS_IN[row]
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
