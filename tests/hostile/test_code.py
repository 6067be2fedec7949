"""Text that torch compiles may name an operator in many ways, and may run while it is compiled: each way, in a TorchScript file that torch.jit.load
lets write a file, and that Penlight does not give to torch. What torch.jit.save writes of ordinary models passes."""

from __future__ import annotations

import contextlib
import enum
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import penlight
import penlight.apart
import penlight.bundles
from penlight import limits
from penlight.capture.quiet import quiet
from penlight.capture.script import machine, torch_module
from penlight.capture.script.clean_file import clean
from penlight.capture.script.operators import plain_result
from penlight.capture.source import SourceProgram
from penlight.capture.source.computes import NotPlainError, check_texts
from penlight.errors import CaptureError, InterpretedWarning, PenlightError, UntrustedError
from tests.tools.call import Penlight

Records = dict[str, bytes]
CODE = "code/__torch__.py"


class Adds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.w


def saved(module: nn.Module) -> bytes:
    stream = io.BytesIO()
    with quiet():
        torch.jit.save(torch.jit.script(module.eval()), stream)
    return stream.getvalue()


def records_of(data: bytes) -> Records:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def adds() -> Records:
    found = records_of(saved(Adds()))
    # the class under a name of its own, whatever module the tests are in
    code = next(name for name in found if name.startswith("code/") and name.endswith(".py"))
    prefix = code[len("code/") : -len(".py")].replace("/", ".").encode()
    text = found.pop(code).replace(prefix + b".Adds", b"__torch__.Adds")
    found[CODE] = text
    found["data.pkl"] = found["data.pkl"].replace(prefix + b"\nAdds", b"__torch__\nAdds")
    return {n: c for n, c in found.items() if not n.endswith(".debug_pkl")}


def packed(records: Records) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"m/{name}", content)
    return stream.getvalue()


def restoring(records: Records, *body: str, more: str = "") -> Records:
    """The same with __getstate__ and __setstate__, which the pickle, whose state is plain attributes, does not show."""
    lines = [
        "  def __getstate__(self: __torch__.Adds) -> Any:", "    return 1",
        "  def __setstate__(self: __torch__.Adds,", "    state: Any) -> NoneType:", *(f"    {line}" for line in body),
        "    self.w = torch.ones([3])", "    self.training = False",
        *(["    self._is_full_backward_hook = None"] if b"_is_full_backward_hook" in records[CODE] else []), "    return None", more,
    ]  # fmt: skip
    return {**records, CODE: records[CODE] + "\n".join(lines).encode() + b"\n"}


# ---- ways in: each writes the file of this name ----
def octal(records: Records, path: str) -> Records:
    return restoring(records, f'getattr(ops.aten, "\\163ave")(7, "{path}")')


def adjacent(records: Records, path: str) -> Records:
    """torch puts texts that follow each other together."""
    return restoring(records, f'getattr(ops.aten, "sa" "ve")(7, "{path}")')


def in_brackets(records: Records, path: str) -> Records:
    return restoring(records, f'(ops.aten).save(7, "{path}")')


def autograd(records: Records, path: str) -> Records:
    return restoring(records, f'ops.prim.autograd.save(7, "{path}")')


def alias(records: Records, path: str) -> Records:
    return restoring(records, "a = ops.aten", f'a.save(7, "{path}")')


def tabs(records: Records, path: str) -> Records:
    return restoring(records, f'torch\t.\tsave(7, "{path}")')


def continued(records: Records, path: str) -> Records:
    return restoring(records, f'torch.\\\n      save(7, "{path}")')


def default_argument(records: Records, path: str) -> Records:
    """torch computes defaults while it compiles."""
    more = f'def made() -> int:\n  torch.save(7, "{path}")\n  return 1\n'
    code = records[CODE].replace(b"x: Tensor)", b"x: Tensor,\n    n: int=__torch__.made())")
    return {**records, CODE: code + more.encode()}


def constant(records: Records, path: str) -> Records:
    more = f'def made() -> int:\n  torch.save(7, "{path}")\n  return 1\n'
    code = records[CODE].replace(b"  w : Tensor", b"  k : Final[int] = __torch__.made()\n  w : Tensor")
    return {**records, CODE: code + more.encode()}


def other_case(records: Records, path: str) -> Records:
    """torch finds records whatever their case, the first of them."""
    evil = alias(records, path)
    return {"CODE/__torch__.py": evil[CODE], **records}


def call_of_a_class(records: Records, path: str) -> Records:
    """REDUCE of a class makes an object, to torch."""
    code = restoring(records, f'torch.save(7, "{path}")')[CODE].replace(b"Adds", b"Other")
    pickle = b"\x80\x02(c__torch__\nOther\nK\x01Rt."
    return {**records, CODE: records[CODE] + code, "constants.pkl": pickle}


def dropped(records: Records, path: str) -> Records:
    """The second value of a key takes the place of an object, which was made all the same."""
    code = restoring(records, f'getattr(ops.aten, "\\163ave")(7, "{path}")')[CODE].replace(b"Adds", b"Other")
    pickle = b"\x80\x02}(X\x01\x00\x00\x00ac__torch__\nOther\n)\x81}bX\x01\x00\x00\x00aK\x01u\x85."
    return {**records, CODE: records[CODE] + code, "constants.pkl": pickle}


WAYS = [
    octal, adjacent, in_brackets, autograd, alias, tabs, continued, default_argument, constant, other_case, call_of_a_class, dropped,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_torch_gets_no_such_file(adds: Records, way: Callable[..., Records], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    data = packed(way(adds, str(marker)))
    with contextlib.suppress(CaptureError):
        torch_module(SourceProgram(data))
    for inputs in (None, (torch.ones(3),)):
        with contextlib.suppress(PenlightError):
            penlight.optimize(data, inputs)
    assert not marker.exists()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_attacks_are_real(adds: Records, way: Callable[..., Records], tmp_path: Path) -> None:
    """torch alone does what the file says: so the test above tests something."""
    marker = tmp_path / "marker"
    with contextlib.suppress(RuntimeError), quiet():
        torch.jit.load(io.BytesIO(packed(way(adds, str(marker)))))
    assert marker.exists()


def test_plain_attributes_are_a_state(adds: Records) -> None:
    """Of a class with __getstate__ and __setstate__, as torch takes them."""
    with pytest.raises(CaptureError, match="__setstate__"):
        clean(SourceProgram(packed(restoring(adds, 'print("seen")'))))


@pytest.mark.parametrize("called", [call_of_a_class, dropped])
def test_every_object_is_restored_here(adds: Records, called: Callable[..., Records]) -> None:
    """Also where the text is plain: then __setstate__ does something else that is not run here."""
    records = called(adds, "x")
    for word in (b'torch.save(7, "x")', b'getattr(ops.aten, "\\163ave")(7, "x")'):
        records[CODE] = records[CODE].replace(word, b"y = torch.zeros([9])")
    with pytest.raises(CaptureError, match="enum|not used"):
        clean(SourceProgram(packed(records)))


LOOPS = {
    "loop": ("i = 0", "while True:", "  i = torch.add(i, 1)"),
    "called": ("i = (self).again(1)",),
    "operator": ("i = torch.add(self, self)",),
}  # fmt: skip
AGAIN = "  def {}(self: __torch__.Adds,\n    i: int) -> int:\n    for j in range(i):\n      k = torch.add(j, 1)\n    return i"


@pytest.mark.parametrize("loop", LOOPS)
def test_setstate_has_no_loops(adds: Records, loop: str) -> None:
    more = AGAIN.format("__add__" if loop == "operator" else "again")
    with pytest.raises(UntrustedError, match="a loop"):
        clean(SourceProgram(packed(restoring(adds, *LOOPS[loop], more="" if loop == "loop" else more))))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "optimize", "bench"])
def test_commands_do_not_hang(adds: Records, command: str, tmp_path: Path) -> None:
    (tmp_path / "m.pt").write_bytes(packed(restoring(adds, *LOOPS["loop"])))
    penlight.optimize(packed(adds), (torch.ones(3),)).save(tmp_path / "plain.pen")
    more = [str(tmp_path / "plain.pen")] if command == "compare" else ["--shape", "3"]
    call = [sys.executable, "-m", "penlight", command, str(tmp_path / "m.pt"), *more]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "__setstate__" in ended.stderr
    assert "fault of Penlight" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "optimize", "bench"])
def test_commands_write_nothing(adds: Records, command: str, tmp_path: Path, penlight_command: Penlight) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "m.pt").write_bytes(packed(octal(adds, str(marker))))
    penlight.optimize(packed(adds), (torch.ones(3),)).save(tmp_path / "plain.pen")
    more = [tmp_path / "plain.pen"] if command == "compare" else ["--shape", "3"]
    told = penlight_command(command, tmp_path / "m.pt", *map(str, more))
    assert told.code == 1
    assert not marker.exists()
    if command == "compare":  # which needs torch
        assert "--trust" in told.err
        penlight_command(command, tmp_path / "m.pt", *map(str, more), "--trust")
        assert marker.exists()


def test_names_that_differ_in_capitals(adds: Records) -> None:
    with pytest.raises(CaptureError, match="capitals"):
        clean(SourceProgram(packed({**adds, "code/__TORCH__.py": b""})))


@pytest.mark.parametrize(
    "line",
    [
        'torchvision_write = ops.image.write_file(x, "f")', "y = ops.torchvision.nms(x, x, 0.5)", "y = ops.aten.save(x)", "y = ops.prim.PythonOp(x)",
        "y = ops.prim.rpc_sync(x)", "y = rpc_async(x)", "f = rpc_async", "t = torch", "o = ops", "y = ops.aten", "y = torch.add.x(x)", "y = torch.a.save(x)",
        "y = getattr(torch, n)", 'y = getattr(x, "sa" "ve")', 'y = getattr(x, "\\x73ave")', 'y = getattr(x, name)', 'g = (x)("f")', "y = x[0](1)",
        "y = __torch__.torch.classes.dist_c10d.Store(1)", "y = __torch__.torch.classes", "y = __torch__", "y = __torch__.torch",
        'y = """text"""', "y = 1 # type: x", "y = x;z = 1", "y = 'a", "y = (1", "y = 1)", "y = \u00e9", 'y = f"x"', "y = 1x", "y = unknown(1)", "@x",
    ],
)  # fmt: skip
def test_what_is_refused(line: str) -> None:
    with pytest.raises(NotPlainError):
        check_texts([f"def f(x: Tensor) -> Tensor:\n  {line}\n  return x\n".encode()])


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: int=g()) -> int:\n  return x\n", "def f(x: int=[1] * 9) -> int:\n  return x\n", "class A(NamedTuple):\n  x : int = torch.numel(y)\n",
        "class A(Module):\n  k : Final[int] = 2 ** 9\n", "def f(x: List[int]=[i for i in y]) -> int:\n  return x\n", "def f(x: int) -> int: return g(x)\n",
        "def g(x: int) -> int:\n  return x\ny = g(1)\n",
    ],
)  # fmt: skip
def test_nothing_is_computed_while_it_is_compiled(text: str) -> None:
    with pytest.raises(NotPlainError):
        check_texts([text.encode()])


# ---- ordinary files ----
class Color(enum.Enum):
    RED = 1
    GREEN = 2


def _relu(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.color = {"\u00e4": 1, "b": 2}, Color.RED
        self.parts = nn.ModuleList([Adds(), Adds()])
        self.named = nn.ModuleDict({"x-y": Adds()})

    def forward(self, x: torch.Tensor, n: int = 2, f: float = 1e-5) -> tuple[torch.Tensor, int, dict[str, int], str]:
        if x.numel() < 0:
            raise ValueError("n\u00f6 %s" % "x")  # noqa: UP031
        y = torch.jit.wait(torch.jit.fork(_relu, x))
        for part in self.parts:
            y = part(y)
        for q in range(n):
            y = y + q * f if q % 2 == 0 else y - q
        if self.color == Color.GREEN:
            y = y * 2
        while y.sum() < 0:
            y = y + 1
        with torch.no_grad():
            y[0] = 1
        return y, len([i * 2 for i in range(n)]), self.words, "a\t\x01'\"".upper() + "\u20ac {}".format(n)  # noqa: UP032


class Keeps(nn.Module):
    """A dict as its state."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.ones(2)

    @torch.jit.export
    def __getstate__(self) -> dict[str, torch.Tensor]:
        return {"w": self.w}

    @torch.jit.export
    def __setstate__(self, state: dict[str, torch.Tensor]) -> None:
        self.w = state["w"]
        self.training = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.w


@pytest.mark.parametrize("module", [Odd, Keeps, lambda: nn.LSTM(3, 4), lambda: nn.Transformer(8, 2, 1, 1, 8)])
def test_ordinary_files_go_to_torch(module: Callable[[], nn.Module]) -> None:
    clean(SourceProgram(saved(module())))
    assert torch_module(SourceProgram(saved(module()))) is not None


def with_bundled(module: nn.Module, *inputs: torch.Tensor) -> bytes:
    import torch.utils.bundled_inputs as bundled

    with quiet():
        script = torch.jit.script(module.eval())
        bundled.augment_model_with_bundled_inputs(script, [inputs])
        return script.save_to_buffer()  # type: ignore[no-any-return]


def test_quantized_files_go_to_torch() -> None:
    module = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), {nn.Linear})
    found = torch_module(SourceProgram(saved(module)))
    assert found is not None
    x = torch.rand(2, 4)
    torch.testing.assert_close(found(x), module(x))


def test_bundled_inputs_go_to_torch() -> None:
    (bundle,) = penlight.optimize(with_bundled(Adds(), torch.rand(3))).bundled_inputs()
    assert bundle.has_outputs


def test_large_models_have_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """In proportion to their weights and inputs."""
    monkeypatch.setattr(penlight.bundles, "RUN_STEPS", 1 << 10)
    module = nn.Sequential(*[nn.Conv2d(16, 16, 3, padding=1) for _ in range(8)])
    penlight.bundles.check_run(SourceProgram(saved(module)).script(), (torch.rand(2, 16, 20, 20),))


class HoldsItself(nn.Module):
    def forward(self, x: torch.Tensor) -> list[Any]:
        made = torch.jit.annotate(list[Any], [x])
        made.append(made)
        return made


def test_bundled_inputs_whose_results_come_to_no_end() -> None:
    """torch writes them out, until its stack is over: in a process of its own."""
    said: list[str] = []
    (bundle,) = penlight.optimize(with_bundled(HoldsItself(), torch.rand(3)), progress=said.append).bundled_inputs()
    assert not bundle.has_outputs
    assert any(
        line.startswith("what torch gives for the bundled inputs is not known: its process ended with signal 11")
        for line in said
    )


class Nested(nn.Module):
    """A billion parts in three thousand places."""

    def forward(self, x: torch.Tensor) -> list[list[list[torch.Tensor]]]:
        return [[[x] * 1000] * 1000] * 1000


@pytest.mark.parametrize("module", [HoldsItself, pytest.param(Nested, marks=pytest.mark.slow)])
def test_results_that_come_to_no_end(module: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not walked, and torch does not give them."""
    monkeypatch.setattr(penlight.apart, "SECONDS", 8.0)
    x = torch.rand(3)
    with pytest.warns(InterpretedWarning, match="or contains itself, which plans do not give"):
        model = penlight.optimize(saved(module()), (x,), bundled_inputs={"forward": [(x,)]})
    assert not model.bundled_inputs()[0].has_outputs


class EndlessLoop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.full([3], 0.5)
        while bool(y.sum() > -1.0):
            y = y.sigmoid()
        return x + y


class EndlessPolynomial(nn.Module):
    """In torch only: the VM's ends."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.special.legendre_polynomial_p(torch.full([3], 0.5), 1000000000000000)


class EndlessInDouble(nn.Module):
    """In which torch runs it to learn the tolerance."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float64:
            while bool(x.sum() > -1.0):
                x = x.sigmoid()
        return x + 1


class EndlessCopy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.ends = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.w

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, bool]:
        y = torch.ones([3])
        while bool(y.sum() > -1.0) and not self.ends:
            y = y.sigmoid()
        return self.w, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        self.w, self.training = state
        self.ends = False


class EndlessNumber(nn.Module):
    """In Python only, which has no limit of 64 bits."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        number = 3
        for _ in range(60):
            number = number * number
        return x + number


COMPILES = """
import sys, torch, penlight, penlight.bundles
from penlight.capture.script import machine
machine._MAX_ACTIONS, penlight.bundles.RUN_STEPS = 10_000, 1 << 20  # which would take a minute
for inputs in (None, (torch.ones(3),)):
    try:
        penlight.optimize(sys.argv[1], inputs)
    except penlight.CaptureError as e:
        assert "fails on the example inputs" in str(e), e
print("ended")
"""


@pytest.mark.parametrize(
    "endless",
    [*(pytest.param(e, marks=pytest.mark.slow) for e in (EndlessLoop, EndlessPolynomial, EndlessCopy)), EndlessNumber],
    ids=lambda e: e.__name__,
)
def test_nothing_without_end_is_captured(endless: type[nn.Module], tmp_path: Path) -> None:
    """Nor asked of torch, whether examples are right. In a process of its own: it would not end."""
    (tmp_path / "m.pt").write_bytes(saved(endless()))
    call = [sys.executable, "-W", "ignore", "-c", COMPILES, str(tmp_path / "m.pt")]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "ended\n", ended.stderr


@pytest.mark.parametrize(
    "endless", [pytest.param(EndlessLoop, marks=pytest.mark.slow), EndlessInDouble], ids=lambda e: e.__name__
)
def test_torch_runs_nothing_without_end(endless: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """To learn what bundled inputs give: it has a minute."""
    monkeypatch.setattr(penlight.apart, "SECONDS", 8.0)
    said: list[str] = []
    model = penlight.optimize(with_bundled(endless(), torch.ones(3)), plan=False, progress=said.append)
    assert not model.bundled_inputs()[0].has_outputs
    assert any("not known: it came to no end within 8 seconds" in line for line in said)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("pow", [7, 1 << 40]), ("__lshift__", [1, 1 << 40]), ("mul", [[1.0], 1 << 40]), ("mul", ["ab", 1 << 40]),
        ("zfill", ["a", 1 << 40]), ("replace", ["a" * 10_000, "a", "b" * 10_000]), ("join", ["", ["a" * 10_000] * 10_000]),
        ("format", ["{:>99999999999}", 1]), ("format", ["{:{}}", 1, 1 << 40]), ("percentFormat", ["%99999999999d", (1,)]),
        ("percentFormat", ["%*d", (1 << 40, 1)]),
    ],
)  # fmt: skip
def test_what_is_observed_is_no_larger_than_torchscript_has_it(name: str, args: list[Any]) -> None:
    with pytest.raises(CaptureError, match="64 bits"):
        plain_result(f"aten::{name}", args)


def test_ordinary_texts_and_numbers_are_observed() -> None:
    assert plain_result("aten::percentFormat", ["100%% of %s, %d", ("x", 3)]) == (True, "100% of x, 3")
    assert plain_result("aten::format", ["{} of {}", 1, "x"]) == (True, "1 of x")
    assert plain_result("aten::pow.int_to_int", [2, 62]) == (True, 1 << 62)
    assert plain_result("aten::mul.int", [3 << 40, 1 << 22]) == (True, -(1 << 62))  # as a run has it
    assert plain_result("aten::join", [", ", ["a", "b"]]) == (True, "a, b")


class Says(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("\x1b[31mhello")
        return x + 1


def test_nothing_of_a_file_is_printed_while_it_is_compiled(capfd: pytest.CaptureFixture[str]) -> None:
    """torch runs it to learn what its bundled inputs give."""
    (bundle,) = penlight.optimize(with_bundled(Says(), torch.rand(3))).bundled_inputs()
    assert bundle.has_outputs
    assert "hello" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("given", ["", "x, x, x"], ids=["few", "many"])
def test_calls_with_another_number_of_arguments(adds: Records, given: str) -> None:
    code = adds[CODE].replace(b"return torch.add", f"y = __torch__.more({given})\n    return torch.add".encode())
    code += b"def more(x: Tensor, y: int=1) -> Tensor:\n  return x\n"
    assert code.count(b"__torch__.more") == 1
    with pytest.raises(CaptureError, match=r"more is called with . arguments, expected 2"):
        penlight.optimize(packed({**adds, CODE: code}))


def test_a_weight_is_no_bias() -> None:
    """A convolution that takes its weight for its bias too, before a normalization: a run would say what is wrong, folding does not meet it."""
    records = records_of(saved(nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4))))
    for name, text in records.items():
        if name.endswith(".py"):
            records[name] = text.replace(b"bias = self.bias", b"bias = self.weight")
    with pytest.raises(CaptureError, match="fails on the example inputs"):
        penlight.optimize(packed(records), (torch.rand(1, 2, 6, 6),))


def test_files_before_1_4() -> None:
    """torch does not open them either."""
    with pytest.raises(CaptureError, match=r"before 1\.4, .* torch\.jit\.save"):
        penlight.optimize(
            packed({"model.json": b"{}", "attributes.pkl": b"\x80\x02).", "code/m.py": b"", "version": b"1"})
        )


class Doubles(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(40):
            x = torch.cat([x, x])
        return x.sum()


class Keeps(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = [x]
        for _ in range(1000):
            made.append(torch.zeros([1000000]))
        return torch.stack([m.sum() for m in made]).sum()


class Asks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones([1 << 28]).sum()


class Pads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.conv1d(x.view(1, 1, -1), torch.ones([1, 1, 1]), padding=[1 << 27]).sum()


class Repeats(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.repeat_interleave(x, torch.tensor([1 << 27, 1, 1, 1])).sum()


@pytest.mark.parametrize("module", [Doubles, Asks, Pads, Repeats])
def test_what_is_observed_takes_no_more_memory_than_is_free(
    module: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch took it all: a few lines of a file ask for any amount, on inputs that are guessed or given."""
    largest = 0
    call = machine.call_torch

    def watched(*args: Any) -> Any:
        nonlocal largest
        made = call(*args)
        if isinstance(made, torch.Tensor) and type(made) is torch.Tensor:
            largest = max(largest, made.numel() * made.element_size())
        return made

    monkeypatch.setattr(machine, "call_torch", watched)
    monkeypatch.setattr(limits, "free_memory", lambda: 256 << 20)
    with pytest.raises(CaptureError, match="fails on the example inputs"):  # the VM has limits too
        penlight.optimize(saved(module()), (torch.ones(4),))
    assert largest < 256 << 20


def test_many_small_results_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(limits, "free_memory", lambda: looks.append(1) or (256 << 20) - len(looks) * (32 << 20))
    with pytest.raises(CaptureError, match="fails on the example inputs"):
        penlight.optimize(saved(Keeps()), (torch.ones(4),))
    assert 2 <= len(looks) <= 8


@pytest.mark.parametrize(
    "line", ["torch.manual_seed(3)", 'torch._print("\\033[31mhello")', "torch.set_grad_enabled(False)"]
)
def test_a_file_does_not_touch_the_program_that_compiles_it(
    adds: Records, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """While it is observed and planned, and torch tells what it gives: neither its random numbers nor its terminal."""
    head = b"x: Tensor) -> Tensor:\n"
    assert head in adds[CODE]
    data = packed({**adds, CODE: adds[CODE].replace(head, head + f"    {line}\n".encode())})
    torch.manual_seed(77)
    model = penlight.optimize(data, (torch.ones(3),), bundled_inputs={"forward": [(torch.ones(3),)]})
    assert torch.initial_seed() == 77
    assert torch.is_grad_enabled()
    assert capfd.readouterr() == ("", "")
    torch.testing.assert_close(model(torch.ones(3)), torch.full((3,), 2.0))


@pytest.mark.filterwarnings("ignore::penlight.errors.InterpretedWarning")
@pytest.mark.parametrize(("kind", "words"), [("[a{i}, a{i}]", ""), ("(a{i}, a{i})", "a type of more than")])
def test_containers_that_hold_each_other_a_million_million_times(adds: Records, kind: str, words: str) -> None:
    """The types of tuples, and the values that a list holds, were gone through with shared parts each time: sixty lines never ended."""
    lines = [b"a0 = [1, torch.size(x, 0)]", *(f"a{i + 1} = {kind.format(i=i)}".encode() for i in range(60))]
    lines += [b"b = [a59, a59]", b"b0 = torch.append(b, a59)"] if not words else [b"b = torch.len([a60])"]
    head = b"x: Tensor) -> Tensor:\n"
    body = b"".join(b"    " + line + b"\n" for line in lines)
    data = packed({**adds, CODE: adds[CODE].replace(head, head + body)})
    if words:
        with pytest.raises(CaptureError, match=words):
            penlight.optimize(data, (torch.ones(3),))
    else:
        penlight.optimize(data, (torch.ones(3),))
