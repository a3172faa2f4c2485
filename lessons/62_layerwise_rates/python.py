"""Lesson 62 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch


# region layerwise
def layerwise_groups(model, prefixes, rate, decay):  # prefixes from the input to the output
    names = {name: [p for p in prefixes if name == p or name.startswith(p + ".")] for name, _ in model.named_parameters()}
    wrong = {name: found for name, found in names.items() if len(found) != 1}
    assert not wrong, f"not in exactly one stage: {wrong}"  # PyTorch does not miss a parameter that is in no group
    return [{"params": [p for name, p in model.named_parameters() if names[name] == [prefix]],
             "lr": rate * decay ** (len(prefixes) - 1 - i)} for i, prefix in enumerate(prefixes)]


def with_schedule(optimizer, factor):
    # Multiplies each group's own "lr". A loop that writes one rate into all groups undoes them, and an entry of your
    # own, such as "lr_scale", is kept in the group and applied by nobody.
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def freeze(parameters):
    for parameter in parameters:
        parameter.requires_grad_(False)
        parameter.grad = None  # with zero_grad(set_to_none=False) momentum would move it on
# endregion


SMALL = {"batch": 8, "channels": 4}
TWINS = [{"case": "convnet", "technique": "parameter groups", "settings": SMALL},
         {"case": "first layers frozen", "technique": "frozen", "settings": SMALL}]


def train(workloads, twin, settings, seed):
    work = workloads.ConvNetTraining(settings, seed)
    groups = layerwise_groups(work.model, ["conv1", "conv2", "head"], settings["learning_rate"], settings["decay"])
    work.optimizer = torch.optim.SGD(groups, momentum=0.9)
    schedule = with_schedule(work.optimizer, lambda update: 1.0)
    for group in groups[:settings["frozen"]]:
        freeze(group["params"])
    while True:
        yield work.update(*work.batches.next())
        schedule.step()
