"""Networks of the sequence benchmark that torchvision has not, in plain torch.nn, with the sizes of the real ones.

Their weights are torch's usual random ones. Each is written as its authors' code does the arithmetic; attention is torch's own function,
which every exporter knows.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


def heads_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[1, n, width] to [1, heads, n, width / heads]."""
    return x.view(x.shape[0], -1, heads, x.shape[2] // heads).transpose(1, 2)


def joined(x: torch.Tensor) -> torch.Tensor:
    """And back."""
    return x.transpose(1, 2).reshape(x.shape[0], -1, x.shape[1] * x.shape[3])


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, key_bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (
            nn.Linear(width, width),
            nn.Linear(width, width, key_bias),
            nn.Linear(width, width),
        )
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        query, key, value = (heads_of(part(x), self.heads) for part in (self.query, self.key, self.value))
        y: torch.Tensor = self.out(joined(F.scaled_dot_product_attention(query, key, value, attn_mask=mask)))
        return y


def feed_forward(width: int, inner: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class BertLayer(nn.Module):
    """Norms come after the sum."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.attention_norm = SelfAttention(width, heads), nn.LayerNorm(width, eps=1e-12)
        self.inner, self.norm = feed_forward(width, 4 * width), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.attention_norm(x + self.attention(x, mask))
        return self.norm(x + self.inner(x))  # type: ignore[no-any-return]


class Bert(nn.Module):
    """BERT, with the tanh of its first word's state; all words are of the first sentence."""

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 30522, length: int = 512
    ) -> None:
        super().__init__()
        self.words, self.places, self.kinds = (nn.Embedding(n, width) for n in (words, length, 2))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids: torch.Tensor, kept: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.norm(self.words(ids) + self.places.weight[: ids.shape[1]] + self.kinds.weight[0])
        mask = (1.0 - kept[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class WhisperLayer(nn.Module):
    """Norms come before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(width), SelfAttention(width, heads, key_bias=False)
        self.norm, self.inner = nn.LayerNorm(width), feed_forward(width, 4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.inner(self.norm(x))  # type: ignore[no-any-return]


class WhisperEncoder(nn.Module):
    """Thirty seconds of speech as 3000 columns of 80 mel bands, to 1500 states."""

    def __init__(self, layers: int = 4, width: int = 384, heads: int = 6, bands: int = 80, columns: int = 3000) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        rates = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
        angles = torch.arange(columns // 2)[:, None] * rates
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))
        self.layers = nn.ModuleList(WhisperLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.second(F.gelu(self.first(mel)))).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)  # type: ignore[no-any-return]


class Wav2Vec2Front(nn.Module):
    """The convolutions of wav2vec 2.0 (base), from samples to 49 states a second; a norm of each channel over time after the first."""

    KERNELS = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))  # size, stride

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        channels = (1, *[width] * len(self.KERNELS))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels[i], width, size, stride, bias=False) for i, (size, stride) in enumerate(self.KERNELS)
        )
        self.norm = nn.GroupNorm(width, width)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        x = samples[:, None]
        for number, convolution in enumerate(self.convolutions):
            x = convolution(x)
            x = F.gelu(x if number else self.norm(x))
        return x


class Lstm(nn.Module):
    def __init__(self, inputs: int = 80, width: int = 512, layers: int = 3) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, layers, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]  # type: ignore[no-any-return]
