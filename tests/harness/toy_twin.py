"""The toy lesson's step in PyTorch: tests/harness/toy.h."""

import serving
import torch


def build(trial):
    if trial.settings["repeat"] == 13:
        raise serving.Skip("does not repeat so often")
    layer = torch.nn.Linear(200, 50)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    inputs, targets = torch.randn(64, 200), torch.randn(64, 50)
    trial.note("Python's repeats", trial.settings["repeat"], "passes")

    def update():
        optimizer.zero_grad()
        for _ in range(trial.settings["repeat"]):
            loss = torch.nn.functional.mse_loss(layer(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    return serving.Step(items=64, parameters=dict(layer.named_parameters()), update=update)


serving.serve(build)
