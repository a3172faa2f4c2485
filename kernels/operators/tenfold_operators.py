"""Tenfold's kernels from Python: `import tenfold_operators`, then torch.ops.tenfold.layer_norm(x, weight, bias).

The library has schemas, derivatives and fake implementations of all operators, so that loading it is all there is to do:
torch.ops.load_library("libtenfold_operators.so") does the same. It is looked for in $TENFOLD_OPERATORS, beside this file, and
in the builds of the tree. It must have been built with the PyTorch that loads it.
"""

import os
import pathlib

import torch

NAME = "libtenfold_operators.so"


def library():
    """The library's path. FileNotFoundError where there is none."""
    here = pathlib.Path(__file__).resolve().parent
    builds = [here.parents[1] / "build" / preset / "kernels" / NAME for preset in ("release", "dev")]
    places = [pathlib.Path(os.environ["TENFOLD_OPERATORS"])] if "TENFOLD_OPERATORS" in os.environ else [here / NAME, *builds]
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(f"{NAME} is not at {' or '.join(map(str, places))}: build the target tenfold_operators")


torch.ops.load_library(library())


class AdamW(torch.optim.Optimizer):
    """torch.optim.AdamW by tenfold::adamw_: one call for all parameters of a group that are on one device and have seen as many
    steps. State and options have torch's names. RuntimeError for parameters that are not float, or have gaps."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            calls = {}
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
                state["step"] += 1
                gradient = parameter.grad
                if gradient.stride() != parameter.stride():
                    gradient = torch.empty_like(parameter).copy_(gradient)
                calls.setdefault((parameter.device, int(state["step"])), []).append(
                    (parameter, state["exp_avg"], state["exp_avg_sq"], gradient))
            beta1, beta2 = group["betas"]
            for (_, step), tensors in calls.items():
                torch.ops.tenfold.adamw_(*map(list, zip(*tensors)), step, learning_rate=group["lr"], beta1=beta1, beta2=beta2,
                                         epsilon=group["eps"], weight_decay=group["weight_decay"])
        return loss
