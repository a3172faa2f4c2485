"""Published training steps of transformers."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, AdamW

import transformers_plain as transformers
from optimizers import ApexO2, BertAdam, clip_gradients, scaler_step
from workload import CUDA, Workload, allow_tf32, build, host_tokens, split_groups


def lambda_bert(layers: int, batch: int, fp16: bool, torch2: bool) -> Workload:
    """Lambda's SQuAD fine-tuning: apex O2 and FusedAdam, or TF32 and BertAdam; the norm is clipped to 1."""
    allow_tf32(True)
    dim, heads = (768, 12) if layers == 12 else (1024, 16)
    model = build(lambda: transformers.BertQuestionAnswering(dim, layers, heads))
    used = [(n, p) for n, p in model.named_parameters() if "pooler" not in n]
    level2 = ApexO2(model, keep_batchnorm=False, used=[p for _, p in used]) if fp16 else None
    named = list(zip([n for n, _ in used], level2.trained() if level2 else [p for _, p in used]))
    groups = [{"params": [p for n, p in named if ("bias" in n or "norm" in n) != decayed],
               "weight_decay": 0.01 if decayed else 0.0} for decayed in (True, False)]
    optimizer = AdamW(groups, lr=3e-5, fused=True) if fp16 else BertAdam(groups, lr=3e-5, foreach=torch2)
    tokens = [host_tokens(n, batch, 384) for n in (30000, 2, 2)]
    spans = [host_tokens(384, batch) for _ in range(2)]

    def step(_: int) -> None:
        ids, types, mask, start, end = (t.to(CUDA) for t in (*tokens, *spans))
        start_logits, end_logits = model(ids, types, mask)
        if level2:
            start_logits, end_logits = start_logits.float(), end_logits.float()
        start.clamp_(0, 384)
        end.clamp_(0, 384)
        loss = (F.cross_entropy(start_logits, start, ignore_index=384)
                + F.cross_entropy(end_logits, end, ignore_index=384)) / 2
        if level2:
            level2.backward(loss)
        else:
            loss.backward()
        clip_gradients([p for group in groups for p in group["params"]])
        optimizer.step()
        if level2:
            level2.to_model()
            level2.zero_grad()
        else:
            optimizer.zero_grad(set_to_none=torch2)
        loss.item()

    return Workload(step, batch)


def milabench_transformer(make: Callable[[], nn.Module], shape: tuple[int, int], precision: str) -> Workload:
    """milabench's huggingface step: Adam, token copies each step, and no zero_grad: gradients accumulate."""
    allow_tf32("tf32" in precision, "tf32" in precision)
    model = build(make)
    optimizer = Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled="fp16" in precision)
    ids, labels = host_tokens(30000, *shape), host_tokens(30000, *shape)

    def step(_: int) -> None:
        x, y = ids.to(CUDA), labels.to(CUDA)
        with torch.autocast("cuda", torch.float16, enabled="fp16" in precision):
            loss = model(x, y)
        scaler.scale(loss).backward()
        scaler_step(scaler, optimizer)

    return Workload(step, shape[0])


def flagperf_transformer(make: Callable[[], nn.Module], inputs: list[Tensor], two_groups: bool,
                         early_item: bool = False) -> Workload:
    """FlagPerf's TF32 step with AdamW of torch 1.x, a loop; weight decay 0 still multiplied the weights there."""
    torch.backends.cudnn.deterministic = True
    allow_tf32(True)
    model = build(make)
    groups = split_groups(model, ("bias", "norm"), 1e-12) if two_groups else model.parameters()
    if two_groups:
        groups[0]["weight_decay"] = 1e-12
    optimizer = AdamW(groups, lr=5e-5, foreach=False)
    tensors = [t.to(CUDA) for t in inputs]

    def step(_: int) -> None:
        loss = model(*tensors)
        if early_item:
            loss.item()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return Workload(step, inputs[0].size(0))


def rasbt_gpt(stage: int) -> Workload:
    """The book's GPT-2 124M after `stage` of its seven changes; 15 steps and two evaluation batches a clock."""
    torch.set_float32_matmul_precision("high" if stage >= 2 else "highest")
    model = build(lambda: transformers.Gpt(stored_mask=stage < 1, native=stage >= 6, sdpa=stage >= 7))
    if stage >= 5:
        model.to(torch.bfloat16)
    optimizer = AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=True if stage >= 3 else None)
    ids, labels = (host_tokens(50257, 8, 1024, pinned=stage >= 4) for _ in range(2))

    def loss_of_batch() -> Tensor:
        x, y = ids.to(CUDA), labels.to(CUDA)
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    def evaluate() -> None:
        model.eval()
        with torch.no_grad():
            loss_of_batch().item()
            loss_of_batch().item()
        model.train()

    def step(_: int) -> None:
        optimizer.zero_grad()
        loss_of_batch().backward()
        optimizer.step()

    return Workload(step, 8 * 1024, measured=15, prologue=evaluate)


def masked_lm(style: str, large: bool = False) -> nn.Module:
    dim, layers, heads = (1024, 24, 16) if large else (768, 12, 12)
    return transformers.BertMaskedLM(dim, layers, heads, style)


def t5_inputs() -> list[Tensor]:
    source, target = host_tokens(32128, 32, 1024), host_tokens(32128, 32, 128)
    return [source, target, torch.ones_like(source), target.clone()]


def distilbert_inputs() -> list[Tensor]:
    ids = host_tokens(30522, 96, 512)
    return [ids, torch.ones_like(ids), host_tokens(2, 96)]
