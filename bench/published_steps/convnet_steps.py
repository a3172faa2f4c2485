"""Published training steps of convolutional networks."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing._internal.distributed.fake_pg import FakeStore

import convnets
from optimizers import SCALE, ApexO2, clip_grad_norm_per_parameter, scaler_step, unscale_into
from workload import CUDA, Workload, allow_tf32, build, host_tokens, sgd, split_groups


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
