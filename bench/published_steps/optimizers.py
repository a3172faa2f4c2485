"""What the sources take from apex, from torch 1.x and from their own optimizers, in plain torch."""

import torch
from torch import Tensor, nn

SCALE = 1.0  # the loss scale: 1, for then apex's one copy that also unscales is a plain copy


def scaler_step(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    """GradScaler's step and update; it asks for infinities, yet never skips: on a dry GPU they are garbage."""
    if not scaler.is_enabled():
        optimizer.step()
        return
    scaler.unscale_(optimizer)
    sum(found.item() for found in scaler._found_inf_per_device(optimizer).values())
    optimizer.step()
    scaler.update()


@torch.no_grad()
def unscale_into(aside: list[Tensor | None], parameters: list[nn.Parameter], overflow: Tensor) -> None:
    """apex's unscale: new gradients, unscaled, are added to those put aside; then it asks for an overflow."""
    overflow.zero_()
    kept = [(a, p) for a, p in zip(aside, parameters) if a is not None]
    if kept:
        torch._foreach_add_([a for a, _ in kept], [p.grad for _, p in kept], alpha=1 / SCALE)
        for a, p in kept:
            p.grad = a
    fresh = [p.grad for a, p in zip(aside, parameters) if a is None]
    if fresh:
        torch._foreach_mul_(fresh, 1 / SCALE)
    overflow.item()


class ApexO2:
    """fp16 weights with fp32 masters; what stays fp32 (BatchNorm, if kept) is trained as it is."""

    def __init__(self, model: nn.Module, keep_batchnorm: bool, used: list[nn.Parameter] | None = None) -> None:
        self.used = list(model.parameters()) if used is None else used
        model.half()
        for module in model.modules():
            if keep_batchnorm and isinstance(module, nn.BatchNorm2d):
                module.float()
        self.half = [p for p in self.used if p.dtype == torch.float16]
        self.full = [p for p in self.used if p.dtype == torch.float32]
        self.masters = [nn.Parameter(p.detach().clone().float()) for p in self.half]
        self.overflow = torch.zeros(1, dtype=torch.int, device=self.half[0].device)

    def trained(self) -> list[nn.Parameter]:
        """What the optimizer is given, in the order of the model's parameters."""
        master = {id(p): m for p, m in zip(self.half, self.masters)}
        return [master.get(id(p), p) for p in self.used]

    def backward(self, loss: Tensor) -> None:
        """Scaled backward into fresh gradients, then unscaled copies of them as the masters' gradients."""
        aside = [p.grad for p in self.full]
        for p in self.half + self.full:
            p.grad = None
        (loss.float() * SCALE).backward()
        gradients = [torch.empty_like(m) for m in self.masters]
        torch._foreach_copy_(gradients, [p.grad for p in self.half])
        for m, gradient in zip(self.masters, gradients):
            m.grad = gradient
        unscale_into(aside, self.full, self.overflow)

    @torch.no_grad()
    def to_model(self) -> None:
        torch._foreach_copy_(self.half, self.masters)

    def zero_grad(self) -> None:
        """Zeroes the model's gradients one by one, and drops the masters'."""
        for p in self.half + self.full:
            if p.grad is not None:
                p.grad.zero_()
        for m in self.masters:
            m.grad = None


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter]) -> None:
    """Multi-tensor norm, read by the host, and one scaling to 1 of all gradients (which a norm above 1 needs)."""
    gradients = [p.grad for p in parameters]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))).item()
    torch._foreach_mul_(gradients, 1.0 / (norm + 1e-6))


def clip_grad_norm_per_parameter(parameters: list[nn.Parameter]) -> None:
    """clip_grad_norm_ of torch 1.1 below its limit: the host reads each gradient's norm."""
    for p in parameters:
        p.grad.data.norm(2).item()


class BertAdam(torch.optim.Optimizer):
    """DeepLearningExamples' Adam: a loop that clips each gradient to 1; foreach is how torch 2 clips."""

    def __init__(self, groups: list[dict], lr: float, foreach: bool) -> None:
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})
        self.foreach_clip = foreach

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(p), torch.zeros_like(p)
                mean, square = state["mean"], state["square"]
                torch.nn.utils.clip_grad_norm_(p, 1.0, foreach=self.foreach_clip)
                mean.mul_(0.9).add_(p.grad, alpha=0.1)
                square.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                update = mean / (square.sqrt() + 1e-6)
                if group["weight_decay"] > 0.0:
                    update += group["weight_decay"] * p
                update = group["lr"] * update
                p.add_(-update)
