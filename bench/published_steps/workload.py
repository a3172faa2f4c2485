"""What a published row's clock covers, and what several rows' steps are made of."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

CUDA = torch.device("cuda")


@dataclass
class Workload:
    """What a row's clock covers: a prologue, steps of `items` images, samples or tokens each, an epilogue."""

    step: Callable[[int], None]
    items: int
    measured: int = 4
    prologue: Callable[[], None] = lambda: None
    epilogue: Callable[[], None] = lambda: None

    def run(self, steps: int) -> None:
        self.prologue()
        for i in range(steps):
            self.step(i)
        self.epilogue()


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
