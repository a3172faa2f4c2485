"""Lesson 02 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region update
import torch
import torch.nn.functional as F


def update(w, rate, target, updates):
    # Each operator is SIMD code on torch.get_num_threads() threads (default: all cores), and it reads and writes all of
    # w for 3 FLOP a weight: more updates are more bytes as well. torch.compile(update) makes one loop of them.
    for _ in range(updates):
        w.lerp_(target, rate)  # w += rate * (target - w)
# endregion


TWINS = [{"case": "compute-bound", "technique": technique, "tolerance": 1e-5,
          "why": "lerp rounds three times in an update, an FMA once",
          "settings": {"weights": 10000, "updates": 16, "passes": 2}} for technique in ("SIMD", "SIMD + threads")]


def train(workloads, twin, settings, seed):
    torch.manual_seed(seed)
    w, target = torch.randn(settings["weights"]), torch.tensor(1.5)
    some = w[::settings["weights"] // 64]
    while True:
        update(w, 2**-13, target, settings["updates"] * settings["passes"])
        yield F.mse_loss(some, target.expand_as(some))
