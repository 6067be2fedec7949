"""The interpreter's own behaviour, by hand-written code: registers and slots, control flow, calls, containers, state, limits, planned
calls. No torch."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.errors import CaptureError
from penlight.file.reader import read
from penlight.file.writer import to_array
from penlight.ir.script import Bundle
from penlight.ir.types import TensorType
from penlight.ir.values import Quantizer, ScriptObject, ScriptTensor, Storage
from tests.file.assemble import MODULE, program
from tests.file.golden.script import W, golden_program

GOLDEN = Path(__file__).parents[1] / "file/golden/v2.pen"


def load(text: str, attributes: dict[str, Any] | None = None, **options: Any) -> penlight.Model:
    limits = {k: options.pop(k) for k in ("max_steps", "memory_limit") if k in options}
    return penlight.Model(to_array(program(text, attributes, **options)), threads=1, **limits)


def run(text: str, *args: Any, **options: Any) -> Any:
    return load(text, **options)(*args)


# --- values ---
@pytest.mark.parametrize(
    "value",
    [None, True, -5, 2**63 - 1, -(2**63), 1.5, float("inf"), "", "ÿ☀", "a\nb", [], [1, [2.5, None]], (), (1, ("a",)), {}, {"a": 1, 2: [3]},
     {1.5: {True: ()}}],
    ids=repr,
)  # fmt: skip
def test_values_go_through(value: Any) -> None:
    """As an argument, as a constant, as state and as a default."""
    assert run("forward(self, x):\n return(r1)", value) == value
    assert run("forward(self):\n return(k0)", constants=[value]) == value
    model = load("forward(self):\n r1 = get_attr 0 (r0)\n return(r1)", {"a": value})
    assert model() == value
    assert type(model()) is type(value)


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i1", "u1", "i2", "i4", "i8", "?"])
def test_tensors_go_through(dtype: str) -> None:
    x = (np.arange(24) % 2).reshape(2, 3, 4).astype(dtype)
    for given in (x, x[:, ::2], x.transpose(2, 0, 1), x[:0], x[0, 0, 0]):
        for result in (
            run("forward(self, x):\n return(r1)", given),
            run("forward(self):\n return(k0)", constants=[given]),
        ):
            assert np.asarray(result).dtype == x.dtype
            np.testing.assert_array_equal(result, given)


def test_an_argument_is_shared_not_copied() -> None:
    x = np.zeros(3, np.float32)
    result = run("forward(self, x):\n r2 = aten::add_.Scalar(r1, 2.0)\n return(r1)", x)
    np.testing.assert_array_equal(x, [2, 2, 2])
    result[0] = 7
    assert x[0] == 7


def test_a_weight_outlives_its_model() -> None:
    """A result that lies in the file's memory; and after a write in the model, in the module's."""
    weight = np.arange(4, dtype=np.float32)
    model = load(
        "forward(self):\n r1 = get_attr 0 (r0)\n return(r1)\nchange(self):\n r1 = get_attr 0 (r0)\n r2 = aten::add_.Scalar(r1, 1.0)\n return(r2)",
        {"w": weight},
    )
    first = model()
    first_again = np.asarray(model())
    first_again[0] = 77  # the caller's own
    model.run_method("change")
    changed = model()
    del model
    gc.collect()
    np.testing.assert_array_equal(first, weight)
    np.testing.assert_array_equal(changed, weight + 1)


def test_aliases_in_the_file() -> None:
    """Two tensors on one storage see each other's writes."""
    storage = Storage(np.zeros(4, np.float32).view(np.uint8))
    whole, tail = ScriptTensor(storage, "f32", 0, (4,), (1,)), ScriptTensor(storage, "f32", 2, (2,), (1,))
    text = "forward(self):\n r1 = get_attr 0 (r0)\n r2 = get_attr 1 (r0)\n r3 = aten::add_.Scalar(r2, 5.0)\n return(r1)"
    np.testing.assert_array_equal(run(text, attributes={"a": whole, "b": tail}), [0, 0, 5, 5])


def test_quantized_constants() -> None:
    storage = Storage(np.arange(6, dtype=np.uint8))
    one = ScriptTensor(storage, "u8", 0, (6,), (1,), Quantizer(0.5, 2))
    by_row = ScriptTensor(storage, "u8", 0, (2, 3), (3, 1), Quantizer((0.5, 2.0), (0, 3), 0))
    text = "forward(self):\n r1 = aten::dequantize.self(k0)\n r2 = aten::dequantize.self(k1)\n r3 = tuple(r1, r2)\n return(r3)"
    a, b = run(text, constants=[one, by_row])
    np.testing.assert_array_equal(a, (np.arange(6) - 2) * 0.5)
    np.testing.assert_array_equal(b, [[0, 0.5, 1], [0, 2, 4]])


# --- code ---
FIBONACCI = """
forward(self, n):
  r2 = aten::lt.int(r1, 2)
  branch(r2) -> more
  return(r1)
more:
  r3 = aten::sub.int(r1, 1)
  r4 = call_method forward (r0, r3)
  r5 = aten::sub.int(r1, 2)
  r6 = call __torch__.M.forward (r0, r5)
  r7 = aten::add.int(r4, r6)
  return(r7)
"""


def test_recursion() -> None:
    model = load(FIBONACCI)
    assert [model(n) for n in range(12)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


def test_deep_recursion_needs_no_stack() -> None:
    text = "forward(self, n):\n r2 = aten::lt.int(r1, 1)\n branch(r2) -> more\n return(r1)\nmore:\n r3 = aten::sub.int(r1, 1)\n r4 = call_method forward (r0, r3)\n r5 = aten::add.int(r4, 1)\n return(r5)"
    model = load(text)
    assert model(1999) == 1999
    with pytest.raises(penlight.RunError, match="at most 2000 calls"):
        model(2000)
    assert model(10) == 10


LOOP = """
forward(self, n, stop):
  r3 = move(0)
  r4 = move(r1)
  r5 = move(True)
  r6 = move(0)
  r7 = list()
again:
  loop(r3, r4, r5, r6, r7) -> over
  r8 = move(r5)
  r9 = aten::append.t(r7, r8)
  r6 = aten::add.int(r6, r8)
  r5 = aten::ne.int(r8, r2)
  jump() -> again
over:
  r10 = tuple(r3, r4, r5, r6, r7)
  return(r10)
"""


@pytest.mark.parametrize(("n", "stop", "seen"), [(4, -1, [0, 1, 2, 3]), (0, -1, []), (-3, 0, []), (9, 2, [0, 1, 2])])
def test_loop(n: int, stop: int, seen: list[int]) -> None:
    """Carried values move down when it ends, the rest is emptied."""
    assert run(LOOP, n, stop) == (sum(seen), seen, None, None, None)


def test_slots_are_emptied_by_reading() -> None:
    text = "forward(self, x):\n r2 = list(r1)\n r3 = move(r2)\n r4 = tuple(r2, r3)\n return(r4)"
    assert run(text, 1, first_slot=2) == (None, [1])
    assert run(text, 1) == ([1], [1])


def test_drop_and_unwritten_registers() -> None:
    assert run("forward(self, x):\n drop(r1)\n r2 = tuple(r1, r3)\n return(r2)", 5) == (None, None)


def test_unpack_of_lists_and_tuples() -> None:
    text = "forward(self, x):\n r2, r3 = unpack(r1)\n r4 = list(r3, r2)\n return(r4)"
    assert run(text, (1, "a")) == ["a", 1]
    assert run(text, [1, "a"]) == ["a", 1]


def test_results_may_be_the_arguments_registers() -> None:
    assert run(
        "forward(self, x):\n r1, r2 = unpack(r1)\n r2, r1 = unpack(r2)\n r3 = tuple(r1, r2)\n return(r3)", (0, (1, 2))
    ) == (2, 1)


def test_defaults_and_arguments() -> None:
    model = load("forward(self, a, b=2, c='x'):\n r4 = tuple(r1, r2, r3)\n return(r4)")
    assert model(1) == (1, 2, "x")
    assert model(1, [3]) == (1, [3], "x")
    assert model(1, b=5, c=None) == (1, 5, None)
    with pytest.raises(penlight.PenlightError):
        model()
    with pytest.raises(penlight.PenlightError):
        model(1, 2, 3, 4)


def test_objects_and_named_tuples() -> None:
    text = "forward(self, x):\n r2 = create __torch__.Box ()\n set_attr 0 (r2, r1)\n r3 = call_method get (r2)\n r4 = tuple __torch__.Pair (r3, r2)\n return(r4)\n__torch__.Box.get(box):\n r1 = get_attr 0 (r0)\n return(r1)"
    result = run(text, 3, classes={"__torch__.Box": ["value"], "__torch__.Pair": ["first", "second"]})
    assert (result.first, result.second.value, type(result).__name__) == (3, 3, "Pair")


@pytest.mark.parametrize(
    ("types", "fits"),
    [
        ("int", [1]), ("float", [1.5]), ("bool", [True]), ("str", ["a"]), ("NoneType", [None]), ("int|str", [1, "a"]),
        ("List[int]", [[], [1]]), ("List[Optional[int]]", [[], [1], [None, 1]]), ("Tuple[int,str]", [(1, "a")]), ("Dict[str,int]", [{}, {"a": 1}]),
        ("list", [[], [1], [None, 1], ["a"]]), ("Optional[str]", [None, "a"]), ("Any", None), ("Union[int,float]", [1, 1.5]), ("nonsense[", []),
    ],
)  # fmt: skip
def test_isinstance(types: str, fits: list[Any] | None) -> None:
    model = load(f"forward(self, x):\n r2 = isinstance {types} (r1)\n return(r2)")
    for value in (1, 1.5, True, "a", None, [], [1], [None, 1], ["a"], (1, "a"), {}, {"a": 1}):
        known = fits is None or any(value == x and type(value) is type(x) for x in fits)
        assert model(value) is known, value


# --- state ---
COUNTER = """
forward(self):
  r1 = get_attr 0 (r0)
  r2 = aten::add.int(r1, 1)
  set_attr 0 (r0, r2)
  r3 = get_attr 1 (r0)
  r4 = aten::append.t(r3, r2)
  r5 = get_attr 0 (r3)
  return(r5)
seen(self):
  r1 = get_attr 0 (r0)
  r2 = get_attr 1 (r0)
  r3 = tuple(r1, r2)
  return(r3)
"""


def test_state_lives_and_an_error_leaves_what_was_done() -> None:
    data = to_array(program(COUNTER, {"count": 0, "list": []}))
    one, two = penlight.Model(data), penlight.Model(data)
    for n in (1, 2):
        with pytest.raises(penlight.RunError, match="an object, got list"):
            one()
        assert one.run_method("seen") == (n, list(range(1, n + 1)))
    assert two.run_method("seen") == (0, [])
    kept = one.run_method("seen")
    one.reset()
    assert one.run_method("seen") == (0, [])
    assert kept == (2, [1, 2])


def test_constants_that_code_changes_stay_in_their_module() -> None:
    data = to_array(
        program("forward(self):\n r1 = aten::append.t(k0, 1)\n r2 = aten::len.t(k0)\n return(r2)", constants=[[]])
    )
    one, two = penlight.Model(data), penlight.Model(data)
    assert [one(), one(), two()] == [1, 2, 1]


def test_bundles_need_no_code() -> None:
    made = golden_program()
    made.script = None
    made.bundles = [Bundle("scale", (np.ones((1, 3), np.float32),), info="ones", absolute=0.5)]
    model = penlight.Model(to_array(made))
    (bundle,) = model.bundled_inputs("scale")
    assert (bundle.info, bundle.absolute, bundle.has_outputs) == ("ones", 0.5, False)
    np.testing.assert_array_equal(bundle.args[0], np.ones((1, 3)))


# --- errors ---
F32, INDEX = np.ones((2, 3), np.float32), np.int64([5])


@pytest.mark.parametrize(
    ("code", "args", "op", "words"),
    [
        ("branch(r1) -> end", (None, 0), "if", "expected a bool, got None"),
        ("loop(r1, r2, r3) -> end", (1, 2), "loop", "an int count"),
        ("r3, r4 = unpack(r1)", ((1,), 0), "unpack", "expected 2 elements to unpack, got 1"),
        ("r3 = get_attr 0 (r1)", ([], 0), "attribute", "expected an object, got list"),
        ("r3 = get_attr 9 (r0)", (0, 0), "attribute", "one that the object has"),
        ("r3 = dict(r1, r2)", ([], 0), "dict", "keys that are numbers or strings, got list"),
        ("r3 = call_method gone (r0)", (0, 0), "call", "an object with a method gone"),
        ("r3 = aten::nothing(r1)", (0, 0), "aten::nothing", "an operator that this library has"),
        ("r3 = aten::add.int(r1, r2)", ("a", 0), "aten::add.int", "an int for a, got str"),
        ("r3 = aten::mm(r1, r2)", (F32, F32), "aten::mm", ""),
        ("r3 = aten::index_select(r1, 0, r2)", (F32, INDEX), "aten::index_select", "index 5 is out of bounds"),
        ("r3, r4, r5, r6 = aten::embedding_bag(r1, r2, k0)", (F32, INDEX), "aten::embedding_bag", "indices (indices): expected indices from 0 to 1, got 5"),
        ("r3, r4, r5, r6 = aten::embedding_bag(r1, k0, r2)", (F32, INDEX.astype(np.int32)), "aten::embedding_bag", "offsets (offsets)"),
        ("r3 = aten::max_unpool2d(r1, r2, k1)", (F32.reshape(1, 2, 3), np.full((1, 2, 3), 77)), "aten::max_unpool2d", "indices (indices)"),
        ("r3 = aten::linalg_inv(r1)", (np.zeros((2, 2), np.float32), 0), "aten::linalg_inv", ""),
        ('r3 = prim::RaiseException("no", "ValueError")', (0, 0), "prim::RaiseException", "no"),
        ("r3 = call again (r1)", (0, 0), "call", "at most 2000 calls"),
    ],
)  # fmt: skip
def test_an_error_names_its_operator_and_line(code: str, args: tuple[Any, ...], op: str, words: str) -> None:
    """Also where the instruction itself has no line: then it is the one before it, or that of the call."""
    text = f"forward(self, x, y):\n r9 = call middle (r0, r1, r2)\n return(r9)\nmiddle(m, x, y):\n r8 = move(1)\n {code}\nend:\n return(r1)\nagain(x):\n r1 = call again (r0)\n return(r1)"
    for function, line in (("middle", "model.py:7, in forward"), (f"{MODULE}.forward", "model.py:3, in forward")):
        made = program(text, constants=[np.int64([0]), [4, 4]])
        assert made.script is not None
        made.script.functions[function].code[0].source = line
        with pytest.raises(penlight.RunError) as caught:
            penlight.Model(to_array(made), threads=1)(*args)
        assert (caught.value.op, caught.value.source) == (op, line)
        assert words in str(caught.value)
        assert str(caught.value).count(f"(at {line})") == 1


# --- planned calls ---
def test_planned_where_it_fits() -> None:
    """The eager code after `planned` is another computation here, so that it shows which one ran."""
    made = golden_program()
    forward = made.script.functions[f"{MODULE}.forward"]  # type: ignore[union-attr]
    at = next(i for i, a in enumerate(forward.code) if a.op == "planned")
    assert forward.code[at + 3].target == "aten::sigmoid"
    forward.code[at + 3].target = "aten::neg"
    model = penlight.Model(to_array(made), threads=1)

    def scores(x: np.ndarray) -> Any:
        (result,), _ = model(x, 0)
        return next(iter(result.scores.values()))

    w = np.float32([0.5, -2.0, 1.25])
    for x in (
        np.ones((2, 3), np.float32),
        np.ones((4, 3), np.float32),
        np.ones((3, 5), np.float32).T[:3].copy(),
        np.ones((4, 6), np.float32)[:, ::2],
    ):
        np.testing.assert_allclose(scores(x), 1 / (1 + np.exp(-x * w)), rtol=1e-6)
    for x in (
        np.ones(3, np.float32),
        np.ones((1, 2, 3), np.float32),
        np.ones((2, 3)),
        np.ones((2, 1), np.float32),
        np.zeros((0, 3), np.float32),
    ):
        np.testing.assert_allclose(scores(x), -(x * w), rtol=1e-6)
    (part,) = model.planned_parts
    assert (part.name, part.taken, part.unfit, part.failed, part.failed_reason) == ("scale", 4, 5, 0, "")
    assert part.unfit_reason == "input 0 (x): expected f32 of rank 2, got f32 of rank 1"


def test_a_plan_that_fails_is_told() -> None:
    """A plan that contradicts its own kernels, as a bug in lowering would make it: the code is interpreted, and that is counted."""
    made = golden_program()
    body = made.methods["scale"].graph.nodes[0].blocks[0]
    body.nodes[0].outputs[0].type = TensorType("f32", (3,))
    model = penlight.Model(to_array(made), threads=1)
    with pytest.warns(penlight.PlanWarning, match="planned part scale is interpreted: mul.f32"):
        model(np.ones((2, 3), np.float32), 0)
    ((result, _),), _ = model(np.ones((2, 3), np.float32), 0)  # and once only: another warning would be an error
    np.testing.assert_allclose(result["positive"], 1 / (1 + np.exp(-W * np.ones((2, 1)))), rtol=1e-6)
    (part,) = model.planned_parts
    assert (part.taken, part.unfit, part.failed) == (0, 0, 2)
    assert (
        part.failed_reason
        == "mul.f32: y: expected dtype code 0, rank 2, as the operator gives, got dtype code 0, rank 1"
    )
    assert penlight.Model(to_array(program("forward(self, x):\n return(r1)"))).planned_parts == []


# --- the file ---
def test_a_model_that_was_not_loaded_can_be_looked_at() -> None:
    """As debuggers and test reports do with what they find in a traceback."""
    with pytest.raises(penlight.LoadError) as caught:
        penlight.Model(b"no model")
    with pytest.raises(AttributeError):
        repr(caught.traceback[-1].frame.f_locals["self"])


def test_what_is_written_is_read() -> None:
    pen = read(GOLDEN)
    assert [x.name for x in pen.functions] == [f"{MODULE}.forward", f"{MODULE}.count", "add_step"]
    assert [x.method for x in pen.functions] == ["forward", "count", None]
    assert pen.functions[0].defaults == ("sum",)
    assert pen.script_operators["aten::append.t"] == 1
    text = str(pen)
    for line in (
        'function __torch__.M.forward(r0: self, r1: x, r2: n, r3: name = "sum") {  # method forward', "  r7 = planned scale(r1) then jump L10",
        "  loop(r10, r11, r12, r13) else jump L19", "  if not r17 jump L25", '  r20 = aten::format("{}: {}", r3, r4)', "  r13 = add_step(r13, r14)",
    ):  # fmt: skip
        assert line in text.splitlines(), line
    assert pen.module is not None
    np.testing.assert_array_equal(pen.module.items["weight"].array, np.float32([0.5, -2.0, 1.25]))
    assert pen.module.items["names"].items["pairs"] == {1: "one", 2.5: None}
    assert pen.bundles[0].info == "two rows"


def test_writing_is_deterministic() -> None:
    assert to_array(golden_program()).tobytes() == GOLDEN.read_bytes()


def test_values_too_deep_are_not_written() -> None:
    value: Any = 1
    for _ in range(70):
        value = [value]
    with pytest.raises(CaptureError, match="nested more than 64 deep"):
        to_array(program("forward(self):\n return(r0)", {"a": value}))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CaptureError, match="contain themselves"):
        to_array(program("forward(self):\n return(r0)", {"a": loop}))


def test_an_object_as_a_result() -> None:
    inner = ScriptObject("__torch__.Inner", {"x": 1, "y": [2]})
    result = run("forward(self):\n r1 = get_attr 0 (r0)\n return(r1)", attributes={"inner": inner})
    assert (result.x, result.y) == (1, [2])
