"""PyTorch's own check of a custom operator, for each one: schema, registration of the derivative, fake implementation, and the
same result and gradients through AOTAutograd with symbolic sizes.

usage: opcheck.py [cpu|cuda]"""

import os
import pathlib

import torch
from samples import OPS, Samples, device_of_call, end

device = device_of_call()
samples = Samples(device)
calls = samples.differentiable() + samples.passes()
names = {name for name, _ in calls}
registered = {name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("tenfold::")}
assert names == registered, names ^ registered
bound = {path.parent.name for path in pathlib.Path(__file__).parents[2].glob("kernels/*/*_torch.h")}
assert bound <= {name.rstrip("_") for name in registered}, f"a binding without an operator: {bound - registered}"
failed = False
for name, arguments in calls:
    checks = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if name == "adamw_" and "TENFOLD_DRY_GPU" in os.environ:
        # What changes its arguments is wrapped by an operator of Python's, which finds no way by the dry GPU's dispatch key.
        checks.remove("test_aot_dispatch_dynamic")
    results = torch.library.opcheck(getattr(OPS, name).default, arguments, test_utils=checks, raise_exception=False)
    wrong = {check: outcome for check, outcome in results.items() if outcome != "SUCCESS"}
    failed = failed or bool(wrong)
    print(f"{name:26} {'ok' if not wrong else wrong}", flush=True)
assert not failed
end()
