"""The public API as a user meets it: containers, dtypes, strides, threads, errors, files."""

from __future__ import annotations

import copy
import functools
import io
import os
import pickle
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from tests.compare import assert_same

AUTO = torch.export.Dim.AUTO


class Pair(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor


class Nested(nn.Module):
    """Takes and returns about everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.mix = nn.Linear(6, 6)
        self.mix.weight = nn.Parameter(self.table.weight[:6].detach().clone())
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))

    def forward(
        self, words: torch.Tensor, parts: dict[str, Any], flags: list[torch.Tensor], *, gain: float = 2.0
    ) -> Any:
        x = self.mix(self.table(words)) * self.scale
        x = torch.where(flags[0].unsqueeze(-1), x, -x) * gain + parts["shift"][0]
        pair = Pair(x.amin(-1), x.amax(-1))
        return OrderedDict(
            out=x, stats=[x.mean(), (x.sum(1), {"count": flags[1].sum(1)})], pair=pair, words=words, nothing=None
        )


def nested_inputs(batch: int = 3, length: int = 5) -> tuple[Any, ...]:
    g = torch.Generator().manual_seed(batch * 100 + length)
    words = torch.randint(0, 11, (batch, length), generator=g)
    flags = [torch.rand(batch, length, generator=g) > 0.5, torch.rand(batch, length, generator=g) > 0.3]
    return words, {"shift": (torch.randn(6, generator=g),)}, flags


@pytest.fixture(scope="module")
def nested() -> tuple[Nested, penlight.Model]:
    torch.manual_seed(0)
    module = Nested().eval()
    shapes = {"words": {0: AUTO, 1: AUTO}, "parts": {"shift": (None,)}, "flags": [{0: AUTO, 1: AUTO}] * 2, "gain": None}
    return module, penlight.optimize(module, nested_inputs(), kwargs={"gain": 0.5}, dynamic_shapes=shapes)


@pytest.mark.parametrize(("batch", "length"), [(3, 5), (2, 9), (7, 2)])
def test_containers_come_back_as_they_went(nested: tuple[Nested, penlight.Model], batch: int, length: int) -> None:
    module, model = nested
    inputs = nested_inputs(batch, length)
    with torch.no_grad():
        expected = module(*inputs, gain=0.5)
    got = model(*inputs, gain=0.5)
    assert_same(got, expected, 1e-5)
    assert isinstance(got, OrderedDict)
    assert isinstance(got["stats"][1], tuple)
    assert got["pair"]._fields == ("low", "high")


def test_arguments_in_words(nested: tuple[Nested, penlight.Model]) -> None:
    _, model = nested
    words, parts, flags = nested_inputs()
    with pytest.raises(penlight.InputError, match="gain"):
        model(words, parts, flags, gain=3.0)
    with pytest.raises(penlight.InputError, match="flags"):
        model(words, parts, flags[0], gain=0.5)
    with pytest.raises(penlight.InputError, match="shift"):
        model(words, {"shif": parts["shift"]}, flags, gain=0.5)


def test_runtime_errors_have_parts(nested: tuple[Nested, penlight.Model]) -> None:
    _, model = nested
    words, parts, flags = nested_inputs()
    with pytest.raises(penlight.RunError) as wrong_dtype:
        model(words.float(), parts, flags, gain=0.5)
    assert (wrong_dtype.value.status, wrong_dtype.value.expected) == ("input", "i64 of rank 2")
    assert "words" in wrong_dtype.value.tensor
    with pytest.raises(penlight.RunError) as wrong_size:
        model(words, {"shift": (torch.zeros(7),)}, flags, gain=0.5)
    assert "size 6 in dim 0" in wrong_size.value.expected
    with pytest.raises(penlight.RunError, match="follows from"):
        model(words, parts, [flags[0][:2], flags[1]], gain=0.5)
    words = words.clone()
    words[1, 2] = 11
    with pytest.raises(penlight.RunError) as outside:
        model(words, parts, flags, gain=0.5)
    assert outside.value.op.startswith("embedding")
    assert outside.value.got == "11"
    assert "test_api.py" in outside.value.source


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 20, 3, padding=1)
        self.head = nn.Linear(20, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.conv(x).relu().mean((2, 3)))


@pytest.fixture(scope="module")
def small() -> tuple[Small, penlight.Model]:
    torch.manual_seed(0)
    module = Small().eval()
    return module, penlight.optimize(module, (torch.rand(2, 3, 16, 16),), dynamic_shapes=[{0: AUTO, 2: AUTO, 3: AUTO}])


def run_torch(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return module(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.rand(1, 3, 9, 33),
        lambda: torch.rand(3, 3, 17, 5).to(memory_format=torch.channels_last),
        lambda: torch.rand(2, 9, 8, 3).permute(0, 3, 1, 2),
        lambda: torch.rand(4, 6, 20, 20)[::2, ::2, 3:, 1::3],
        lambda: torch.rand(1, 3, 8, 8).expand(4, 3, 8, 8),
        lambda: torch.rand(2, 1, 1, 8).expand(2, 3, 8, 8),
        lambda: torch.rand(2, 3, 8, 8, requires_grad=True),
        lambda: torch.full((2, 3, 8, 8), float("inf")),
    ],
    ids=["odd", "channels last", "permuted", "sliced", "batch expanded", "channels expanded", "requires grad", "inf"],
)
def test_strides(small: tuple[Small, penlight.Model], make: Any) -> None:
    module, model = small
    x = make()
    before = x.detach().clone()
    assert_same(model(x), run_torch(module, x), 1e-5)
    assert torch.equal(before, x.detach()), "an input must never be written to"


def test_numpy_in_numpy_out(small: tuple[Small, penlight.Model]) -> None:
    module, model = small
    x = np.random.default_rng(0).random((2, 3, 12, 12), np.float32)
    y = model(x)
    assert isinstance(y, np.ndarray)
    assert_same(y, run_torch(module, torch.from_numpy(x)), 1e-5)
    x.setflags(write=False)
    assert np.array_equal(model(x), y)
    assert np.array_equal(model(x[:, ::-1, ::-1]), model(x[:, ::-1, ::-1].copy()))
    with pytest.raises(penlight.RunError, match="f32"):
        model(x.astype(np.float64))


def test_numpy_scalars() -> None:
    """A scalar becomes an array on the way in, which has to live until the run is over: results would take its memory."""

    class Several(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x + 1, x * 2, x * 3, x * 5

    m = penlight.optimize(Several(), (torch.tensor(1.0),))
    for i in range(20):
        assert [float(y) for y in m(np.float32(i))] == [i + 1, i * 2, i * 3, i * 5]


def test_tensor_subclasses_count_as_torch(small: tuple[Small, penlight.Model]) -> None:
    class Image(torch.Tensor):  # as torchvision.tv_tensors.Image: its module is not torch's
        pass

    module, m = small
    x = torch.rand(2, 3, 12, 10)
    got = m(x.as_subclass(Image))
    assert isinstance(got, torch.Tensor)
    assert_same(got, run_torch(module, x), 1e-5)


def test_results_into_given_memory(small: tuple[Small, penlight.Model]) -> None:
    _, model = small
    x = torch.randn(2, 3, 8, 8)
    expected = model(x)
    into = torch.full_like(expected, float("nan"))
    model.run_into([into], x)
    assert torch.equal(into, expected)
    array = np.empty(tuple(expected.shape), np.float32)
    model.run_into([array], x.numpy())
    assert np.array_equal(array, expected.numpy())
    with pytest.raises(penlight.RunError, match=r"results: expected 1, one for each output, got 0"):
        model.run_into([], x)
    with pytest.raises(penlight.RunError, match=r"expected float32 \(2, .*got float64"):
        model.run_into([np.empty(array.shape)], x)
    with pytest.raises(penlight.RunError, match=r"got float32 \(1, "):
        model.run_into([array[:1]], x)
    with pytest.raises(penlight.RunError, match=r"or another order"):
        model.run_into([np.asfortranarray(np.empty((*array.shape, 2), np.float32))[..., 0]], x)


def test_results_that_share_memory_are_refused(small: tuple[Small, penlight.Model]) -> None:
    """A result is written while inputs are still read: the numbers would be wrong, and nobody would know."""

    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.flip(0) + 1, x * 2

    model = penlight.optimize(Two(), (torch.arange(8.0),))
    memory = np.arange(24, dtype=np.float32)
    x, y, z = memory[:8], memory[8:16], memory[16:]
    model.run_into([y, z], x)
    np.testing.assert_array_equal(y, np.arange(8)[::-1] + 1)
    np.testing.assert_array_equal(z, np.arange(8) * 2)
    for results in ([x, z], [memory[4:12], z], [y, y], [y, memory[12:20]], [torch.from_numpy(memory)[2:10], z]):
        with pytest.raises(penlight.RunError, match="expected memory of its own, got memory that (input|result)"):
            model.run_into(results, x)
    every_other = np.zeros((8, 2), np.float32)  # in turns, but no element is both
    model.run_into([y, z], every_other[:, 0])
    for lost in (memory[8:16][::-1], [0.0] * 8, torch._neg_view(torch.ones(8))):  # would be written into a copy
        with pytest.raises(penlight.RunError, match="row-major, to be written"):
            model.run_into([lost, z], x)


def test_results_into_tensors_that_numpy_cannot_show() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * 2, x + 1

    x = torch.arange(8.0).bfloat16()
    model = penlight.optimize(Two(), (x,))
    y, z = torch.empty(8, dtype=torch.bfloat16), torch.empty(16, dtype=torch.bfloat16)
    model.run_into([y, z[:8]], x)
    assert torch.equal(y, x * 2)
    assert torch.equal(z[:8], x + 1)
    for results in ([y, y], [x, y], [z[:8], z[4:12]]):
        with pytest.raises(penlight.RunError, match="expected memory of its own"):
            model.run_into(results, x)
    for wrong in (y.half(), y.float(), z[::2], torch.empty(8, dtype=torch.bfloat16, device="meta"), y.to_sparse()):
        with pytest.raises(penlight.RunError, match="row-major, to be written"):
            model.run_into([wrong, z[:8]], x)
    with pytest.raises(penlight.RunError, match="expected a list of arrays, one for each output, got int"):
        model.run_into(7, x)  # type: ignore[arg-type]


class TwiceAndOne(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + self.one


@pytest.fixture(scope="module")
def eight() -> penlight.Model:
    return penlight.optimize(TwiceAndOne(), (torch.ones(8),))


class Elsewhere(np.ndarray):
    """Shows by DLPack other memory than its own, which is gone when nobody holds what shows it."""

    def __dlpack__(self, **_: Any) -> Any:  # type: ignore[override]
        return np.zeros(self.shape, self.dtype).__dlpack__()


class ElsewhereInTorch(torch.Tensor):
    shown = 0

    def numpy(self, **_: Any) -> np.ndarray:
        raise TypeError("only by DLPack")

    def __dlpack__(self, **_: Any) -> Any:
        type(self).shown += 1
        return torch.full((8,), 3.0).__dlpack__()


class Copied(torch.Tensor):
    def numpy(self, **_: Any) -> np.ndarray:
        return np.zeros(self.shape, np.float32)


def test_memory_of_subclasses(eight: penlight.Model) -> None:
    x = np.arange(8, dtype=np.float32)
    into = np.zeros(8, np.float32).view(Elsewhere)
    eight.run_into([into], x.view(Elsewhere))
    np.testing.assert_array_equal(np.asarray(into), x * 2 + 1)
    np.testing.assert_array_equal(eight(x.view(Elsewhere)), x * 2 + 1)
    lent = torch.ones(8).as_subclass(ElsewhereInTorch)
    for _ in range(20):  # what it lends is held until the run is over
        assert torch.equal(eight(lent), torch.full((8,), 7.0))
    assert ElsewhereInTorch.shown == 20


@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
def test_results_where_nothing_would_be_seen_of_them(eight: penlight.Model) -> None:
    """They would go into a copy, under a mask, past autograd, or to memory that is none."""
    x, freed = torch.arange(8.0), torch.ones(8)
    freed.untyped_storage().resize_(0)
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = torch.zeros(8)
    for result, told in (
        (torch.ones(8).as_subclass(Copied), "without memory of its own"),
        (torch._efficientzerotensor((8,)), "without memory of its own"),
        (torch._to_functional_tensor(torch.ones(8)), "without memory of its own"),
        (fake, "without memory of its own"),
        (freed, "without memory of its own"),
        (torch.ones(8, requires_grad=True), r"requires grad: give its \.detach"),
        (nn.Parameter(torch.ones(8)), r"requires grad: give its \.detach"),
        (np.ma.masked_array(np.ones(8, np.float32), mask=True), "mask: give its .data"),
        ([0.0] * 8, "got a list$"),
    ):
        with pytest.raises(penlight.RunError, match=told):
            eight.run_into([result], x)


def test_autograd_hears_of_results(eight: penlight.Model) -> None:
    """The backward pass needs what was in them."""
    weight, into = torch.ones(8, requires_grad=True), torch.ones(8)
    product = (weight * into).sum()
    eight.run_into([into], torch.arange(8.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_inputs_that_have_no_memory(eight: penlight.Model) -> None:
    """numpy shows some of its own of them, and what was in it."""
    freed = torch.ones(8)
    freed.untyped_storage().resize_(0)
    for x in (freed, torch._to_functional_tensor(torch.ones(8)), torch._efficientzerotensor((8,))):
        with pytest.raises(penlight.RunError, match="expected data, got a null pointer"):
            eight(x)


def test_inputs_that_are_no_plain_tensors_are_named(eight: penlight.Model) -> None:
    ragged = [torch.ones(8), torch.ones(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of prototypes
        given = {
            "a nested tensor": torch.nested.nested_tensor(ragged),
            "a quantized tensor": torch.quantize_per_tensor(ragged[0], 0.1, 0, torch.quint8),
        }
    for words, x in given.items():
        with pytest.raises(penlight.RunError, match=f"got {words}; make it"):
            eight(x)


def test_masks_are_not_dropped(eight: penlight.Model) -> None:
    x = np.ma.masked_array(np.ones(8, np.float32), mask=[True] + [False] * 7)
    for call in (lambda: eight(x), lambda: penlight.Tensor(x), lambda: eight.prepare(x)):
        with pytest.raises(penlight.errors.InputError, match=r"Fill that first: \.filled"):
            call()
    assert np.array_equal(eight(np.ma.masked_array(x.data)), np.full(8, 3))  # nothing is masked


def test_results_over_the_models_own_bytes(eight: penlight.Model) -> None:
    data = eight.to_bytes()
    room = np.empty(len(data) + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    weights = start + data.find(np.ones(8, np.float32).tobytes())
    mine = penlight.load(room[start : start + len(data)])
    with pytest.raises(penlight.RunError, match="memory that the model has too"):
        mine.run_into([room[weights : weights + 32].view(np.float32)], np.ones(8, np.float32))
    assert np.array_equal(mine(np.ones(8, np.float32)), np.full(8, 3))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_trace_has_no_run_in_it(eight: penlight.Model) -> None:
    """It would have torch.empty in its place, and give what is in memory."""
    with pytest.raises(penlight.RunError, match="torch.jit.trace records"):
        torch.jit.trace(lambda x: eight(x), (torch.ones(8),))
    assert torch.equal(eight(torch.ones(8)), torch.full((8,), 3.0))


def test_prepare_lets_go_of_its_arguments(eight: penlight.Model) -> None:
    x = np.ones(8, np.float32)
    before = sys.getrefcount(x)
    eight.prepare(x)
    assert sys.getrefcount(x) == before


def test_results_lie_on_the_cpu_whatever_torchs_default_is(small: tuple[Small, penlight.Model]) -> None:
    _, model = small
    x = torch.ones(1, 3, 8, 8)
    expected = model(x)
    with torch.device("meta"):
        got = model(x)
    assert torch.equal(got, expected)


def test_tensors_with_a_negative_bit(small: tuple[Small, penlight.Model]) -> None:
    """torch negates some views lazily: their memory holds the other sign."""
    x = torch.arange(1.0, 5.0)
    view = torch._neg_view(x)
    assert view.is_neg()
    planned = penlight.optimize(torch.nn.Hardtanh(-9.0, 9.0), (x,))
    assert torch.equal(planned(view), -x)
    scripted = penlight.optimize(torch.jit.script(torch.nn.Hardtanh(-9.0, 9.0)), plan=False)
    assert torch.equal(scripted(view), -x)
    np.testing.assert_array_equal(penlight.Tensor(view).numpy(), -x.numpy())


def test_what_was_loaded_is_saved_whatever_is_at_the_path_now(
    small: tuple[Small, penlight.Model], tmp_path: Path
) -> None:
    _, model = small
    path = tmp_path / "m.pen"
    model.save(path)
    kept = path.read_bytes()
    loaded = penlight.load(path)
    model.with_metadata({"name": "another"}).save(path)  # as a new file, as everybody should
    assert path.read_bytes() != kept
    assert loaded.to_bytes() == kept
    loaded.save(tmp_path / "copy.pen")
    assert (tmp_path / "copy.pen").read_bytes() == kept
    assert loaded.with_metadata({"name": "third"}).metadata["name"] == "third"
    path.unlink()
    assert loaded.to_bytes() == kept
    assert loaded.on("cpu").to_bytes() == kept


def test_a_later_run_does_not_change_an_earlier_result(small: tuple[Small, penlight.Model]) -> None:
    _, model = small
    first = model(torch.ones(1, 3, 8, 8))
    kept = first.clone()
    model(torch.zeros(1, 3, 8, 8))
    assert torch.equal(first, kept)


def test_one_model_in_many_python_threads(small: tuple[Small, penlight.Model]) -> None:
    module, model = small
    wrong: list[str] = []

    def work(seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        for i in range(12):
            x = torch.rand(1 + seed % 3, 3, 8 + i, 9, generator=g)
            if not torch.allclose(model(x), run_torch(module, x), atol=1e-5):
                wrong.append(f"thread {seed}, run {i}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_plans_are_bounded(small: tuple[Small, penlight.Model]) -> None:
    _, model = small
    for n in range(1, 30):
        model(torch.rand(1, 3, n, n))
    assert model._session("forward").plan_count <= 8


def test_load_from_path_memory_and_descriptor(small: tuple[Small, penlight.Model], tmp_path: Path) -> None:
    module, model = small
    x = torch.rand(2, 3, 10, 10)
    expected = run_torch(module, x)
    path = tmp_path / "small.pen"
    size = model.save(path)
    assert size == path.stat().st_size
    assert_same(penlight.load(path)(x), expected, 1e-5)
    assert_same(penlight.load(str(path), copy=True, verify=True)(x), expected, 1e-5)
    assert_same(penlight.load(path.read_bytes())(x), expected, 1e-5)
    for lead in (0, 13, 64, 4096):  # a file inside another: an uncompressed asset, aligned or not
        outer = tmp_path / f"outer{lead}"
        outer.write_bytes(b"\1" * lead + path.read_bytes() + b"tail")
        descriptor = os.open(outer, os.O_RDONLY)
        inside = penlight.load((descriptor, lead, size))
        os.close(descriptor)
        inside.save(tmp_path / "copy.pen")
        assert (tmp_path / "copy.pen").read_bytes() == path.read_bytes()
        assert_same(inside(x), expected, 1e-5)
    again = tmp_path / "again.pen"
    penlight.load(path).save(again)
    assert again.read_bytes() == path.read_bytes()


def test_sources(tmp_path: Path) -> None:
    """nn.Module, ExportedProgram, ScriptModule, .pt and .pt2 all give the same numbers."""
    torch.manual_seed(1)
    module, x = Small().eval(), torch.rand(1, 3, 12, 12)
    exported = torch.export.export(module, (x,))
    torch.export.save(exported, tmp_path / "m.pt2")
    torch.jit.script(module).save(str(tmp_path / "m.pt"))
    expected = run_torch(module, x)
    for source in (
        module,
        exported,
        torch.jit.trace(module, x),
        torch.jit.script(module),
        tmp_path / "m.pt",
        str(tmp_path / "m.pt2"),
    ):
        assert_same(penlight.optimize(source, (x,))(x), expected, 1e-5)


def test_training_mode_is_restored() -> None:
    module = Small().train()
    penlight.optimize(module, (torch.rand(1, 3, 8, 8),))
    assert module.training


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"threads": 2**31}, "threads: expected 1 to 2147483647"),
        ({"threads": "2"}, "threads: expected 1 to 2147483647, .* got str"),
        ({"isa": "avx2\0"}, "isa: expected one of .*base.*, or None, got 'avx2"),
        ({"device": "cpu\0"}, "device: expected one of cpu"),
        ({"device": 3, "verify": True}, "device: expected a name, one of cpu.*, got int"),
        ({"memory_limit": 1.5}, "memory_limit: expected 0 .* got float"),
        ({"max_steps": 10**5000}, "max_steps: expected 0 .* more than 64 bits"),
        ({"isa": np.array(["avx2", "base"])}, "isa: expected one of .*base.*, or None, got array"),
        ({"f16": np.ones(2)}, "f16: expected True or False, got ndarray"),
        ({"verify": torch.ones(2)}, "verify: expected True or False, got Tensor"),
        ({"copy": np.ones(2)}, "copy: expected True or False, got ndarray"),
    ],
)
def test_arguments_of_load_in_words(arguments: dict[str, Any], words: str, small: tuple[Small, penlight.Model]) -> None:
    with pytest.raises((penlight.ArgumentError, penlight.InputError), match=words):
        penlight.load(small[1]._bytes, **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"backend": 3}, "backend: expected a list of names, got int"),
        ({"backend": ["cpu", 3]}, "backend: expected a list of names, got a int in it"),
        ({"methods": 3}, "methods: expected a list of names, got int"),
        ({"methods": [["forward"]]}, "methods: expected a list of names, got a list in it"),
        ({"bundled_inputs": [1]}, "bundled_inputs: expected lists of calls by method, .*, got list"),
        ({"bundled_inputs": {"forward": 3}}, "bundled_inputs: expected lists of calls by method, .*, got {str: int}"),
        ({"bundled_inputs": {"gone": [(torch.ones(1),)]}}, "bundled inputs of gone: the model has no method"),
    ],
)
def test_arguments_of_optimize_in_words(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(penlight.PenlightError, match=words):
        penlight.optimize(torch.jit.script(torch.nn.ReLU()), **arguments)


def test_methods_take_arguments_in_words(small: tuple[Small, penlight.Model]) -> None:
    _, model = small
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: model.seed("a"), "seed: expected a whole number of 64 bits, got str"),  # type: ignore[arg-type]
        (lambda: model.profile(torch.rand(1, 3, 8, 8), runs=-1), "runs: expected a number of runs, got -1"),
        (lambda: model.on(3), "device: expected a name, .*, got int"),  # type: ignore[arg-type]
        (lambda: penlight.Tensor(np.ones(2), "cpu\ud800"), "device: expected a name"),
    ]
    for call, words in calls:
        with pytest.raises(penlight.PenlightError, match=words):
            call()


@pytest.mark.parametrize("given", [np.zeros(3, "M8[D]"), np.array([None]), np.zeros(2, [("a", "O")])], ids=str)
def test_arrays_that_hold_no_bytes(given: np.ndarray) -> None:
    """Of objects, their addresses were read as a file."""
    with pytest.raises(penlight.InputError, match="expected the bytes of a file, got a"):
        penlight.load(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "metadata",
    [
        3, {3: 4}, {"x": object()}, {"x": float("nan")}, {"x": b"bytes"}, {"x": {1: 2, "y": 3}}, {"extra_files": 3}, {"torch_operators": 3},
        functools.reduce(lambda inner, _: {"x": inner}, range(200), {}), functools.reduce(lambda inner, _: {"x": [inner]}, range(100_000), {}),
    ],
    ids=lambda _: "",
)  # fmt: skip
def test_metadata_that_no_file_holds(metadata: Any, small: tuple[Small, penlight.Model]) -> None:
    """Refused before anything is compiled: what is written is what `load` reads."""
    for call in (lambda: penlight.optimize(Small(), (), metadata=metadata), lambda: small[1].with_metadata(metadata)):
        with pytest.raises((penlight.ArgumentError, penlight.InputError), match="metadata: expected a dict of names"):
            call()


def test_bytes_with_gaps(small: tuple[Small, penlight.Model]) -> None:
    data = np.repeat(np.asarray(small[1]._bytes), 2)
    for given in (data[::2], memoryview(data)[::2]):
        with pytest.raises(penlight.InputError, match="expected the bytes of a file in one piece"):
            penlight.load(given)


def test_options_in_words(small: tuple[Small, penlight.Model], tmp_path: Path) -> None:
    _, model = small
    with pytest.raises(ValueError, match="backend"):
        penlight.optimize(Small(), (torch.rand(1, 3, 8, 8),), backend="tpu")
    with pytest.raises(ValueError, match="device"):
        penlight.load(tmp_path / "x.pen", device="npu")
    with pytest.raises(ValueError, match="threads"):
        penlight.load(model._bytes, threads=0)
    with pytest.raises(penlight.LoadError, match=r"nowhere\.pen"):
        penlight.load(tmp_path / "nowhere.pen")
    with pytest.raises(AttributeError, match="forward"):
        model.run_method("backward")
    with pytest.raises(TypeError, match="path, bytes"):
        penlight.load(3.5)  # type: ignore[arg-type]


def test_copies_and_file_objects(small: tuple[Small, penlight.Model], tmp_path: Path) -> None:
    _, made = small
    model = penlight.Model(made.to_bytes(), threads=1, plan_cache=3, max_steps=9)
    model.save(tmp_path / "m.pen")
    written = io.BytesIO()
    assert model.save(written) == len(model.to_bytes())
    with open(tmp_path / "m.pen", "rb") as opened:
        again = [
            penlight.load(opened),
            penlight.load(io.BytesIO(written.getvalue())),
            penlight.load(written.getvalue()),
        ]
    mapped = penlight.load(tmp_path / "m.pen", threads=1)
    copies = [
        f(m) for m in (model, mapped) for f in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)))
    ]
    described = model.with_metadata({"licence": "MIT"})
    assert penlight.load(described.to_bytes(), verify=True).metadata == {**model.metadata, "licence": "MIT"}
    x = torch.rand(2, 3, 12, 12)
    for other in (*again, *copies, described):
        assert_same(other.forward(x), model(x), 0)
    assert [c.threads for c in copies] == [1] * 6
    assert copies[0]._options == model._options
    assert copies[0]._max_steps == 9
    assert model.metadata["name"] == "Small"
    assert repr(model).startswith("<penlight.Model 'Small' in memory")


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: torch.Tensor, times: int, gain: float = 1.0) -> torch.Tensor:
        self.seen += times
        return x * gain

    @torch.jit.export
    def count(self) -> int:
        return self.seen


def test_methods_are_attributes_and_missing_arguments_are_named() -> None:
    model = penlight.optimize(torch.jit.script(Counts()), methods=["count"])
    x = torch.rand(3)
    model(x, times=2)
    assert (model.count(), copy.deepcopy(model).count()) == (2, 0)  # a copy starts from what the file says
    assert {"count", "forward"} <= set(dir(model))
    assert np.array_equal(model(x.numpy()[::-1], 1), x.numpy()[::-1])
    takes = r"; forward takes \(x: Tensor, times: int, gain: float = …\)"
    for call, message in (
        (lambda: model(), "argument 'x' is missing"), (lambda: model(x), "argument 'times' is missing"),
        (lambda: model(times=1), "argument 'x' is missing"), (lambda: model(x, 1, x=x), "argument 'x' is given twice"),
        (lambda: model(x, 1, size=3), "argument 'size' is unknown"),
    ):  # fmt: skip
        with pytest.raises(penlight.InputError, match=message + takes):
            call()
    with pytest.raises(penlight.InputError, match="got 4 positional"):
        model(x, 1, 1.0, 1)
    with pytest.raises(AttributeError, match="no attribute 'nothing'; its methods are forward, count"):
        model.nothing  # noqa: B018


def test_errors_name_the_cure(small: tuple[Small, penlight.Model]) -> None:
    model = penlight.optimize(nn.Conv2d(3, 4, 3), (torch.rand(1, 3, 8, 8),))
    with pytest.raises(penlight.RunError, match="dynamic_shapes"):
        model(torch.rand(2, 3, 8, 8))
    with pytest.raises(penlight.RunError, match=r"\.to\(torch\.float32\)$"):
        model(torch.rand(1, 3, 8, 8).double())
    with pytest.raises(penlight.RunError, match=r"\.astype\('float32'\)$"):
        model(np.zeros((1, 3, 8, 8)))

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x

    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1) * 2

    with pytest.raises(penlight.CaptureError, match=r"torch\.jit\.script\(model\)"):
        penlight.optimize(Branches(), (torch.rand(3),))
    with pytest.raises(penlight.CaptureError, match="clone an input before changing it"):
        penlight.optimize(Writes(), (torch.rand(3),))


LAYERS: dict[str, Any] = {
    "conv": lambda: nn.Conv2d(3, 8, 3), "channels-last weights": lambda: nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last),
    "pool": lambda: nn.MaxPool2d(2), "upsample": lambda: nn.Upsample(scale_factor=2), "relu": lambda: nn.ReLU(),
    "softmax": lambda: nn.Softmax(1), "norm": lambda: nn.LayerNorm(12),
    "flat": lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (3, 12, 12))),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("captured", [torch.contiguous_format, torch.channels_last])
def test_results_have_torchs_strides(name: str, captured: torch.memory_format) -> None:
    module, x = LAYERS[name]().eval(), torch.rand(2, 3, 12, 12)
    model = penlight.optimize(module, (x.contiguous(memory_format=captured),), dynamic_shapes="auto")
    for batch in (2, 3):
        for given in (torch.contiguous_format, torch.channels_last):
            y = torch.rand(batch, 3, 12, 12).contiguous(memory_format=given)
            with torch.no_grad():
                expected = module(y)
            found = model(y)
            assert found.stride() == expected.stride(), (given, batch)
            assert_same(found, expected, 1e-5)
