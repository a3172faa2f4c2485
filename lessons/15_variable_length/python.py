"""Lesson 15 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region packed
import torch
import torch.nn.functional as F


def pack(texts):  # ids of different lengths, each with one id more than it trains on
    ids, targets = torch.cat([text[:-1] for text in texts]), torch.cat([text[1:] for text in texts])  # (total)
    places = torch.cat([torch.arange(len(text) - 1) for text in texts])  # positions begin again with each text
    text_of = torch.repeat_interleave(torch.arange(len(texts)), torch.tensor([len(text) - 1 for text in texts]))
    mask = (text_of[:, None] == text_of[None, :]).tril()  # (total, total): True where a token may look
    return ids, targets, places, mask


def attention(q, k, v, mask):  # (1, H, total, D) each
    # Right everywhere, but all total x total pairs are computed, and a mask rules FlashAttention out. What skips other
    # texts' pairs: flash_attn_varlen_func (cu_seqlens), flex_attention with a document mask, jagged nested tensors.
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
# endregion


TWINS = [{"case": "gpt", "technique": "packed, one mask",
          "settings": {"batch": 4, "layers": 2, "width": 32, "length": 32}}]


def train(workloads, twin, settings, seed):
    work = workloads.GptTraining(settings, seed)
    for texts in workloads.speeches(settings, seed):
        ids, targets, places, mask = pack(texts)
        for block in work.model.blocks:
            block.attention = lambda q, k, v, mask=mask: attention(q, k, v, mask)
        work.optimizer.zero_grad()
        h = work.model.embed(ids[None], places[None])
        for block in work.model.blocks:
            h = block(h)
        loss = F.cross_entropy(work.model.head(work.model.norm(h)).flatten(0, 1), targets)
        loss.backward()
        work.optimizer.step()
        yield loss.detach()
