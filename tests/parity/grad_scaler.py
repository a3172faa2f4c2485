"""The Python half of the gradient scaler parity test: the same gradients through torch.amp.GradScaler.

usage: grad_scaler.py FOLDER   reads inputs.bin; writes scales.bin, trackers.bin, stepped.bin, finish.bin
The sizes are those of lessons/21_mixed_precision/mixed_precision_test.cpp.
"""

import sys

import torch

from exchange import read, write

WIDTH, STEPS = 8, 40


def main(folder):
    torch.set_num_threads(1)
    inputs = read(folder, "inputs.bin", STEPS, WIDTH)
    weights = torch.ones(WIDTH, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=3)
    made = []
    optimizer.register_step_post_hook(lambda *_: made.append(True))
    scales, trackers, stepped = [], [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        scaler.scale((weights * inputs[step]).sum()).backward()
        if step % 2 == 0:
            scaler.unscale_(optimizer)
        before = len(made)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        trackers.append(scaler.state_dict()["_growth_tracker"])
        stepped.append(len(made) - before)
    for name, values in (("scales", scales), ("trackers", trackers), ("stepped", stepped)):
        write(folder, name + ".bin", [torch.tensor(values, dtype=torch.float32)])
    write(folder, "finish.bin", [weights])


main(sys.argv[1])
