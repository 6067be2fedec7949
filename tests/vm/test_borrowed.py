"""What the caller lends to VM code: memory that may not be written is not written, whatever an in-place operator would do."""

from __future__ import annotations

import array
import ctypes
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penlight
from penlight import _runtime
from penlight.file.writer import to_array
from tests.file.assemble import program
from tests.vm.check import OperatorError, run

ROOT = Path(__file__).parents[2]
IN_PLACE = {
    "elementwise": "r2 = aten::add_.Scalar(r1, 1)",
    "copied into": "r2 = aten::copy_.int(r1, 7)",
    "zeroed": "r2 = aten::zero_(r1)",
    "through a view": "r2 = aten::select.int(r1, 0, 0)\n r3 = aten::add_.Scalar(r2, 1)",
    "by out=": "r2 = aten::neg.out(r1, r1)",
}


def model(line: str) -> penlight.Model:
    return penlight.Model(to_array(program(f"forward(self, x):\n {line}\n return(r1)")), threads=1)


def mapped(path: Path) -> np.ndarray:
    """Of a read-only mapping: whoever writes it dies."""
    path.write_bytes(np.arange(6, dtype=np.float32).tobytes())
    with path.open("rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.float32)


def frozen() -> np.ndarray:
    x = np.arange(6, dtype=np.float32)
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("line", IN_PLACE.values(), ids=IN_PLACE)
@pytest.mark.parametrize("kind", ["bytes", "mapping", "frozen"])
def test_read_only_memory_is_copied_before_it_is_written(kind: str, line: str, tmp_path: Path) -> None:
    if kind == "bytes":
        x = np.frombuffer(np.arange(6, dtype=np.float32).tobytes(), np.float32)
    else:
        x = mapped(tmp_path / "x") if kind == "mapping" else frozen()
    before, writable = x.copy(), x.copy()
    m = model(line)
    result = m(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(result, m(writable))
    np.testing.assert_array_equal(result, writable)  # which was written in place, as in torch
    assert not np.array_equal(result, before)


# The tensor of which a result is an array has another memory from then on.
ELSEWHERE = {
    "larger": "r2 = aten::resize_(r1, [50000000], None)",
    "another's": "r2 = aten::zeros([5], 6, None, None, None)\n r3 = aten::set_.source_Tensor(r1, r2)",
    "none": "r2 = aten::set_(r1)",
    "of an out=": "r2 = aten::zeros([5], 6, None, None, None)\n r3 = aten::neg.out(r2, r1)",
}
LENT = """
import numpy as np, penlight
from penlight.file.writer import to_array
from tests.file.assemble import program
text = '''make(self):
 r1 = aten::full([3000000], 3, 6, None, None, None)
 set_attr 0 (r0, r1)
 return(r1)
move(self):
 r1 = get_attr 0 (r0)
 {line}
 return(0)'''
model = penlight.Model(to_array(program(text, attributes={{"kept": 0}})), threads=1)
for _ in range(2):
    result = np.asarray(model.make())
    model.move()
    model.move()
    assert (result == 3).all()
    result += 1
    assert (result == 4).all()
print("all there")
"""


@pytest.mark.parametrize("line", ELSEWHERE.values(), ids=ELSEWHERE)
def test_results_stay_when_code_moves_what_they_show(line: str) -> None:
    """An array of a result reads the memory of a tensor of the model's. A later run freed that: the array read and wrote what was gone."""
    child = subprocess.run(
        [sys.executable, "-c", LENT.format(line=line)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (child.returncode, child.stdout) == (0, "all there\n"), child.stderr


def test_read_only_memory_that_comes_back_is_a_copy() -> None:
    x = frozen()
    result = model("r2 = aten::neg(r1)")(x)
    result += 1
    np.testing.assert_array_equal(x, np.arange(6))


@pytest.mark.parametrize("inside", ["a list", "a dict", "a tuple"])
def test_read_only_memory_inside_containers(inside: str) -> None:
    x, m = frozen(), model("r2 = aten::__getitem__.t(r1, 0)\n r3 = aten::add_.Scalar(r2, 1)")
    if inside == "a list":
        np.testing.assert_array_equal(m([x])[0], np.arange(6) + 1)
    elif inside == "a dict":
        m = model("r2 = aten::__getitem__.Dict_str(r1, 'a')\n r3 = aten::add_.Scalar(r2, 1)")
        np.testing.assert_array_equal(m({"a": x})["a"], np.arange(6) + 1)
    else:
        m = model("r2, r3 = unpack(r1)\n r4 = aten::add_.Scalar(r2, 1)")
        np.testing.assert_array_equal(m((x, 1))[0], np.arange(6) + 1)
    np.testing.assert_array_equal(x, np.arange(6))


def test_broadcast_arrays_are_refused_as_in_torch() -> None:
    """Several elements have one place: torch too says to clone first."""
    base, m = np.arange(3, dtype=np.float32), model(IN_PLACE["elementwise"])
    shared = np.lib.stride_tricks.as_strided(base, (2, 3), (0, 4))
    for x in (np.broadcast_to(base, (2, 3)), shared, torch.tensor(base).expand(2, 3)):
        with pytest.raises(penlight.RunError, match="Clone it first"):
            m(x)
    np.testing.assert_array_equal(base, np.arange(3))


def test_broadcast_arrays_that_are_filled() -> None:
    """Which torch does; numpy's are read-only."""
    base = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(model(IN_PLACE["copied into"])(np.broadcast_to(base, (2, 3))), np.full((2, 3), 7))
    np.testing.assert_array_equal(base, np.arange(3))


@pytest.mark.parametrize(
    ("name", "args"), [("aten::add_.Scalar", (1,)), ("aten::copy_", (torch.ones(3),)), ("aten::relu_", ())]
)
def test_torch_refuses_expanded_tensors_too(name: str, args: tuple[Any, ...]) -> None:
    x = torch.arange(3.0).expand(2, 3)
    with pytest.raises(RuntimeError, match="more than one element"):
        getattr(x, name.removeprefix("aten::").partition(".")[0])(*args)
    with pytest.raises(OperatorError, match="Clone it first"):
        run(name, x, *args)


def test_what_others_may_write_is_not_kept_between_calls() -> None:
    """A read-only view of memory that its owner changes: packed weights of the first call are not those of the second."""
    m = penlight.Model(
        to_array(program("forward(self, x, w):\n r3 = aten::linear(r1, r2, None)\n return(r3)")), threads=1
    )
    x, owner = np.eye(32, dtype=np.float32), np.ones((48, 32), np.float32)
    view = owner.view()
    view.flags.writeable = False
    for factor in (1, 2, 3):
        owner[:] = factor
        np.testing.assert_array_equal(m(x, view), np.full((32, 48), factor, np.float32))


@pytest.mark.parametrize("kind", ["one dim", "two dims", "read-only", "array.array"])
def test_buffers_that_leave_their_strides_out(kind: str) -> None:
    """As those of ctypes do."""
    given: Any = (ctypes.c_float * 6)(*range(6))
    if kind == "two dims":
        given = ((ctypes.c_float * 3) * 2)((0, 1, 2), (3, 4, 5))
    elif kind == "read-only":
        given = memoryview(given).toreadonly()
    elif kind == "array.array":
        given = array.array("f", range(6))
    shape = (2, 3) if kind == "two dims" else (6,)
    result = model(IN_PLACE["elementwise"])(given)
    np.testing.assert_array_equal(result, np.arange(1.0, 7).reshape(shape))
    here = np.asarray(memoryview(given).cast("B").cast("f"))
    np.testing.assert_array_equal(here, np.arange(6) + (kind != "read-only"))


def test_the_extension_reads_and_writes_them_too() -> None:
    """What lies below penlight.Model."""
    matrix = (ctypes.c_float * 3) * 2
    given, result, again = matrix((-1, 2, 3), (4, 5, -6)), matrix(), matrix()
    made = penlight.optimize(torch.nn.ReLU(), (torch.ones(2, 3),))
    image = made.to_bytes()
    handle, session = _runtime.Model(), _runtime.Session()
    assert handle.open_memory((ctypes.c_uint8 * len(image)).from_buffer_copy(image), _runtime.LOAD_COPY) is None
    assert session.create(handle, "forward", **made._options) is None
    assert session.set_inputs([given]) or session.prepare() or session.run([result]) is None
    np.testing.assert_array_equal(result, [[0, 2, 3], [4, 5, 0]])
    assert session.set_inputs([given]) or session.run([None]) is None
    session.read_output(0, again)
    np.testing.assert_array_equal(again, result)


def test_masks_are_not_dropped() -> None:
    x = np.ma.masked_array(np.ones(3, np.float32), mask=[True, False, False])
    with pytest.raises(penlight.errors.InputError, match=r"Fill that first: \.filled"):
        model("r2 = aten::neg(r1)")(x)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.zeros(3, ">f4"), "numbers as this machine has them, got one of >f4"),
        (np.zeros(3, object), "numbers as this machine has them, got one of object"),
        (np.zeros(3, [("a", "f4")]), "got one of .*'a'"),
        (np.zeros(3, [("a", "f4"), ("b", "u1")])["a"], "a field of a structured one"),
        (np.zeros(3, np.uint16), "a dtype that no operator here takes"),
        (torch.zeros(3, dtype=torch.float8_e4m3fn), "a dtype that no operator here takes"),
        (torch.zeros(3, device="meta"), "a dense tensor on the CPU, got a torch.strided tensor on meta"),
        (torch.ones(3).to_sparse(), "a dense tensor on the CPU, got a torch.sparse_coo tensor"),
        (torch._to_functional_tensor(torch.ones(3)), "no memory$"),
        (
            penlight._runtime.TensorValue(np.zeros(1, np.uint8), 2),
            "a dtype that no operator here takes",
        ),  # f64, which is longer
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_memory_that_cannot_be_lent(given: Any, told: str) -> None:
    with pytest.raises(penlight.errors.InputError, match=told):
        model("r2 = aten::neg(r1)")(given)


class Once:
    """Shows its memory the first time only."""

    asked = 0

    def __dlpack__(self, **_: Any) -> Any:
        self.asked += 1
        if self.asked > 1:
            raise KeyError("again")
        return np.zeros(3, np.float32).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


WRITTEN = {
    "copied": "r3 = aten::index_copy_(r1, 0, r7, r8)",
    "added": "r3 = aten::index_add_(r1, 0, r7, r8)",
    "filled": "r3 = aten::index_fill_.int_Scalar(r1, 0, r7, 1099511627776)",
    "put": "r3 = aten::put_(r1, r7, r8)",
    "scattered": "r3 = aten::scatter_.src(r1, 0, r7, r8)",
    "indexed": "r4 = list(r7)\n r3 = aten::index_put_(r1, r4, r8)",
}


@pytest.mark.parametrize("line", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize(
    "index", ["move(r1)", "aten::detach(r1)", "move(r2)"], ids=["itself", "a view", "the same array"]
)
def test_places_that_are_written_by_themselves(line: str, index: str) -> None:
    """They were proven, then written, then used: a file wrote anywhere. (torch refuses such calls.)"""
    text = f"""forward(self, x, y):
 r7 = {index}
 r8 = aten::mul.Scalar(r1, 1099511627776)
 {line}
 return(r1)"""
    m = penlight.Model(to_array(program(text)), threads=1)
    for x in (np.array([1, 0, 2, 3]), np.array([3, 2, 1, 0]), np.array([2, 2, 2, 2])):
        own = x.copy()
        try:
            result = m(own, own)
        except penlight.RunError as error:
            assert "out of" in str(error)
        else:
            assert {n % 2**40 for n in result.tolist()} <= set(range(4))


ALIKE = """
import random
import numpy as np
from penlight import _runtime
from penlight.ops.vm_operators import operators
CHOICES = {
    "integers": ([0], [0, 1], [2, 2], []), "integer": (0, 0, 1, -1, 1 << 40), "real": (0.5, 1e18), "number": (1 << 40, -1, 2, 1e18),
    "boolean": (True, False), "string": ("sum", "add", "multiply", "amax", "mean", "prod"),
}
BASES = np.array([1, 0, 2, 3]), np.arange(16).reshape(4, 4) % 4, np.arange(8)[::-1], np.array([0.0, 1, 2]), np.array([True, False, True])
chosen, machine = random.Random(8), _runtime.Operators()
machine.create(1, 1 << 28)
for name, operator in sorted(operators().items()):
    if not any(p.written for p in operator.params):
        continue
    for _ in range(30):
        x = _runtime.HeldValue(chosen.choice(BASES).copy())
        (view,) = machine.run("aten::detach", [x], True)[1]
        args = []
        for p in operator.params:
            if p.default is not None and chosen.random() < 0.3:
                break
            args.append(chosen.choice((x, view)) if p.kind == "tensor" else [x.get().array] if p.kind == "tensors" else chosen.choice(CHOICES.get(p.kind, (None,))))
        print(name, flush=True)
        try:
            machine.run(name, args)
        except TypeError:
            pass
"""


def test_every_operator_that_writes_given_one_tensor_for_all() -> None:
    child = subprocess.run([sys.executable, "-c", ALIKE], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stdout[-40:] + child.stderr
    assert child.stdout.count("\n") > 20_000


CHANGING = """
import sys, threading, time
import numpy as np, penlight
from penlight.file.writer import to_array
from tests.file.assemble import program
line, most = sys.argv[1], int(sys.argv[2])
model = penlight.Model(to_array(program("forward(self, x):\\n r2 = aten::ones([2, 8], 6, None, None, None)\\n " + line + "\\n return(0)")), threads=1)
x = np.zeros(100_000, bool if most == 0 else np.int64)
over = threading.Event()
def write():
    while not over.is_set():
        x[:] = most or 1
        x[:] = 0
thread = threading.Thread(target=write)
thread.start()
end = time.monotonic() + 1
while time.monotonic() < end:
    try:
        model(x)
    except penlight.RunError:
        pass
over.set()
thread.join()
print("alive")
"""


@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("r3 = aten::nonzero(r1)", 0),
        ("r3 = aten::masked_select(r1, r1)", 0),
        ("r3 = aten::embedding(r2, r1)", 1 << 40),
        ("r3 = aten::index_select(r2, 0, r1)", 1 << 40),
        ("r3 = aten::repeat_interleave.Tensor(r1)", 1),
    ],
)
def test_arrays_that_another_thread_writes_meanwhile(line: str, most: int) -> None:
    """What was counted or proven of them is not there any more: numbers may be wrong, memory not."""
    child = subprocess.run(
        [sys.executable, "-c", CHANGING, line, str(most)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (child.returncode, child.stdout) == (0, "alive\n"), child.stderr


def test_an_object_that_shows_its_memory_once() -> None:
    with pytest.raises(penlight.errors.InputError, match="shows no memory"):
        model("r2 = aten::neg(r1)")(Once())


class Named(tuple):
    """So that whoever writes or hashes it need not go into it."""

    def __repr__(self) -> str:
        return "\udc80" + "é" * 100

    def __hash__(self) -> int:
        return 0


class TwoFaced(list):
    """Another list each time somebody looks."""

    asked = 0

    def __iter__(self) -> Any:
        self.asked += 1
        deep: list[Any] = []
        for _ in range(100_000 if self.asked > 1 else 0):
            deep = [deep]
        return iter([deep])


def test_containers_with_odd_parts() -> None:
    m = model("r2 = aten::__is__(r1, None)")
    key = Named()
    for _ in range(100_000):
        key = Named((key,))
    with pytest.raises(penlight.errors.InputError, match="nested deeper than 200"):
        m({key: 1})
    with pytest.raises(penlight.errors.InputError, match=r"\[\\udc80é+\]: expected a tensor.*got object$") as told:
        m({Named(): object()})
    assert len(str(told.value)) < 300
    assert m(TwoFaced()) == [[]]


@pytest.mark.parametrize("line", IN_PLACE.values(), ids=IN_PLACE)
def test_a_tensor_of_ours_never_changes(line: str) -> None:
    x = np.arange(6, dtype=np.float32)
    lent, m = penlight.Tensor(x), model(line)
    result = m(lent)
    np.testing.assert_array_equal(lent.numpy(), np.arange(6))
    np.testing.assert_array_equal(x, np.arange(6))
    np.testing.assert_array_equal(result.numpy(), m(x.copy()))


MOVED = {
    "resize_": "r4 = aten::resize_(r1, r2, None)",
    "set_": "r4 = aten::set_.source_Tensor(r1, r3)",
    "out=": "r4 = aten::neg.out(r3, r1)",
}


@pytest.mark.parametrize("line", MOVED.values(), ids=MOVED)
def test_arrays_of_a_tensor_that_code_gives_other_memory(line: str) -> None:
    """Their memory was freed under them, which a model's file could bring about; and what a tensor had before counted for ever."""
    text = f"""
    make(self):
      r1 = aten::ones([50000], 6, None, None, None)
      set_attr 0 (r0, r1)
      return(r1)
    move(self):
      r1 = get_attr 0 (r0)
      r2 = list(100000)
      r3 = aten::zeros(r2, 6, None, None, None)
      {line}
      return(r1)"""
    m = penlight.Model(to_array(program(text, {"x": None})), threads=1, memory_limit=4 << 20)
    for _ in range(20):
        given = m.run_method("make").mul_(3)
        moved = m.run_method("move")
        assert moved.numel() == 100000
        moved.fill_(7)
        others = [torch.zeros(50000) for _ in range(8)]  # may get what is freed
        assert given.eq(3).all()
        del others
