"""Torch against Penlight on what nobody wrote: every instruction set of the machine, one and two threads, planned and interpreted.

`Cases` are single operators (tests/ops/families.py draws them); `Networks` are small models of a dozen steps, scripted, compiled with a plan and
without. Threads may change no bit. How far numbers may be off is judged by the same network in f64: torch's own f32 results are off by
some, and ours may be by ten times that.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from penlight import _runtime
from penlight.errors import PenlightError
from tests.fuzz.python_target import Finding, drawn, outcome

THREADS = (1, 2)


def isas() -> list[str]:
    return list(_runtime.isas())


class Cases:
    """{"family": "convolution", "seed": 17}"""

    def __init__(self) -> None:
        from tests.ops import test_differential

        torch.set_num_threads(1)
        self.differential, self.executions = test_differential, 0
        self.families = [n for n, f in test_differential.FAMILIES.items() for _ in range(f.share)]

    def make(self, number: int, corpus: list[bytes]) -> bytes:
        return json.dumps(
            {"family": self.families[number % len(self.families)], "seed": 2_000_000 + drawn(number).randrange(2**40)}
        ).encode()

    def run(self, data: bytes) -> str:
        from penlight.model import Model

        told = json.loads(data)
        name = f"{told['family']} {told['seed']}"
        try:
            case = self.differential.Case(told["family"], told["seed"])
        except self.differential.Refused as e:
            return outcome(str(e))
        except Exception as e:
            raise Finding(
                f"cases: {told['family']}: {type(e).__name__} while it is compiled", f"{name}: {_trace(e)}"
            ) from e
        for isa in isas():
            try:
                case.run(isa)
                self.executions += len(case.given)
                one, two = ([y.clone() for y in Model(case.file, threads=t, isa=isa)(*case.given[0])] for t in THREADS)
            except AssertionError as e:
                raise Finding(f"cases: {told['family']} differs on {isa}", f"{name}: {e}") from e
            except Exception as e:
                raise Finding(f"cases: {told['family']}: {type(e).__name__}", f"{name} on {isa}: {_trace(e)}") from e
            self.executions += 2
            if not all(_same_bits(a, b) for a, b in zip(one, two, strict=True)):
                raise Finding(f"cases: {told['family']}: two threads give other bits", f"{name} on {isa}")
        return " ".join(sorted(case.draw.tape.keys))


# ---- networks ----
# A step takes tensors of the pool, and gives one or more that others take; it draws with a Random of its own, so that leaving one out
# changes the others little. Steps that torch refuses on what they got are passed over.
Pool = list[torch.Tensor]
STEPS: list[Callable[[random.Random, Pool], torch.Tensor]] = []


def step(f: Callable[[random.Random, Pool], torch.Tensor]) -> Callable[[random.Random, Pool], torch.Tensor]:
    STEPS.append(f)
    return f


def _any(r: random.Random, pool: Pool) -> torch.Tensor:
    return r.choice(pool[-5:])


def _floats(r: random.Random, pool: Pool) -> torch.Tensor:
    found = [x for x in pool[-6:] if x.is_floating_point()]
    return r.choice(found) if found else pool[0]


def _numbers(r: random.Random, like: torch.Tensor, *shape: int) -> torch.Tensor:
    # not torch's generator: the trace would have its calls
    made = torch.from_numpy(np.random.RandomState(r.randrange(2**31)).uniform(-1, 1, shape).astype(np.float32))
    return made.to(like.dtype)


def _dim(r: random.Random, x: torch.Tensor) -> int:
    return r.randrange(-x.dim(), x.dim()) if x.dim() else 0


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _floats(r, pool)
    names = ("relu", "sigmoid", "tanh", "abs", "neg", "sin", "cos", "erf", "atan", "expm1", "square", "silu", "gelu", "hardswish", "softplus",
             "hardsigmoid", "relu6", "elu", "selu", "mish", "hardtanh", "leaky_relu", "log_sigmoid", "celu", "tanhshrink")  # fmt: skip
    name = r.choice(names)
    if name == "log_sigmoid":
        return torch.nn.functional.logsigmoid(x)
    if name in ("expm1", "square"):
        x = x.clamp(-4, 4)
    return getattr(torch.nn.functional if hasattr(torch.nn.functional, name) else torch, name)(x)


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x, y = _any(r, pool), _any(r, pool)
    return r.choice((torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum))(x, y)


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _floats(r, pool)
    if x.dim() != 4:
        x = x.reshape(1, -1, *x.shape[-2:]) if x.dim() > 1 else x.reshape(1, 1, 1, -1)
    c = x.shape[1]
    groups = r.choice([g for g in (1, 1, 2, c) if c % g == 0])
    k, out = r.choice((1, 1, 3, 2, 5)), groups * r.choice((1, 3, 8, 16, 17) if groups == 1 else (1, 2))
    weight = _numbers(r, x, out, c // groups, k, r.choice((k, 1))) * (2 / (k * (c // groups)) ** 0.5)
    bias = _numbers(r, x, out) if r.random() < 0.5 else None
    return torch.conv2d(
        x, weight, bias, r.choice((1, 1, 2)), r.choice((0, k // 2, (k // 2, 1))), r.choice((1, 1, 2)), groups
    )


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _floats(r, pool)
    n = x.shape[-1] if x.dim() else 1
    out = r.choice((1, 4, 16, 17, 33))
    return torch.nn.functional.linear(
        x, _numbers(r, x, out, n) / max(n, 1) ** 0.5, _numbers(r, x, out) if r.random() < 0.5 else None
    )


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _any(r, pool)
    return r.choice((lambda: x.transpose(_dim(r, x), _dim(r, x)), lambda: x.flatten(r.randrange(max(x.dim(), 1))), lambda: x.unsqueeze(_dim(r, x)),
                     lambda: x.squeeze(_dim(r, x)), lambda: x.permute(r.sample(range(x.dim()), x.dim())), lambda: x.flip(_dim(r, x)),
                     lambda: x.roll(r.randrange(-3, 4), _dim(r, x)), lambda: x.contiguous(memory_format=torch.channels_last),
                     lambda: x.unsqueeze(0).expand(2, *x.shape)))()  # fmt: skip


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x, d = _any(r, pool), _dim(r, _any(r, pool))
    n = x.shape[d]
    start = r.randrange(n)
    return r.choice((lambda: x.narrow(d, start, r.randint(1, n - start)), lambda: x.select(d, start), lambda: x[..., :: r.choice((1, 2, 3))],
                     lambda: x.chunk(2, d)[-1]))()  # fmt: skip


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _any(r, pool)
    others = [y for y in pool[-6:] if y.dtype == x.dtype and y.shape == x.shape] or [x]
    return r.choice((torch.cat, torch.cat, torch.stack))([x, *others[:2]], _dim(r, x))


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _floats(r, pool)
    d, keep = _dim(r, x), r.random() < 0.5
    return r.choice((lambda: x.mean(d, keep), lambda: x.sum(d, keepdim=keep) * 0.2, lambda: x.amax(d, keep), lambda: x.amin(d, keep),
                     lambda: x.softmax(d), lambda: x.log_softmax(d), lambda: x.cumsum(d) * 0.2, lambda: x.max(d, keep)[0],
                     lambda: x.sort(d)[0], lambda: x.topk(1, d)[0], lambda: x.logsumexp(d, keep), lambda: x.norm(2, d, keep),
                     lambda: torch.nn.functional.normalize(x, dim=d, eps=0.1)))()  # fmt: skip


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _floats(r, pool)
    if x.dim() < 3:
        x = x.reshape(1, 1, 1, -1)
    if x.dim() == 3:
        x = x.unsqueeze(0)
    f = torch.nn.functional
    return r.choice((lambda: f.max_pool2d(x, r.choice((1, 2, 3)), r.choice((1, 2)), ceil_mode=r.random() < 0.3), lambda: f.avg_pool2d(x, 2, r.choice((1, 2))),
                     lambda: f.adaptive_avg_pool2d(x, r.choice((1, 2, (3, 2)))), lambda: f.pad(x, [r.randrange(3) for _ in range(4)], r.choice(("constant", "replicate"))),
                     lambda: f.interpolate(x, scale_factor=2.0, mode=r.choice(("nearest", "bilinear"))), lambda: f.pixel_shuffle(x, 1),
                     lambda: f.interpolate(x, size=(5, 7), mode="bilinear", align_corners=r.random() < 0.5)))()  # fmt: skip


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _floats(r, pool)
    n, f = x.shape[-1], torch.nn.functional
    if r.random() < 0.4 and x.dim() > 1:
        c = x.shape[1]
        mean, var = _numbers(r, x, c), _numbers(r, x, c).abs() + 0.5
        return f.batch_norm(x, mean, var, _numbers(r, x, c), _numbers(r, x, c), eps=1e-3)
    if r.random() < 0.3 and x.dim() > 2:
        return f.group_norm(x, 1, eps=0.1)
    return f.layer_norm(x, [n], _numbers(r, x, n), None, 0.1)


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    x = _floats(r, pool)
    while x.dim() < 3:
        x = x.unsqueeze(0)
    y = r.choice((x, x * 0.5))
    if r.random() < 0.3:
        return torch.nn.functional.scaled_dot_product_attention(x, y, y)
    return torch.matmul(x, y.transpose(-1, -2)) / max(x.shape[-1], 1) ** 0.5


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    """Integers, which must be exact."""
    x = _any(r, pool)
    if x.is_floating_point():
        return torch.arange(x.numel(), dtype=r.choice((torch.int64, torch.int32))).reshape(x.shape) % 13 - 6
    n = r.choice((2, 3, -3, 7))
    return r.choice((lambda: x // n, lambda: x % n, lambda: x * n, lambda: x & 5, lambda: x.abs(), lambda: x.cumsum(_dim(r, x)) % 97,
                     lambda: x.sort(_dim(r, x))[0], lambda: x.sum(_dim(r, x)) % 31, lambda: (x > 0).to(x.dtype), lambda: x.float() * 0.25,
                     lambda: torch.where(x > 1, x, -x), lambda: x.argmax(_dim(r, x))))()  # fmt: skip


@step
def _(r: random.Random, pool: Pool) -> torch.Tensor:
    """In place, and through a view, of a copy."""
    x = _floats(r, pool).clone()
    view = r.choice((lambda: x, lambda: x[..., ::2], lambda: x.narrow(0, 0, 1), lambda: x.transpose(0, -1)))()
    r.choice((lambda: view.add_(1), lambda: view.mul_(0.5), lambda: view.relu_(), lambda: view.clamp_(-0.5, 0.5)))()
    return x


class Network(nn.Module):
    """The steps that torch takes on this input: an exception inside of a trace may end in a segmentation fault of torch's."""

    def __init__(self, seed: int, steps: list[int], x: torch.Tensor) -> None:
        super().__init__()
        self.seed = seed
        self.steps: list[int] = []
        pool = [x.clone()]
        for number in steps:
            try:
                made = self.step(number, pool)
            except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
                continue
            if 0 < made.numel() <= 20000 and made.dim() <= 6:
                pool.append(made)
                self.steps.append(number)

    def step(self, number: int, pool: Pool) -> torch.Tensor:
        r = random.Random(self.seed * 1009 + number)
        return r.choice(STEPS)(r, pool)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        pool = [x]
        for number in self.steps:
            pool.append(self.step(number, pool))
        return pool[-3:]


class Networks:
    """{"seed": 3, "shape": [1, 3, 8, 8], "steps": [0, 1, 2]}"""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.executions = 0

    def make(self, number: int, corpus: list[bytes]) -> bytes:
        r = drawn(number)
        shape = [r.choice((1, 1, 2, 3)), r.choice((1, 3, 8, 16, 17)), r.choice((1, 4, 7, 8)), r.choice((1, 5, 8, 9))][
            : r.choice((2, 3, 4, 4, 4))
        ]
        return json.dumps({"seed": number, "shape": shape, "steps": list(range(r.randint(2, 14)))}).encode()

    def run(self, data: bytes) -> str:
        import penlight
        from penlight.capture.quiet import quiet

        told = json.loads(data)
        x = torch.rand(told["shape"], generator=torch.Generator().manual_seed(told["seed"])) * 2 - 1
        network = Network(told["seed"], told["steps"], x)
        with torch.no_grad(), quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(network, x, check_trace=False)
            given = [x, x.flip(-1) * 0.5]
            expected = [[y.clone() for y in network(g.clone())] for g in given]
            exact = [[y.clone() for y in network(g.double())] for g in given]
            for plan in (True, False):
                kind = "planned" if plan else "interpreted"
                try:
                    model = penlight.optimize(traced, (x,), plan=plan)
                except PenlightError as e:
                    if "unsupported" in str(e).lower() or "does not support" in str(e):
                        return outcome(str(e))
                    raise Finding(f"networks: {kind}: {type(e).__name__} {outcome(str(e))[:80]}", _trace(e)) from e
                except Exception as e:
                    raise Finding(f"networks: {kind}: {type(e).__name__} while it is compiled", _trace(e)) from e
                self._runs(model, kind, given, expected, exact, traced)
        return outcome(str(traced.inlined_graph))

    def _runs(self, model: Any, kind: str, given: Any, expected: Any, exact: Any, traced: Any) -> None:
        import penlight

        image = model.to_bytes()
        for isa in isas():
            bits: list[Any] = []
            for threads in THREADS:
                loaded = penlight.load(image, threads=threads, isa=isa)
                results = []
                for g, wanted, true in zip(given, expected, exact, strict=True):
                    self.executions += 1
                    try:
                        got = [y.clone() for y in loaded(g.clone())]
                    except Exception as e:
                        raise Finding(
                            f"networks: {kind}: {type(e).__name__} in a run",
                            f"{isa}, {_trace(e)}\n{traced.inlined_graph}",
                        ) from e
                    for i, (a, b, c) in enumerate(zip(got, wanted, true, strict=True)):
                        if problem := _far(a, b, c):
                            raise Finding(
                                f"networks: {kind} differs on {isa}", f"result {i}: {problem}\n{traced.inlined_graph}"
                            )
                    results.append(got)
                bits.append(results)
            pairs = zip((y for r in bits[0] for y in r), (y for r in bits[1] for y in r), strict=True)
            if not all(_same_bits(a, b) for a, b in pairs):
                raise Finding(f"networks: {kind}: two threads give other bits", f"{isa}\n{traced.inlined_graph}")


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.numpy().tobytes() == b.numpy().tobytes()


def _far(got: torch.Tensor, torchs: torch.Tensor, true: torch.Tensor) -> str:
    if got.dtype != torchs.dtype or got.shape != torchs.shape:
        return f"{got.dtype} {tuple(got.shape)}, torch gives {torchs.dtype} {tuple(torchs.shape)}"
    if not torchs.is_floating_point():
        # where floats decide (a comparison), torch's own integers may be others in f64: then nothing can be said
        return "" if torch.equal(got, torchs) or not torch.equal(torchs, true) else "integers differ"
    if true.shape != torchs.shape:
        return ""
    real = torchs.isfinite() & true.isfinite()
    if not torch.equal(got.isfinite()[real], real[real]):
        return "not finite where torch's is"
    scale = max(1.0, float(true[real].abs().max())) if real.any() else 1.0
    ours, theirs = ((y.double() - true)[real].abs() for y in (got, torchs))
    if not ours.numel() or float(ours.max()) <= 10 * float(theirs.max()) + 2e-4 * scale:
        return ""
    return f"off by {float(ours.max()):.3g} of {scale:.3g} (torch itself by {float(theirs.max()):.3g})"


def _trace(e: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(e)[-8:])
