"""PyTorch's own check of a custom operator, for each one: schema, registration of the derivative, fake implementation, and the
same result and gradients through AOTAutograd with symbolic sizes.

usage: opcheck.py [cpu|cuda]"""

import sys

import torch
from samples import OPS, Samples, end

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
samples = Samples(device)
calls = samples.differentiable() + samples.passes()
names = {name for name, _ in calls}
registered = {name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("tenfold::")}
assert names == registered, names ^ registered
failed = False
for name, arguments in calls:
    results = torch.library.opcheck(getattr(OPS, name).default, arguments, raise_exception=False)
    wrong = {check: outcome for check, outcome in results.items() if outcome != "SUCCESS"}
    failed = failed or bool(wrong)
    print(f"{name:26} {'ok' if not wrong else wrong}", flush=True)
assert not failed
end()
