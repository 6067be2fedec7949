"""What one run may take: steps, memory, and time until Ctrl-C. The files here are small and ask for everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from penlight import _runtime, limits
from penlight.file.writer import to_array
from tests.file.assemble import program

ROOT = Path(__file__).parents[2]
EXPANDED = "r1 = aten::expand(k0, [1099511627776], False)\n"  # 2^40 elements of one number


def load(text: str, constants: list[Any] | None = None, **options: Any) -> penlight.Model:
    return penlight.Model(to_array(program(text, constants=constants or [])), threads=1, **options)


WALKERS = {
    "nonzero": "r2 = aten::nonzero(r1)",
    "argmax": "r2 = aten::argmax(r1, 0, False)",
    "min.dim": "r2, r3 = aten::min.dim(r1, 0, False)",
    "max": "r2 = aten::max(r1)",
    "sum": "r2 = aten::sum(r1, None)",
    "any": "r2 = aten::any(r1)",
    "all": "r2 = aten::all(r1)",
    "norm": "r2 = aten::norm.Scalar(r1, 2)",
    "std": "r2 = aten::std(r1, True)",
    "cumsum": "r2 = aten::cumsum(r1, 0, None)",
    "count_nonzero": "r2 = aten::count_nonzero(r1, None)",
    "argmin": "r2 = aten::argmin(r1, 0, False)",
    "softmax": "r2 = aten::softmax.int(r1, 0, None)",
    "relu": "r2 = aten::relu(r1)",
    "clone": "r2 = aten::clone(r1, None)",
    "sort": "r2, r3 = aten::sort(r1, -1, False)",
    "histc": "r2 = aten::histc(r1, 10, 0, 1)",
    "item": "r2 = aten::equal(r1, r1)",
}


@pytest.mark.parametrize("line", WALKERS.values(), ids=WALKERS)
@pytest.mark.parametrize("options", [{}, {"memory_limit": 0, "max_steps": 1 << 20}], ids=["defaults", "steps"])
def test_no_operator_goes_through_a_trillion_elements(line: str, options: dict[str, int]) -> None:
    model = load(f"forward(self):\n {EXPANDED} {line}\n return(r2)", [np.float32(0.5).reshape(1)], **options)
    with pytest.raises(penlight.RunError, match="max_steps|memory_limit") as error:
        model()
    assert error.value.status in ("memory", "limit")


def test_elements_count_as_steps() -> None:
    text = "forward(self, x):\n r2 = aten::relu(r1)\n return(r2)"
    x = np.ones(1000, np.float32)
    load(text, max_steps=1100)(x)
    with pytest.raises(penlight.RunError, match=r"at most 900 steps \(max_steps\)"):
        load(text, max_steps=900)(x)


LONG = "r1 = list(7)\n r2 = aten::mul.left_t(r1, 1000000)"
# 4 MB, twice: the same text in two objects.
TEXT = "r1 = aten::ljust('a', 4000000, 'b')\n r2 = aten::ljust('a', 4000000, 'b')"
KEYS = """r2 = dict()
  r3 = move(0)
  fill:
  aten::_set_item.int(r2, r3, r3)
  r3 = aten::add.int(r3, 1)
  r4 = aten::lt.int(r3, 20000)
  branch(r4) -> filled
  jump() -> fill
  filled:"""
EXPANDED_TEXT = "r1 = aten::expand(k0, [600000], False)"
REPEATS = "r2 = aten::full([1], 1000000, 4, None, None, None)"
PLACES = "r2 = aten::zeros([1], 4, None, None, None)\n r2 = aten::expand(r2, [1000000], False)"
ROWS = (
    "r1 = aten::zeros([1, 30000], 6, None, None, None)\n r2 = aten::zeros([30000], 4, None, None, None)\n r3 = list(r2)"
)
REGIONS = "r1 = aten::zeros([1, 1, 10, 10], 6, None, None, None)\n r2 = aten::zeros([1, 5], 6, None, None, None)"
AGAIN = {
    "slice": (LONG, "r3 = aten::slice.t(r2, 1, None, 1)"),
    "copy": (LONG, "r3 = aten::copy.t(r2)"),
    "add": (LONG, "r3 = aten::add.t(r2, r1)"),
    "mul": (LONG, "r3 = aten::mul.left_t(r2, 2)"),
    "insert": (LONG, "aten::insert.t(r2, 0, 1)"),
    "pop": (LONG, "r3 = aten::pop.t(r2, 0)"),
    "Delete": (LONG, "aten::Delete.t(r2, 0)"),
    "reverse": (LONG, "aten::reverse.t(r2)"),
    "sort": (LONG, "aten::sort.int(r2, False)"),
    "sorted": (LONG, "r3 = aten::sorted.int(r2)"),
    "sum": (LONG, "r3 = aten::sum.int(r2)"),
    "max": (LONG, "r3 = prim::max.self_int(r2)"),
    "count": (LONG, "r3 = aten::count.int(r2, 8)"),
    "index": (LONG + "\n r3 = aten::append.t(r2, 8)", "r3 = aten::index.list_int(r2, 8)"),
    "contains": (LONG, "r3 = aten::__contains__.int_list(r2, 8)"),
    "eq": (LONG, "r3 = aten::eq.int_list(r2, r2)"),
    "tensor": (LONG, "r3 = aten::tensor(r2, None, None, False)"),
    "tolist": (LONG + "\n r4 = aten::tensor(r2, None, None, False)", "r3 = prim::tolist(r4, 1, 0)"),
    "str of a list": (LONG, "r3 = aten::str(r2)"),
    "isinstance": (LONG, "r3 = isinstance List[int] (r2)"),
    "range": (LONG, "r3 = prim::rangelist(1000000)"),
    "eq.str": (TEXT, "r3 = aten::eq.str(r1, r2)"),
    "lt.str": (TEXT, "r3 = aten::lt.str(r1, r2)"),
    "count of long strings": (TEXT + "\n r4 = list(r1)\n r4 = aten::mul.left_t(r4, 1000)", "r3 = aten::count.str(r4, r2)"),
    "find": (TEXT, "r3 = aten::find(r1, 'c', 0, -1)"),
    "find of long text": (TEXT + "\n r2 = aten::ljust('b', 2000000, 'b')\n r2 = aten::add.str(r2, 'c')", "r3 = aten::find(r1, r2, 0, -1)"),
    "rsplit": (TEXT, "r3 = aten::rsplit(r1, 'c', -1)"),
    "replace": (TEXT, "r3 = aten::replace(r1, 'c', 'd', -1)"),
    "startswith": (TEXT, "r3 = aten::startswith(r1, r2, 0, -1)"),
    "upper": (TEXT, "r3 = aten::upper(r1)"),
    "add.str": (TEXT, "r3 = aten::add.str(r1, 'x')"),
    "slice.str": (TEXT, "r3 = aten::slice.str(r1, 1, None, 1)"),
    "strip": (TEXT, "r3 = aten::strip(r1, r2)"),
    "list.str": (TEXT + "\n r2 = aten::slice.str(r1, 0, 500000, 1)", "r3 = aten::list(r2)"),
    "join": ("r1 = list('ab')\n r2 = aten::mul.left_t(r1, 1000000)", "r3 = aten::join(', ', r2)"),
    "format": (TEXT, "r3 = aten::format('{}', r1)"),
    "hash": (TEXT, "r3 = aten::hash.generic(r1)"),
    "a long key": (TEXT + "\n r4 = dict(r1, 1)", "r3 = aten::__getitem__.Dict_str(r4, r2)"),
    "keys": (KEYS, "r3 = aten::keys.int(r2)"),
    "items": (KEYS, "r3 = aten::items.int(r2)"),
    "copy.dict": (KEYS, "r3 = aten::copy.Dict_int(r2)"),
    "clear": (KEYS, "aten::clear.int(r2)"),
    "str of a tensor": (EXPANDED_TEXT, "r3 = aten::str(r1)"),
    "arange": ("", "r3 = aten::arange(1000000, 6, None, None, None)"),
    "linspace": ("", "r3 = aten::linspace(0, 1, 1000000, 6, None, None, None)"),
    "logspace": ("", "r3 = aten::logspace(0, 1, 1000000, 10.0, 6, None, None, None)"),
    "tril_indices": ("", "r3 = aten::tril_indices(1000, 1000, 0, None, None, None, None)"),
    "repeat_interleave": (REPEATS, "r3 = aten::repeat_interleave.Tensor(r2)"),
    "repeat_interleave of a tensor": (REPEATS, "r3 = aten::repeat_interleave.self_Tensor(k0, r2, None)"),
    "resize_": ("", "r2 = aten::zeros([1], 6, None, None, None)\n r3 = aten::resize_(r2, [1000000], None)"),
    "gather": (PLACES, "r3 = aten::gather(k0, 0, r2, False)"),
    "scatter": (PLACES, "r3 = aten::scatter.value(k0, 0, r2, 1.0)"),
    "take": (PLACES, "r3 = aten::take(k0, r2)"),
    "index_put_": (ROWS, "r4 = aten::index_put_(r1, r3, k0, True)"),
    "chunk": ("r2 = aten::expand(k0, [100000], False)", "r3 = aten::chunk(r2, 100000, 0)"),
    "roi_align": (REGIONS, "r3 = torchvision::roi_align(r1, r2, 1.0, 1, 1, 1000, False)"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "line"), AGAIN.values(), ids=AGAIN)
def test_what_operators_go_through_counts(made: str, line: str) -> None:
    """Lists, dicts and text as well: a hundred thousand times what takes a millisecond was more than a minute."""
    text = f"forward(self):\n {made}\n again:\n {line}\n jump() -> again"
    start = time.monotonic()
    with pytest.raises(penlight.RunError, match=r"at most 5000000 steps \(max_steps\)"):
        load(text, [np.float32(0.1).reshape(1)], memory_limit=256 << 20, max_steps=5_000_000)()
    assert time.monotonic() - start < 20, "it takes a tenth of a second where nothing else runs"


def test_what_is_shared_counts_each_time() -> None:
    """Tuples of the tuple before, twice: 40 of them are 2^40 numbers to compare."""
    text = "forward(self):\n r1 = tuple(1, 2)\n r2 = tuple(1, 2)\n"
    text += " r1 = tuple(r1, r1)\n r2 = tuple(r2, r2)\n" * 40
    text += " r3 = list(r1, r2)\n aten::sort.any(r3, False)\n return(r3)"
    with pytest.raises(penlight.RunError, match="max_steps"):
        load(text, max_steps=5_000_000)()


def test_letters_of_a_long_text_are_a_step_each() -> None:
    """Who reads a text letter by letter does not pay for all of it each time."""
    text = f"""forward(self):
      {TEXT}
      r3 = move(0)
      next:
      r4 = aten::__getitem__.str(r1, r3)
      r5 = aten::slice.str(r1, r3, 5, 1)
      r6 = aten::len.str(r1)
      r7 = aten::find(r1, 'b', r3, -1)
      r3 = aten::add.int(r3, 1)
      r8 = aten::lt.int(r3, 1000)
      branch(r8) -> done
      jump() -> next
      done:
      return(r3)"""
    assert load(text, max_steps=1_100_000)() == 1000


def test_a_result_that_is_expanded_takes_no_more_than_it_has() -> None:
    """A file of a kilobyte gave 3.5 GB under 64 MB: a hundred results of one number each, which were written out."""
    text = "forward(self):\n r1 = aten::expand(k0, [8388608], False)\n r2 = list(r1)\n r3 = aten::mul.left_t(r2, 100)\n return(r3)"
    results = load(text, [np.float32(0.5).reshape(1)], memory_limit=64 << 20)()
    assert len(results) == 100
    for result in map(np.asarray, results):
        assert (result.shape, result.strides, result[12345]) == ((8388608,), (0,), np.float32(0.5))


def test_results_count_as_memory() -> None:
    """One tensor a million times: each is an array in Python."""
    text = "forward(self, x):\n r2 = list(r1)\n r3 = aten::mul.left_t(r2, 1000000)\n return(r3)"
    with pytest.raises(penlight.RunError, match="memory_limit"):
        load(text, memory_limit=64 << 20)(np.ones(1, np.float32))
    overlapping = "forward(self):\n r1 = aten::as_strided(k0, [100000, 100000], [1, 1], 0)\n return(r1)"
    with pytest.raises(penlight.RunError, match="memory_limit"):
        load(overlapping, [np.zeros(200_000, np.float32)], memory_limit=64 << 20)()


@pytest.mark.parametrize(
    "made", ["aten::select.int(r1, 0, 0)", "aten::relu(r1)", "aten::quantize_per_tensor(r1, 0.5, 3, 13)"]
)
def test_lists_of_tensors_count_as_memory(made: str) -> None:
    text = f"""forward(self, x):
      r2 = list()
      a:
      r3 = {made}
      r4 = aten::append.t(r2, r3)
      jump() -> a"""
    with pytest.raises(penlight.RunError, match="memory_limit"):
        load(text, memory_limit=16 << 20)(np.ones(4, np.float32))


def test_memory_that_grows_is_counted_once() -> None:
    """What resize_ took the place of was counted for ever: a model that resizes what it is given had no memory left after some runs."""
    text = "forward(self, x):\n r2 = aten::resize_(r1, [1000000], None)\n r3 = aten::zeros([1], 6, None, None, None)\n"
    text += " r4 = aten::resize_(r3, [500000], None)\n r4 = aten::resize_(r3, [1000000], None)\n return(7)"
    model = load(text, memory_limit=16 << 20)
    for _ in range(20):
        assert model(np.ones(10, np.float32)) == 7


class Spectrum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x, n=1 << 18).real.sum()


def test_tables_count_as_memory() -> None:
    """The arena and the result fit; the factors that an FFT of 2^18 needs are megabytes more. One of nothing needs none."""
    file, x = penlight.optimize(Spectrum(), (torch.ones(1, 4),)).to_bytes(), torch.ones(1, 4)
    model = penlight.load(file, threads=1)
    torch.testing.assert_close(model(x), Spectrum()(x), rtol=1e-4, atol=1e-2)
    with pytest.raises(penlight.RunError, match="memory_limit") as error:
        penlight.load(file, threads=1, memory_limit=model.arena_bytes() + (1 << 16))(x)
    assert error.value.status == "memory"
    nothing = penlight.optimize(Spectrum(), (torch.ones(0, 4),)).to_bytes()
    assert penlight.load(nothing, threads=1, memory_limit=1 << 16)(torch.ones(0, 4)) == 0


def test_what_the_making_of_tables_takes_counts_as_memory() -> None:
    """Of a length that is prime: the filter, in double, is four megabytes beside tables of five, and is given back before the run."""

    class Prime(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x, n=131071).real.sum()

    file, x = penlight.optimize(Prime(), (torch.ones(1, 4),)).to_bytes(), torch.ones(1, 4)
    penlight.load(file, threads=1, memory_limit=10 << 20)(x)
    with pytest.raises(penlight.RunError, match="memory_limit") as error:
        penlight.load(file, threads=1, memory_limit=6 << 20)(x)
    assert error.value.op == "rfft.f32", (
        "the whole plan is over it too, but that is known when the filter has been made"
    )


@pytest.mark.parametrize(
    ("call", "n"),
    [
        ("laguerre_polynomial_l(r1, r2)", np.full(10, 1000.0)), ("laguerre_polynomial_l(r1, r2)", np.full((3, 1, 1), 333, np.int32)),
        ("chebyshev_polynomial_t(r1, r2)", np.full(1, 1000.0)), ("hermite_polynomial_h.n_scalar(r1, 1000)", None),
    ],
)  # fmt: skip
def test_degrees_of_polynomials_count_as_steps(call: str, n: Any) -> None:
    """An element of degree ten million takes as long as a small network."""
    x = np.full((1, 10), 1.25)
    text = f"forward(self, {'x' if n is None else 'x, n'}):\n r3 = aten::special_{call}\n return(r3)"
    given = [x] if n is None else [x, n]
    load(text, max_steps=11_000)(*given)
    with pytest.raises(penlight.RunError, match=r"at most 9000 steps \(max_steps\)"):
        load(text, max_steps=9000)(*given)
    big = [x, *([] if n is None else [np.full_like(n, 1e9)])]  # above all that are computed: NaN, at once
    load(text.replace("1000)", "1000000000)"), max_steps=1000)(*big)


class Branching(torch.nn.Module):
    """Code with a branch, of which the rest is planned: a polynomial, and numbers at many places of one."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            x = torch.special.laguerre_polynomial_l(x, n).relu().sigmoid().tanh()
            x = (x.expand(1000, x.size(1)) * 2.0).sum(0).exp().neg().abs().sqrt()
        return x


def test_planned_parts_of_code_count_as_steps() -> None:
    """All elements on the way, not those of the arguments alone; and degrees, which are data."""
    x = np.full((1, 10), 0.25, np.float32)
    file = penlight.optimize(torch.jit.script(Branching()), (torch.from_numpy(x), torch.ones(1, 1))).to_bytes()

    def run(degree: float, steps: int) -> None:
        model = penlight.load(file, threads=1, max_steps=steps)
        model(x, np.full((1, 1), degree, np.float32))
        assert [(part.taken, part.failed) for part in model.planned_parts] == [(1, 0)]

    run(3, 100_000)
    with pytest.raises(penlight.RunError, match=r"at most 9000 steps \(max_steps\)"):
        run(3, 9000)
    run(2e4, 300_000)
    with pytest.raises(penlight.RunError, match=r"at most 190000 steps \(max_steps\)") as error:
        run(2e4, 190_000)
    assert (error.value.op, error.value.status) == ("laguerre_l.f64", "limit")
    run(1e9, 100_000)  # above all that are computed: NaN, at once


def test_defaults() -> None:
    assert limits.MAX_STEPS == 1 << 44
    assert limits.chosen(None, None) == (limits.machine_memory(), 1 << 44)
    assert limits.chosen(0, 0) == (0, 0)
    assert 0 < limits.machine_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for wrong in ({"memory_limit": -1}, {"max_steps": 1 << 63}):
        with pytest.raises(ValueError, match="expected 0"):
            load("forward(self):\n return(r0)", **wrong)


SPECIAL = sorted(
    name for name in _runtime.operator_names()
    if ("special_" in name or name.partition(".")[0].removeprefix("aten::") in ("digamma", "lgamma", "polygamma", "igamma", "igammac", "erfinv", "i0"))
    and not any(part in name for part in ("out", "scalar"))
)  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_every_special_function_ends(name: str) -> None:
    """For every kind of float: powers of ten over the whole range, what lies beside whole numbers, zeros, infinities, NaN."""
    powers = [
        s * f * 10.0**e for s in (1, -1) for f in (1, 1.5) for e in (-300, -40, -8, 3, 6, 9, 15, 18, 30, 100, 200, 300)
    ]
    grid = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        1.0000001,
        2.0,
        -2.5,
        9.99,
        17.9,
        18.1,
        np.inf,
        -np.inf,
        np.nan,
        1.7e308,
        *powers,
    ]
    operators = _runtime.Operators()
    assert operators.create(1, 0) is None
    with np.errstate(over="ignore"):
        for dtype in (np.float32, np.float64):
            a, b = (x.ravel() for x in np.meshgrid(np.array(grid).astype(dtype), np.array(grid).astype(dtype)))
            given = [[np.array(grid).astype(dtype)], [2, np.array(grid).astype(dtype)]]
            if "polynomial" not in name:  # of which the degree is how many steps are taken
                given.append([a, b])
            for args in given:  # what is refused has ended too
                operators.run(name, args)


# One piece of work, which cannot be cut: a matrix, a row, a window.
WHOLE = {
    "inverse": ("r2 = aten::linalg_inv(r1)", 1, "square(5000)"),
    "factors": ("r2, r3 = aten::linalg_qr(r1, 'reduced')", 1, "square(4000)"),
    "all directions of a long matrix": ("r2, r3, r4 = aten::linalg_svd(r1, True)", 1, "numbers(36_000_000).reshape(18_000, 2000)"),
    "singular values": ("r2, r3, r4 = aten::linalg_svd(r1, False)", 1, "square(1500)"),
    "eigenvalues": ("r2, r3 = aten::linalg_eigh(r1, 'L')", 1, "square(2500)"),
    "cholesky": ("r2 = aten::linalg_cholesky(r1, False)", 1, "np.eye(6000, dtype=np.float32)"),
    "exponential of a matrix": ("r2 = aten::linalg_matrix_exp(r1)", 1, "square(3000)"),
    "cumulative": ("r2 = aten::logcumsumexp(r1, 0)", 1, "np.zeros(300_000_000, np.float32)"),
    "sort": ("r2, r3 = aten::sort(r1, -1, False)", 1, "numbers(60_000_000)"),
    "windows": ("r2 = aten::max_pool2d(r1, [2001, 2001], [1, 1], [0, 0], [1, 1], False)", 1, "np.zeros((1, 1, 4000, 4000), np.float32)"),
    "one row of a convolution": ("r3 = aten::conv1d(r1, r2, None, [1], [0], [1], 1)", 2, "numbers(4_000_000).reshape(1, 1, -1), numbers(1_000_000).reshape(1, 1, -1)"),
    "one row of a depthwise convolution": ("r3 = aten::conv1d(r1, r2, None, [1], [0], [1], 8)", 2, "numbers(8_000_000).reshape(1, 8, -1), numbers(2_400_000).reshape(8, 1, -1)"),
    "one row of a depthwise convolution of integers": (
        "r3 = aten::quantize_per_tensor(r1, 0.1, 3, 13)\n r4 = aten::quantize_per_tensor(r2, 0.1, 0, 12)\n"
        " r5 = quantized::conv2d_prepack(r4, None, [1, 1], [0, 0], [1, 1], 16)\n r6 = quantized::conv2d.new(r3, r5, 0.1, 3)", 2,
        "numbers(32_000_000).reshape(1, 16, 1, -1), numbers(960_000).reshape(16, 1, 1, -1)",
    ),
    "nms": ("r3 = torchvision::nms(r1, r2, 0.5)", 2, "np.add.outer(np.arange(800_000) * 10, [0, 0, 5, 5]).astype(np.float32), numbers(800_000)"),
    "a result of many parts": ("r2 = aten::chunk(r1, 3000000, 0)", 1, "np.zeros(3_000_000, np.float32)"),
    "polynomials in one piece": ("r3 = aten::special_laguerre_polynomial_l(r1, r2)", 2, "np.full(10_000, 0.5), np.full(10_000, 1e7)"),
    "polynomials": ("r3 = aten::special_legendre_polynomial_p(r1, r2)", 2, "np.full((1000, 1), 0.5), np.full((1000, 100), 1e7)"),
    "drawing": ("r2 = aten::multinomial(r1, 20000000, True, None)", 1, "np.ones(5_000_000, np.float32)"),
    "ctc": ("r3 = aten::ctc_loss.IntList(r1, r2, [100000], [20000], 0, 0, False)", 2, "np.full((100_000, 1, 10), -2.3, np.float32), np.full((1, 20_000), 3)"),
    "a permutation": ("r1 = aten::randperm(150000000, None, None, None, None)", 0, ""),
    "quantiles": ("r3 = aten::quantile(r1, r2, 0, False)", 2, "numbers(15_000_000), numbers(1000)"),
    "runs": ("r2, r3, r4 = aten::unique_consecutive(r1, True, True, None)", 1, "numbers(200_000_000)"),
    "rows that are there once": ("r2, r3, r4 = aten::unique_dim(r1, 0, True, True, True)", 1, "np.zeros((3_000_000, 20), np.float32)"),
    "softmax of one row": ("r2 = aten::softmax.int(r1, 0, None)", 1, "np.broadcast_to(np.float32(0.5), (600_000_000,))"),
    "softmax of columns": ("r2 = aten::softmax.int(r1, 0, None)", 1, "np.broadcast_to(np.float32(0.5), (400_000_000, 2))"),
    "a norm of one row": ("r2 = aten::norm.Scalar(r1, 3)", 1, "np.broadcast_to(np.float32(0.5), (400_000_000,))"),
    "places in a sorted row": (
        "r3 = aten::searchsorted.Tensor(r1, r2, False, False, None, None)", 2, "np.arange(1000, dtype=np.float32), np.broadcast_to(np.float32(500.5), (200_000_000,))",
    ),
    "places in short rows": ("r3 = aten::scatter.value(r1, 0, r2, 1.0)", 2, "np.zeros((1, 2), np.float32), np.broadcast_to(np.int64(0), (10_000_000_000, 2))"),
    "one window": ("r2, r3 = aten::adaptive_max_pool2d(r1, [1, 1])", 1, "np.zeros((1, 1, 24_000, 24_000), np.float32)"),
    "pixels of regions": ("r3, r4 = torchvision::roi_pool(r1, r2, 1.0, 1, 1)", 2, "np.zeros((1, 1, 8000, 8000), np.float32), np.tile(np.float32([0, 0, 0, 7999, 7999]), (200, 1))"),
    "samples of a region": ("r3 = torchvision::roi_align(r1, r2, 1.0, 1, 1, -1, False)", 2, "np.zeros((1, 1, 1_000_000, 1), np.float32), np.float32([[0, 0, 0, 999_000, 999_000]])"),
}  # fmt: skip
ENDLESS = {
    "a loop": ("forward(self):\n a:\n jump() -> a", ""),
    "one operator": ("forward(self, x, y):\n r3 = aten::matmul(r1, r2)\n return(r3)", "BIG, BIG"),
    "copies of a list": (
        "forward(self):\n r1 = list(7)\n r2 = aten::mul.left_t(r1, 30000000)\n a:\n r3 = aten::slice.t(r2, 1, None, 1)\n jump() -> a",
        "",
    ),
    "one search": (
        "forward(self):\n r1 = aten::ljust('a', 8000000, 'a')\n r2 = aten::slice.str(r1, 0, 4000000, 1)\n r2 = aten::add.str(r2, 'b')\n"
        " r3 = aten::find(r1, r2, 0, -1)\n return(r3)",
        "",
    ),
    "a sum": ("forward(self, x):\n a:\n r2 = aten::sum(r1, None)\n jump() -> a", "BIG"),
    **{
        name: (f"forward(self{''.join(f', {x}' for x in 'xy'[:count])}):\n {line}\n return(r{count + 1})", arguments)
        for name, (line, count, arguments) in WHOLE.items()
    },
}
SCRIPT = """
import numpy as np, penlight
from penlight.file.writer import to_array
from tests.file.assemble import program
BIG = np.broadcast_to(np.float32(0.5), (20_000, 20_000))
numbers = lambda count: np.random.default_rng(0).random(count, np.float32)
square = lambda n: numbers(n * n).reshape(n, n)
given = [{arguments}]
model = penlight.Model(to_array(program({text!r})), threads={threads}, memory_limit=0)
try:
    print("ready", flush=True)
    model(*given)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
PLANNED = """
import penlight, torch
class Endless(torch.nn.Module):
    def forward(self, x):
        return {call}
x = {x}
model = penlight.optimize(Endless(), (x,), threads={threads})
try:
    print("ready", flush=True)
    model(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


TABLES = """
import penlight, torch
class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x, n=33554393).real.sum()  # a prime
x = torch.ones(64)
model = penlight.optimize(Spectrum(), (x,))
try:
    print("ready", flush=True)
    model(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def interrupt(code: str) -> None:
    """The test's own patience is far below what the run would take: 8 or 20 trillion multiply-adds, or for ever."""
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it, and so would this one
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(1)  # it is in the runtime by now; where not, the interpreter itself ends it
    child.send_signal(signal.SIGINT)
    sent = time.monotonic()
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        child.kill()
    assert child.wait() == 0, "Ctrl-C did not end it"
    assert time.monotonic() - sent < 5, "it takes a few tenths of a second where nothing else runs"
    assert child.stdout.read() == "interrupted\n"


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("what", ENDLESS)
def test_ctrl_c_ends_interpreted_code(what: str, threads: int) -> None:
    text, arguments = ENDLESS[what]
    interrupt(SCRIPT.format(text=text, arguments=arguments, threads=threads))


PLANNED_CALLS = {
    "attention": ("torch.nn.functional.scaled_dot_product_attention(x, x, x)", "torch.full((1, 1, 400_000, 64), 0.5)"),
    "polynomials": ("torch.special.legendre_polynomial_p(0.5 * torch.ones_like(x), x)", "torch.full((10_000,), 1e7)"),
    "polynomials in short rows": (
        "torch.special.laguerre_polynomial_l(x[:, :1], x)",
        "torch.stack([torch.full((5_000,), i) for i in (0.5, 1e7)], 1)",
    ),
}


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "what", ["attention", *(pytest.param(w, marks=pytest.mark.slow) for w in PLANNED_CALLS if w != "attention")]
)
def test_ctrl_c_ends_planned_code(what: str, threads: int) -> None:
    call, x = PLANNED_CALLS[what]
    interrupt(PLANNED.format(call=call, x=x, threads=threads))


@pytest.mark.slow
def test_ctrl_c_ends_the_making_of_tables() -> None:
    """No run has begun: the tables of this transform alone take a quarter of a minute."""
    interrupt(TABLES)


STALE = """
import signal, penlight, torch
class Spectrum(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if bool(n > 0):
            x = torch.fft.rfft(x.relu(), n=33554393).real.sum().exp().neg().abs().sqrt()
        return x
x, n = torch.ones(64), torch.ones(1)
model = penlight.optimize(torch.jit.script(Spectrum()), (x, n), threads=1, allow_missing=True)
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    model(x, n)
except KeyboardInterrupt:
    print("interrupted")
try:
    model(torch.quantize_per_tensor(x, 0.1, 3, torch.quint8), n)
except penlight.RunError as e:
    print(e)
"""


@pytest.mark.slow
def test_a_part_whose_plan_was_interrupted_is_asked_again(tmp_path: Path) -> None:
    """For arguments that it was not planned for: it said that this call was interrupted too, which ended the process."""
    path = tmp_path / "stale.py"  # TorchScript reads the source
    path.write_text(STALE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=120)
    assert child.returncode == 0, child.stderr
    interrupted, told = child.stdout.splitlines()
    assert interrupted == "interrupted"
    assert "aten::fft_rfft: expected an operator that this library has" in told


LATE = """
import signal, numpy as np
from penlight import _runtime
operators = _runtime.Operators()
operators.create(1, 0)
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    operators.run("aten::l1_loss", [np.broadcast_to(np.float32(0.5), (1_000_000_000,)), np.zeros((), np.float32), 3])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_before_another_error() -> None:
    """A sum that was interrupted, then a reduction that there is not: that one was told, and Python said SystemError."""
    child = subprocess.run([sys.executable, "-c", LATE], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (child.returncode, child.stdout) == (0, "interrupted\n"), child.stderr
