"""A decoder as large as GPT-2 small, in the forms that engines want it in; all compute the same.

Prefill   many words at once: scores of the next word, and the keys and values of every layer
Step      one word; keys and values are buffers of the module, written at a position that is a buffer too
Growing   one word; keys and values come in and go out one longer: Step for engines that know of no state, as most exporters write it
Shared    one word; keys and values come in and go out in the same memory: what ONNX Runtime has an operator for
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from bench.networks import heads_of, joined

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]  # of query, key and value, [1, n, width]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        query, key, value = self.qkv(self.attention_norm(x)).chunk(3, -1)
        x = x + self.out(attend(query, key, value))
        return x + self.outer(F.gelu(self.inner(self.norm(x)), approximate="tanh"))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257, length: int = 1024
    ) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.02)  # the scores are products with it
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def run(self, ids: torch.Tensor, places: torch.Tensor, attends: Sequence[Attend]) -> torch.Tensor:
        """Scores of the word after the last."""
        x = self.words(ids) + places
        for block, attend in zip(self.blocks, attends, strict=True):
            x = block(x, attend)
        return F.linear(self.norm(x[:, -1]), self.words.weight)


class Form(nn.Module):
    """What the forms share: the decoder, and a function to attend with for each layer."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def attends(self, attend: Callable[..., torch.Tensor]) -> list[Attend]:
        """`attend(layer, query, key, value)` for each layer, on heads."""
        heads = self.decoder.heads

        def of(layer: int) -> Attend:
            return lambda *parts: joined(attend(layer, *(heads_of(part, heads) for part in parts)))

        return [of(layer) for layer in range(len(self.decoder.blocks))]


class Prefill(Form):
    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept: list[torch.Tensor] = []

        def attend(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            kept.extend((key, value))
            return F.scaled_dot_product_attention(query, key, value, is_causal=True)

        scores = self.decoder.run(ids, self.decoder.places.weight[: ids.shape[1]], self.attends(attend))
        return scores, *kept


class Step(Form):
    """Starts after the words whose keys and values are given."""

    def __init__(self, decoder: Decoder, past: Sequence[torch.Tensor], room: int) -> None:
        super().__init__(decoder)
        length = past[0].shape[2]
        for number, kept in enumerate(past):  # key, value, key, value, ...
            self.register_buffer(f"cache_{number}", F.pad(kept, (0, 0, 0, room - length)))
        self.register_buffer("position", torch.tensor([length]))
        self.register_buffer("numbers", torch.arange(room), persistent=False)

    def forward(self, word: torch.Tensor) -> torch.Tensor:
        position = self.position
        seen = (self.numbers <= position)[None, None, None]

        def attend(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            keys, values = self.get_buffer(f"cache_{2 * layer}"), self.get_buffer(f"cache_{2 * layer + 1}")
            keys.index_copy_(2, position, key)
            values.index_copy_(2, position, value)
            return F.scaled_dot_product_attention(query, keys, values, attn_mask=seen)

        scores = self.decoder.run(word, self.decoder.places(position), self.attends(attend))
        self.position += 1
        return scores


class Growing(Form):
    def forward(self, word: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept: list[torch.Tensor] = []
        length = past[0].shape[2]

        def attend(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            keys, values = torch.cat([past[2 * layer], key], 2), torch.cat([past[2 * layer + 1], value], 2)
            kept.extend((keys, values))
            return F.scaled_dot_product_attention(query, keys, values)

        scores = self.decoder.run(word, self.decoder.places.weight[length : length + 1], self.attends(attend))
        return scores, *kept


class GroupQueryAttention(torch.autograd.Function):
    """ONNX Runtime's operator; in torch it stands for nothing but its shapes."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
        _, _, keys, values, *_ = rest
        return query.clone(), keys.clone(), values.clone()

    @staticmethod
    def symbolic(
        g: Any, query: Any, key: Any, value: Any, keys: Any, values: Any, last: Any, total: Any, heads: int
    ) -> Any:
        made = g.op(
            "com.microsoft::GroupQueryAttention", query, key, value, keys, values, last, total,
            num_heads_i=heads, kv_num_heads_i=heads, outputs=3,
        )  # fmt: skip
        for result, like in zip(made, (query, keys, values), strict=True):
            result.setType(like.type())
        return made


class Shared(Form):
    """Only to be exported to ONNX."""

    def forward(self, word: torch.Tensor, position: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept: list[torch.Tensor] = []
        last, total = position.int(), (position + 1).int()

        def of(layer: int) -> Attend:
            def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
                pair = past[2 * layer : 2 * layer + 2]
                y, *pair = GroupQueryAttention.apply(query, key, value, *pair, last, total, self.decoder.heads)
                kept.extend(pair)
                return y

            return attend

        scores = self.decoder.run(word, self.decoder.places(position), [of(i) for i in range(len(past) // 2)])
        return scores, *kept
