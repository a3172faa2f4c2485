"""The Python half of the checkpoint parity test: the same training with torch.utils.checkpoint, reentrant.

usage: checkpoint.py FOLDER   reads start.bin, inputs.bin, targets.bin; writes losses.bin, finish.bin
The sizes are those of lessons/31_activation_checkpointing/checkpoint_test.cpp.
"""

import sys

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from exchange import read, write

BLOCKS, WIDTH, HIDDEN, BATCH, STEPS = 4, 16, 32, 8, 5
SHAPES = [(WIDTH, WIDTH), (WIDTH,)] + BLOCKS * [(HIDDEN, WIDTH), (HIDDEN,), (WIDTH, HIDDEN), (WIDTH,)]


def main(folder):
    torch.set_num_threads(1)
    flat, parameters = read(folder, "start.bin", -1), []
    for shape in SHAPES:
        count = torch.Size(shape).numel()
        parameters.append(flat[:count].view(shape).clone().requires_grad_())
        flat = flat[count:]
    inputs = read(folder, "inputs.bin", STEPS, BATCH, WIDTH)
    targets = read(folder, "targets.bin", STEPS, BATCH, WIDTH)
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    def block(first):
        def forward(x):
            up, up_bias, down, down_bias = parameters[first : first + 4]
            return x + functional.linear(functional.dropout(torch.tanh(functional.linear(x, up, up_bias)), 0.25), down, down_bias)

        return forward

    torch.manual_seed(31)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        h = functional.linear(inputs[step], parameters[0], parameters[1])
        for i in range(BLOCKS):
            h = checkpoint(block(2 + 4 * i), h, use_reentrant=True)
        loss = functional.mse_loss(h, targets[step])
        loss.backward()
        optimizer.step()
        losses.append(loss)
    write(folder, "losses.bin", losses)
    write(folder, "finish.bin", parameters)


main(sys.argv[1])
