"""What Nsight Compute should report of our kernels, each metric as it is counted or modelled.

usage: nsight_sheet.py [KERNEL...] [--gpu H100] [--build build/dev]

Writes results/compiler/nsight_compute.json, of all kernels or those that are named, at the shapes of bench/ and for one GPU. From it
docs/nsight_compute.md is generated, and nsight_compute.py reads it. Needs the dev build with machine code for that GPU, and no GPU. Exit
code 2, and one line that says why and what to do, where it refuses.
"""

import argparse
import datetime

import gpu_model
import kernel_resources
import kernel_time
import machine_code
from listing import launched_on
from nsight_compute import TARGET
from nsight_metrics import METRICS, Launched
from programs import refuse


def values_of(launched):
    """{metric: what it should be} of one launch; what a kernel does not do at all is left out."""
    found = {}
    for metric in METRICS:
        value = metric.value(launched) if metric.value else None
        if value is not None:
            found[metric.name] = float(f"{value:.9g}")
    return found


def expected(tools, gpu, operation, rung):
    """[{symbol, values}] of the kernels that a rung launches."""
    try:
        found = launched_on(tools, gpu, operation.name, rung, operation.shape, operation.sampled_blocks)
    except (gpu_model.DoesNotFit, kernel_time.MissingCode, machine_code.NoSolution) as error:
        refuse(f"{operation.name} {rung}: {gpu['key']}: {error}")
    rows = [Launched(kernel_time.symbol_of(item[-1]), gpu, *item) for item in found]
    print(f"{operation.name} {rung}: {len(rows)} kernels", flush=True)
    return [{"symbol": row.symbol, "values": values_of(row)} for row in rows]


def write(tools, gpu, names):
    known = kernel_resources.entries_of(TARGET)
    for operation in [tools.operation(name) for name in names or tools.operations]:
        rungs = [{"name": name, "launches": expected(tools, gpu, operation, rung)} for rung, name in enumerate(operation.rungs)]
        known[operation.name] = kernel_resources.entry_of(operation, rungs)
    rows = [{"name": metric.name, "ours": metric.ours, "section": metric.section, "rule": metric.rule, "why": metric.why} for metric in METRICS]
    out = {"schema": "tenfold.nsight_compute/1", "date": datetime.date.today().isoformat(), "nvcc": tools.nvcc, "gpu": gpu["key"],
           "metrics": rows, "kernels": [known[name] for name in sorted(known)]}
    kernel_resources.write_json(TARGET, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = refuse
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--gpu", default="H100")
    parser.add_argument("--build", default="build/dev")
    options = parser.parse_args()
    tools = kernel_time.Tools(options.build)
    write(tools, tools.gpu(options.gpu), options.kernels)


if __name__ == "__main__":
    main()
