"""Transformers of the published rows, in plain torch.nn."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BertAttention(nn.Module):
    """Self-attention of BERT: `seq_first` (DeepLearningExamples), `eager` or `sdpa` (transformers)."""

    def __init__(self, dim: int, heads: int, style: str) -> None:
        super().__init__()
        self.heads, self.style = heads, style
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)
        if self.style == "seq_first":
            return self.seq_first(q, k, v, mask)
        batch, length, dim = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        if self.style == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)
        else:
            scores = q @ k.transpose(-1, -2) / math.sqrt(dim // self.heads) + mask
            y = self.dropout(F.softmax(scores, dim=-1)) @ v
        return y.transpose(1, 2).contiguous().view(batch, length, dim)

    def seq_first(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        length, batch, dim = q.shape
        q, k, v = (t.view(length, batch * self.heads, -1) for t in (q, k, v))
        scores = torch.bmm(q.transpose(0, 1), k.permute(1, 2, 0)).view(batch, self.heads, length, length)
        scores = scores / math.sqrt(dim // self.heads) + mask
        weights = self.dropout(F.softmax(scores, dim=-1)).view(-1, length, length)
        return torch.bmm(weights, v.transpose(0, 1)).transpose(0, 1).contiguous().view(length, batch, dim)


class BertLayer(nn.Module):
    """Attention and feed-forward, each with dropout and a post-LayerNorm."""

    def __init__(self, dim: int, heads: int, style: str) -> None:
        super().__init__()
        self.attention = BertAttention(dim, heads, style)
        self.dense = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim, eps=1e-12)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.norm2 = nn.LayerNorm(dim, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.approximate = "tanh" if style == "seq_first" else "none"

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(self.dropout(self.dense(self.attention(x, mask))) + x)
        y = F.gelu(self.up(x), approximate=self.approximate)
        return self.norm2(self.dropout(self.down(y)) + x)


class Bert(nn.Module):
    """Embeddings and layers of BERT; the mask that is added to the scores is made from one of ones and zeros."""

    def __init__(self, dim: int, layers: int, heads: int, vocabulary: int, style: str) -> None:
        super().__init__()
        self.style = style
        self.words = nn.Embedding(vocabulary, dim, padding_idx=None if style == "seq_first" else 0)
        self.positions = nn.Embedding(512, dim)
        self.types = nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(BertLayer(dim, heads, style) for _ in range(layers))

    def forward(self, ids: Tensor, types: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        positions = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
        if self.style == "seq_first":
            positions = positions.expand_as(ids)
        types = torch.zeros_like(positions).expand_as(ids) if types is None else types
        mask = torch.ones(ids.shape, device=ids.device) if mask is None else mask
        x = self.words(ids) + self.types(types)
        x += self.positions(positions)
        x = self.dropout(self.norm(x))
        if self.style == "sdpa":  # transformers asks whether the mask masks nothing, and then drops it
            torch.all(mask == 1).item()
            mask = None
        else:
            lowest = -10000.0 if self.style == "seq_first" else torch.finfo(x.dtype).min
            mask = (1.0 - mask[:, None, None, :].to(self.words.weight.dtype)) * lowest
        if self.style == "seq_first":
            x = x.transpose(0, 1)
        for layer in self.layers:
            x = layer(x, mask)
        return x.transpose(0, 1).contiguous() if self.style == "seq_first" else x


class BertQuestionAnswering(nn.Module):
    """BERT of DeepLearningExamples with a span head; the pooler runs, and its result is unused."""

    def __init__(self, dim: int, layers: int, heads: int, vocabulary: int = 30528) -> None:
        super().__init__()
        self.bert = Bert(dim, layers, heads, vocabulary, "seq_first")
        self.pooler = nn.Linear(dim, dim)
        self.span = nn.Linear(dim, 2)

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.bert(ids, types, mask)
        torch.tanh(self.pooler(x[:, 0]))
        start, end = self.span(x).split(1, dim=-1)
        return start.squeeze(-1), end.squeeze(-1)


class BertMaskedLM(nn.Module):
    """BertForMaskedLM of transformers: dense, GELU, LayerNorm and the tied decoder; the loss covers every token."""

    def __init__(self, dim: int, layers: int, heads: int, style: str, vocabulary: int = 30522) -> None:
        super().__init__()
        self.bert = Bert(dim, layers, heads, vocabulary, style)
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.decoder = nn.Linear(dim, vocabulary)
        self.decoder.weight = self.bert.words.weight

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        logits = self.decoder(self.norm(F.gelu(self.dense(self.bert(ids)))))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


class DistilBertLayer(nn.Module):
    """DistilBERT's layer: the query is scaled, masked_fill masks, and nothing is dropped behind the attention."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.dense = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim, eps=1e-12)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.norm2 = nn.LayerNorm(dim, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, dim = x.shape
        q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = (q / math.sqrt(dim // self.heads)) @ k.transpose(2, 3)
        hidden = (mask == 0).view(batch, 1, 1, length).expand_as(scores)
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        y = self.dropout(F.softmax(scores, dim=-1)) @ v
        y = self.dense(y.transpose(1, 2).contiguous().view(batch, length, dim))
        x = self.norm1(y + x)
        return self.norm2(self.dropout(self.down(F.gelu(self.up(x)))) + x)


class DistilBertClassifier(nn.Module):
    """DistilBertForSequenceClassification with two classes."""

    def __init__(self, dim: int = 768, layers: int = 6, heads: int = 12, vocabulary: int = 30522) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.positions = nn.Embedding(512, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(DistilBertLayer(dim, heads) for _ in range(layers))
        self.pre_classifier, self.classifier = nn.Linear(dim, dim), nn.Linear(dim, 2)
        self.head_dropout = nn.Dropout(0.2)

    def forward(self, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        positions = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
        x = self.dropout(self.norm(self.words(ids) + self.positions(positions)))
        for layer in self.layers:
            x = layer(x, mask)
        x = self.head_dropout(F.relu(self.pre_classifier(x[:, 0])))
        return F.cross_entropy(self.classifier(x).view(-1, 2), labels.view(-1))


class T5Norm(nn.Module):
    """Root-mean-square norm: elementary operations, or one kernel where apex is importable."""

    def __init__(self, dim: int, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        if self.fused:
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


def relative_bias(table: nn.Embedding, queries: int, keys: int, bidirectional: bool, device: torch.device) -> Tensor:
    """T5's bias (1, heads, queries, keys): exact buckets near the diagonal, logarithmic ones up to 128 away."""
    distance = torch.arange(keys, device=device)[None, :] - torch.arange(queries, device=device)[:, None]
    buckets, offset = table.num_embeddings, 0
    if bidirectional:
        buckets //= 2
        offset = (distance > 0).to(torch.long) * buckets
        distance = torch.abs(distance)
    else:
        distance = -torch.min(distance, torch.zeros_like(distance))
    exact = buckets // 2
    ratio = torch.log(distance.float() / exact) / math.log(128 / exact)
    far = exact + (ratio * (buckets - exact)).to(torch.long)
    far = torch.min(far, torch.full_like(far, buckets - 1))
    return table(offset + torch.where(distance < exact, distance, far)).permute(2, 0, 1).unsqueeze(0)


class T5Attention(nn.Module):
    """T5's eager attention behind its norm: no scale, no bias in the projections, softmax in fp32."""

    def __init__(self, dim: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.norm = T5Norm(dim, fused)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, source: Tensor | None, bias: Tensor) -> Tensor:
        y = self.norm(x)
        source = y if source is None else source
        q, k, v = (f(t).view(t.size(0), -1, self.heads, t.size(2) // self.heads).transpose(1, 2)
                   for f, t in ((self.q, y), (self.k, source), (self.v, source)))
        scores = q @ k.transpose(3, 2)
        scores += bias
        weights = self.dropout(F.softmax(scores.float(), dim=-1).type_as(scores))
        y = self.o((weights @ v).transpose(1, 2).contiguous().view(x.shape))
        return x + self.dropout(y)


class T5Block(nn.Module):
    """Self-attention, cross-attention in the decoder, feed-forward with ReLU."""

    def __init__(self, dim: int, heads: int, decoder: bool, fused: bool) -> None:
        super().__init__()
        self.attention = T5Attention(dim, heads, fused)
        self.cross = T5Attention(dim, heads, fused) if decoder else None
        self.norm = T5Norm(dim, fused)
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, bias: Tensor, source: Tensor | None, cross_bias: Tensor | None) -> Tensor:
        x = self.attention(x, None, bias)
        if self.cross is not None:
            x = self.cross(x, source, cross_bias)
        y = self.dropout(F.relu(self.up(self.norm(x))))
        y = self.down(y.to(self.down.weight.dtype))  # transformers casts to the weights' type, under autocast too
        return x + self.dropout(y)


class T5(nn.Module):
    """T5ForConditionalGeneration; the embedding is shared by both sides and the (scaled) head."""

    def __init__(self, dim: int = 512, layers: int = 6, heads: int = 8, vocabulary: int = 32128,
                 fused: bool = False) -> None:
        super().__init__()
        self.shared = nn.Embedding(vocabulary, dim)
        self.encoder = nn.ModuleList(T5Block(dim, heads, False, fused) for _ in range(layers))
        self.decoder = nn.ModuleList(T5Block(dim, heads, True, fused) for _ in range(layers))
        self.encoder_bias, self.decoder_bias = nn.Embedding(32, heads), nn.Embedding(32, heads)
        self.encoder_norm, self.decoder_norm = T5Norm(dim, fused), T5Norm(dim, fused)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids: Tensor, labels: Tensor, mask: Tensor | None = None, inputs: Tensor | None = None) -> Tensor:
        (batch, sources), targets, device = ids.shape, labels.size(1), ids.device
        lowest = torch.finfo(torch.float32).min
        mask = torch.ones(ids.shape, device=device) if mask is None else mask
        source_mask = (1.0 - mask[:, None, None, :].to(torch.float32)) * lowest
        bias = relative_bias(self.encoder_bias, sources, sources, True, device) + source_mask
        x = self.dropout(self.shared(ids))
        for block in self.encoder:
            x = block(x, bias, None, None)
        source = self.dropout(self.encoder_norm(x))

        if inputs is None:  # labels shifted to the right
            inputs = labels.new_zeros(labels.shape)
            inputs[:, 1:] = labels[:, :-1].clone()
            inputs.masked_fill_(inputs == -100, 0)
        order = torch.arange(targets, device=device)
        causal = (order[None, None, :].repeat(batch, targets, 1) <= order[None, :, None]).to(torch.float32)
        target_mask = (1.0 - causal[:, None, :, :] * torch.ones(labels.shape, device=device)[:, None, None, :]) * lowest
        bias = relative_bias(self.decoder_bias, targets, targets, False, device) + target_mask
        heads = self.decoder_bias.embedding_dim
        cross_type = torch.float16 if torch.is_autocast_enabled() else torch.float32
        cross_bias = torch.zeros((1, heads, targets, sources), device=device, dtype=cross_type) + source_mask
        x = self.dropout(self.shared(inputs))
        for block in self.decoder:
            x = block(x, bias, source, cross_bias)
        x = self.dropout(self.decoder_norm(x)) * self.shared.embedding_dim ** -0.5
        logits = F.linear(x, self.shared.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-100)


class ElementaryLayerNorm(nn.Module):
    """LayerNorm in elementary operations, as the book writes it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.shift


class ElementaryGELU(nn.Module):
    """GELU (tanh) in elementary operations; its factor is a tensor on the CPU."""

    def forward(self, x: Tensor) -> Tensor:
        factor = torch.sqrt(torch.tensor(2.0 / torch.pi, device="cpu"))
        return 0.5 * x * (1 + torch.tanh(factor * (x + 0.044715 * torch.pow(x, 3))))


class GptAttention(nn.Module):
    """Causal attention of the book: three projections and a mask, or one projection and SDPA."""

    def __init__(self, dim: int, heads: int, context: int, stored_mask: bool, sdpa: bool) -> None:
        super().__init__()
        self.heads, self.sdpa = heads, sdpa
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim if sdpa else dim, bias=False) for _ in range(1 if sdpa else 3))
        self.out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("mask", torch.triu(torch.ones(context, context), diagonal=1) if stored_mask else None)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        if self.sdpa:
            q, k, v = self.qkv[0](x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            p = 0.1 if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        else:
            q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in self.qkv)
            scores = q @ k.transpose(2, 3)
            if self.mask is None:
                mask = torch.triu(torch.ones(length, length, dtype=torch.bool, device=x.device), diagonal=1)
            else:
                mask = self.mask.bool()[:length, :length]
            scores.masked_fill_(mask, -torch.inf)
            y = self.dropout(torch.softmax(scores / q.shape[-1] ** 0.5, dim=-1)) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, dim))


class GptBlock(nn.Module):
    """Pre-norm attention and feed-forward, each with dropout on the way back to the residual."""

    def __init__(self, dim: int, heads: int, context: int, stored_mask: bool, native: bool, sdpa: bool) -> None:
        super().__init__()
        norm = nn.LayerNorm if native else ElementaryLayerNorm
        gelu = nn.GELU(approximate="tanh") if native else ElementaryGELU()
        self.attention = GptAttention(dim, heads, context, stored_mask, sdpa)
        self.feed_forward = nn.Sequential(nn.Linear(dim, 4 * dim), gelu, nn.Linear(4 * dim, dim))
        self.norm1, self.norm2 = norm(dim), norm(dim)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.attention(self.norm1(x))) + x
        return self.dropout(self.feed_forward(self.norm2(x))) + x


class Gpt(nn.Module):
    """GPT-2 124M of the book: the head is not tied."""

    def __init__(self, stored_mask: bool, native: bool, sdpa: bool, dim: int = 768, layers: int = 12, heads: int = 12,
                 vocabulary: int = 50257, context: int = 1024) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.dropout = nn.Dropout(0.1)
        blocks = [GptBlock(dim, heads, context, stored_mask, native, sdpa) for _ in range(layers)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(dim) if native else ElementaryLayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        return self.head(self.norm(self.blocks(self.dropout(x))))
