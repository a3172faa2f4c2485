"""Other predictors of a published step, on its dry card: python predictors.py ROW_ID CARD PREDICTOR...

CARD is the card as JSON, from `./tenfold dry --list --json`. Prints a line of JSON for each predictor: what it says, or
why it says nothing.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed._tools.runtime_estimator import RuntimeEstimator
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from fake_answers import answer_as, fake_tensors
from steps import ROWS

CONVOLUTIONS = (torch.ops.aten.convolution, torch.ops.aten.convolution_backward)


def on_card(values: object) -> list[Tensor]:
    return [t for t in tree_leaves(values) if isinstance(t, Tensor) and t.is_cuda]


def bytes_of(tensor: Tensor) -> int:
    """What its elements take; an expanded dimension is read once."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        elements *= size if stride != 0 else min(size, 1)
    return elements * tensor.element_size()


class Roofline(TorchDispatchMode):
    """Adds up FLOP over the card's peak and bytes over its bandwidth: by operator, and of everything.

    FLOP are those of PyTorch's FlopCounterMode. Bytes are those of an operator's tensors on the card, read and written.
    """

    def __init__(self, ceilings: dict) -> None:
        super().__init__()
        self.ceilings = ceilings
        self.of_products_s = self.of_bytes_s = self.by_operator_s = 0.0

    def peak(self, func: torch._ops.OpOverload, dtype: torch.dtype) -> float:
        """FLOP/s of products of this type, in tensor cores where PyTorch's flags and the card allow it."""
        settings = torch.backends.cudnn if func.overloadpacket in CONVOLUTIONS else torch.backends.cuda.matmul
        name = {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(dtype, "tf32" if settings.allow_tf32 else "fp32")
        return self.ceilings[f"{name}_per_s"] or self.ceilings["fp32_per_s"]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        read = on_card((args, kwargs))
        written = on_card(out) if func._schema.returns else on_card(written_to(func, args, kwargs))
        if moves_nothing(func, read, written):
            return out
        products_s = 0.0
        if func.overloadpacket in flop_registry and read:
            flop = flop_registry[func.overloadpacket](*args, **kwargs, out_val=out)
            products_s = flop / self.peak(func, read[0].dtype)
        bytes_s = sum(map(bytes_of, read + written)) / self.ceilings["bytes_per_s"]
        self.of_products_s += products_s
        self.of_bytes_s += bytes_s
        self.by_operator_s += max(products_s, bytes_s)
        return out


def written_to(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> list[object]:
    """Arguments that an operator changes: of _foreach_add_, say, which returns nothing."""
    given = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
    return [given[a.name] for a in func._schema.arguments
            if a.name in given and a.alias_info is not None and a.alias_info.is_write]


def moves_nothing(func: torch._ops.OpOverload, read: list[Tensor], written: list[Tensor]) -> bool:
    """Memory and nothing in it, or views of what was there."""
    if func._schema.name.startswith(("aten::empty", "aten::new_empty")):
        return True
    storages = {t.untyped_storage()._cdata for t in read}
    return not func._schema.is_mutable and bool(written) and all(
        t.untyped_storage()._cdata in storages for t in written)


class EstimatorWithoutDevice(RuntimeEstimator):
    """RuntimeEstimator that also adds up what it takes reads of a tensor's device for.

    Under FakeTensorMode such a read comes by as an operator that takes the tensor, and RuntimeEstimator lets its bytes
    cross the card's memory, although nothing of it is read.
    """

    of_device_ms = 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = self.total_runtime
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if func is torch.ops.prim.device.default:
            self.of_device_ms += self.total_runtime - before
        return out


def rooflines(row: str, card: dict) -> dict:
    """Of the step on the dry card's tensors, as it is."""
    work = ROWS[row]()
    work.run(2)
    with Roofline(card["ceilings"]) as roofline:
        work.run(work.measured)
    a_step = 1e3 / work.measured
    return {"items_per_step": work.items,
            "ms": {"whole_step": max(roofline.of_products_s, roofline.of_bytes_s) * a_step,
                   "by_operator": roofline.by_operator_s * a_step}}


def runtime_estimator(row: str, card: dict) -> dict:
    answer_as(card)
    with fake_tensors():
        work = ROWS[row]()
        work.run(2)
        with EstimatorWithoutDevice()("operator-level-cost-model") as estimator:
            work.run(work.measured)
    of_step, of_device = (ms / work.measured for ms in (estimator.total_runtime, estimator.of_device_ms))
    return {"items_per_step": work.items,
            "ms": {"runtime_estimator": of_step, "runtime_estimator_without_device": of_step - of_device}}


@contextlib.contextmanager
def iterations_of(tracker: MemTracker) -> Iterator[None]:
    """MemTracker takes one iteration: its modules are forgotten before another; the peak is kept."""
    def forget(*_: object) -> None:
        if tracker._mod_tracker.parents == {"Global"}:
            tracker.reset_mod_stats()

    hook = register_module_forward_pre_hook(forget)
    try:
        yield
    finally:
        hook.remove()


def mem_tracker(row: str, card: dict) -> dict:
    """The largest number of bytes that live tensors had at once, in two steps and what comes before and after them."""
    tracker = MemTracker()
    with fake_tensors(), iterations_of(tracker), tracker:
        work = ROWS[row]()
        work.run(2)
    peaks = tracker.get_tracker_snapshot("peak")
    return {"gib": {"mem_tracker": peaks[torch.device("cuda", 0)]["Total"] / 2**30}}


PREDICTORS: dict[str, Callable[[str, dict], dict]] = {
    "rooflines": rooflines, "runtime_estimator": runtime_estimator, "mem_tracker": mem_tracker}


def main(row: str, card: dict, predictors: list[str]) -> None:
    for name in predictors:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # RuntimeEstimator prints what it found
                said = PREDICTORS[name](row, card)
        except Exception as error:  # whatever of a row a predictor cannot run
            reason = (str(error).strip().splitlines() or [""])[0]
            said = {"failed": f"{type(error).__name__}: {reason}"}
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        print(json.dumps({"predictor": name, **said}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])
