"""Models from torch.export that write into their own buffers: the same numbers as torch's module, call after call."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import penlight
from penlight.errors import CaptureError, QuantizationError


def follow(module: nn.Module, calls: Sequence[tuple[Any, ...]], model: penlight.Model, tolerance: float = 1e-5) -> None:
    """The same calls to both, twice: after a reset it all comes again."""
    for _ in range(2):
        torch_module = copy.deepcopy(module)
        for args in calls:
            with torch.no_grad():
                expected = torch_module(*args)
            torch.testing.assert_close(model(*args), expected, rtol=tolerance, atol=tolerance)
        kept = {**dict(torch_module.named_buffers()), **dict(torch_module.named_parameters())}
        for name, value in model.state().items():
            np.testing.assert_allclose(value, kept[name].detach().float().numpy(), rtol=tolerance, atol=tolerance)
        model.reset()


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("rows", torch.tensor(7), persistent=False)
        self.register_buffer("odd", torch.tensor([True, False]))

    def forward(self, x: torch.Tensor) -> Any:
        before = self.calls.clone()
        self.calls += 1
        self.rows.add_(x.shape[0])
        self.odd.logical_not_()
        return x * self.calls, before, self.rows, self.odd


class Average(nn.Module):
    """Written, read, written again; the last value is given back too."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, 6, dtype=dtype))
        self.register_buffer("last", torch.zeros(6, dtype=dtype))

    def forward(self, x: torch.Tensor) -> Any:
        self.mean.mul_(0.9).add_(x, alpha=0.1)
        y = self.mean - self.last
        self.last.copy_(x)
        self.mean.clamp_(-0.5, 0.5)
        return y, self.mean, self.last


class Cache(nn.Module):
    """Each way to write rows into a cache."""

    def __init__(self, way: str, size: int = 40) -> None:
        super().__init__()
        self.way = way
        self.register_buffer("cache", torch.zeros(2, 3, size, 16))
        self.register_buffer("pos", torch.zeros((), dtype=torch.int64))

    def forward(self, k: torch.Tensor) -> Any:
        n = k.shape[2]
        at = self.pos + torch.arange(n)
        if self.way == "index_copy":
            self.cache.index_copy_(2, at, k)
        elif self.way == "index_put":
            self.cache[:, :, at] = k
        elif self.way == "scatter":
            self.cache.scatter_(2, at[None, None, :, None].expand(2, 3, n, 16), k)
        elif self.way == "slice":
            start = self.pos.item()
            torch._check(start >= 0)
            torch._check(start + n <= self.cache.shape[2])
            self.cache[:, :, start : start + n] = k
        elif self.way == "narrow":
            start = self.pos.item()
            torch._check(start >= 0)
            torch._check(start + n <= self.cache.shape[2])
            self.cache.narrow(2, start, n).copy_(k)
        elif self.way == "slice_scatter":
            self.cache.copy_(torch.slice_scatter(self.cache, k[:, :, :1], 2, 5, 6))
        elif self.way == "inner":
            self.cache[:1, 1:, 3:4] = k[:1, 1:, :1]
            self.cache[1][0, 2] = k[1, 0, 0]
        elif self.way == "roll":
            self.cache.copy_(torch.cat([self.cache[:, :, n:], k], 2))
        elif self.way == "where":
            here = (torch.arange(self.cache.shape[2]) == self.pos)[None, None, :, None]
            self.cache.copy_(torch.where(here, k[:, :, :1], self.cache))
        self.pos += n
        return self.cache.sum(2), self.pos * 2


WAYS = ("index_copy", "index_put", "scatter", "slice", "narrow", "slice_scatter", "inner", "roll", "where")


def cache_calls(*sizes: int) -> list[tuple[torch.Tensor]]:
    rand = torch.Generator().manual_seed(1)
    return [(torch.randn(2, 3, n, 16, generator=rand),) for n in sizes]


def test_counters_and_flags() -> None:
    calls = [(torch.randn(n, 3),) for n in (2, 5, 2, 1)]
    follow(Counter(), calls, penlight.optimize(Counter(), calls[0], dynamic_shapes=({0: Dim("n", min=1, max=9)},)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_written_and_read_in_one_run(dtype: torch.dtype) -> None:
    """Buffers of halves are kept in f32, rounded as torch stores them."""
    rand = torch.Generator().manual_seed(0)
    calls = [(torch.randn(6, generator=rand).to(dtype),) for _ in range(5)]
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
    follow(Average(dtype), calls, penlight.optimize(Average(dtype), calls[0]), tolerance)


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_a_cache(way: str) -> None:
    model = penlight.optimize(Cache(way), cache_calls(3)[0], dynamic_shapes=({2: Dim("n", min=1, max=9)},))
    follow(Cache(way), cache_calls(5, 1, 1, 9, 2), model)


def test_half_of_a_cache_is_rounded_where_it_is_written() -> None:
    """Elements that are replaced are rounded, the others are not gone through: the cache stays where it is."""
    module = Cache("index_copy").half()
    calls = [(x.half(),) for (x,) in cache_calls(3, 1, 2)]
    model = penlight.optimize(module, calls[0], dynamic_shapes=({2: Dim("n", min=1, max=9)},))
    follow(module, calls, model, 2e-2)
    model(*calls[0])
    kept = model.state()["cache"]
    np.testing.assert_array_equal(kept, kept.astype(np.float16).astype(np.float32))
    assert model.arena_bytes() < kept.nbytes


class Normalized(nn.Module):
    """Running statistics, as BatchNorm's in training, and what they say in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> Any:
        y = F.batch_norm(x, self.norm.running_mean, self.norm.running_var, training=True, momentum=0.2)
        return y, F.batch_norm(x, self.norm.running_mean, self.norm.running_var)


class NormalizedOneByOne(Normalized):
    def forward(self, x: torch.Tensor) -> Any:
        y = F.instance_norm(x, self.norm.running_mean, self.norm.running_var, use_input_stats=True)
        return y, self.norm.running_mean, x + self.norm.running_var[:, None, None]


@pytest.mark.parametrize("kind", [Normalized, NormalizedOneByOne], ids=lambda k: k.__name__)
def test_running_statistics(kind: type[nn.Module]) -> None:
    calls = [(torch.randn(n, 4, 5, 6),) for n in (2, 3, 2)]
    model = penlight.optimize(kind(), calls[0], dynamic_shapes=({0: Dim("n", min=2, max=9)},))
    follow(kind(), calls, model, 1e-4)
    assert set(model.state()) == {"norm.running_mean", "norm.running_var"}


def test_an_exported_program_in_training_mode() -> None:
    """optimize(module) captures eval mode; an ExportedProgram is what it is."""
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).train()
    calls = [(torch.randn(2, 3, 7, 7),) for _ in range(3)]
    model = penlight.optimize(torch.export.export(module, calls[0]))
    follow(module, calls, model, 1e-4)
    assert set(model.state()) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert [i.name for i in model.inputs()] == ["input"]
    assert len(model.outputs()) == 1


def test_a_functional_exported_program() -> None:
    """With what run_decompositions makes of it, which says itself what it changes."""
    ep = torch.export.export(Counter(), (torch.randn(2, 3),)).run_decompositions({})
    follow(Counter(), [(torch.randn(2, 3),)] * 3, penlight.optimize(ep))


def test_optimizing_leaves_the_module_as_it_was() -> None:
    module = Counter()
    penlight.optimize(
        module, (torch.randn(2, 3),), dynamic_shapes="auto", bundled_inputs={"forward": [(torch.randn(2, 3),)]}
    )
    assert (int(module.calls), int(module.rows)) == (0, 7)


class Decoder(nn.Module):
    """A small GPT: embeddings, blocks of attention with a key/value cache each, and the tokens' scores."""

    def __init__(self, longest: int = 24, width: int = 32, heads: int = 4, blocks: int = 2, words: int = 50) -> None:
        super().__init__()
        self.heads, self.longest = heads, longest
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList()
        for _ in range(blocks):
            block = nn.ModuleDict({
                "first": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
                "second": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
            })  # fmt: skip
            block.register_buffer("cached_keys", torch.zeros(1, heads, longest, width // heads))
            block.register_buffer("cached_values", torch.zeros(1, heads, longest, width // heads))
            self.blocks.append(block)
        self.register_buffer("pos", torch.zeros((), dtype=torch.int64))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        n = tokens.shape[1]
        at = self.pos + torch.arange(n)
        x = self.words(tokens) + self.places(at)
        mask = torch.arange(self.longest)[None, :] <= at[:, None]
        for block in self.blocks:
            q, k, v = (
                t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in block["qkv"](block["first"](x)).chunk(3, -1)
            )
            block.cached_keys.index_copy_(2, at, k)
            block.cached_values.index_copy_(2, at, v)
            y = F.scaled_dot_product_attention(q, block.cached_keys, block.cached_values, attn_mask=mask)
            x = x + block["out"](y.transpose(1, 2).flatten(2))
            x = x + block["down"](F.gelu(block["up"](block["second"](x))))
        self.pos += n
        return x @ self.words.weight.T

    def whole(self, tokens: torch.Tensor) -> torch.Tensor:
        """Without a cache: all tokens at once."""
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            q, k, v = (
                t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in block["qkv"](block["first"](x)).chunk(3, -1)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["out"](y.transpose(1, 2).flatten(2))
            x = x + block["down"](F.gelu(block["up"](block["second"](x))))
        return x @ self.words.weight.T


def test_a_decoder_with_key_value_caches() -> None:
    """Exported once: a prompt of any length, then token after token. As torch's module with its caches, and as one without any."""
    torch.manual_seed(0)
    module = Decoder()
    tokens = torch.randint(0, 50, (1, 20))
    length = Dim("length", min=1, max=24)
    model = penlight.optimize(module, (tokens[:, :7],), dynamic_shapes=({1: length},))
    calls = [(tokens[:, :9],), *((tokens[:, i : i + 1],) for i in range(9, 20))]
    follow(module, calls, model, 1e-4)
    with torch.no_grad():
        whole = module.whole(tokens)
    parts = torch.cat([model(*args) for args in calls], 1)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-4)
    assert not [s for s in model.profile(*calls[1]) if s.key.startswith("copy") or s.copied]


def test_complex_and_shared_buffers_are_errors_in_words() -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("phase", torch.ones(3, dtype=torch.complex64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.phase.mul_(1j)
            return x * self.phase.real

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.zeros(4, 3))
            self.register_buffer("row", self.table[0])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.table += 1
            return x + self.row

    with pytest.raises(CaptureError, match=r"buffer phase, of complex numbers.*view_as_real"):
        penlight.optimize(Turned(), (torch.randn(3),))
    with pytest.raises(CaptureError, match=r"(table and row|row and table) share their memory"):
        penlight.optimize(Shared(), (torch.randn(3),))


def test_quantizing_a_model_with_state_is_an_error_in_words() -> None:
    module = Decoder()
    tokens = torch.randint(0, 50, (1, 3))
    with pytest.raises(QuantizationError, match=r"keeps state \(.*pos.*weights="):
        penlight.quantize(module, [(tokens,)])
    model = penlight.quantize(module, example_inputs=(tokens,), weights="f16")
    follow(module, [(tokens,)] * 3, model, 1e-2)


def test_scripts_keep_their_state_in_the_vm() -> None:
    """It is the module's, for all its methods and threads."""
    model = penlight.optimize(torch.jit.script(Counter()), (torch.randn(2, 3),))
    assert [int(model(torch.ones(2, 3))[0][0, 0]) for _ in range(3)] == [1, 2, 3]
