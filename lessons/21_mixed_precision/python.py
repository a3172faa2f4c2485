"""Lesson 21 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

import torch
import torch.nn.functional as F


# region bf16
def update_bf16(model, optimizer, ids, targets):
    optimizer.zero_grad()
    # The default dtype is float16 on CUDA and bfloat16 on the CPU: name it. Weights and optimizer state stay float32.
    with torch.autocast(ids.device.type, dtype=torch.bfloat16):
        logits = model(ids).float()  # the loss in float32
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()  # outside of autocast: backward uses each operator's forward dtype
    optimizer.step()  # bf16 needs no GradScaler
    return loss.detach()
# endregion


# region fp16
def update_fp16(model, optimizer, scaler, ids, targets):  # once: scaler = torch.amp.GradScaler("cuda")
    optimizer.zero_grad()
    with torch.autocast(ids.device.type, dtype=torch.float16):
        loss = F.cross_entropy(model(ids).float().flatten(0, 1), targets.flatten())
    scaler.scale(loss).backward()  # by 65536 at first; doubled after 2000 updates without an infinity
    scaler.unscale_(optimizer)  # only for what reads gradients before the step, such as clip_grad_norm_
    scaler.step(optimizer)  # divides unless unscale_ has; skips the update if a gradient is infinite or NaN
    scaler.update()  # halves the scale after a skipped update
    return loss.detach()
# endregion


SETTINGS = {"batch": 4, "layers": 2, "width": 32, "length": 16}
TWINS = [{"case": "gpt", "technique": "bf16 autocast", "settings": SETTINGS},
         {"case": "gpt", "technique": "fp16 + scaler", "settings": SETTINGS}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    workloads.like_libtorch(work.model)
    scaler = torch.amp.GradScaler("cpu", init_scale=settings.get("scale", 65536.0))
    while True:
        if twin["technique"] == "bf16 autocast":
            yield update_bf16(work.model, work.optimizer, *work.next_batch())
        else:
            yield update_fp16(work.model, work.optimizer, scaler, *work.next_batch())
