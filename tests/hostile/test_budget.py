"""Small files that ask for much: each ends soon, in one error in words, or is read for what it is. The peak of Python's memory is
counted, not time."""

from __future__ import annotations

import io
import math
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.capture.export.pt2_file import open_exported
from penlight.capture.lite import read
from penlight.capture.lite.registers import to_script
from penlight.capture.script.freeze import freeze
from penlight.capture.source import SourceProgram
from penlight.errors import BudgetError, CaptureError
from tests.capture.lite import build
from tests.capture.lite.build import name, tensor
from tests.tools.call import Penlight

WORDS = "out of proportion for a file of"
MOST = 200 << 20  # bytes of Python's memory


@pytest.fixture
def modest() -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST


def restored(instructions: list[tuple[str, int, int]], operators: Any = (), constants: Any = ()) -> bytes:
    """A module whose __setstate__ is this code; its state is a list of two."""
    state = name("__torch__", "M") + b")\x81" + b"](K\1K\2e\x85b"
    code = build.code((*instructions, ("LOADC", 0, 0), ("RET", 0, 0)), operators, (None, *constants), registers=2)
    arguments = (("self", "__torch__.M"), ("state", "Any"))
    function = ("__torch__.M.__setstate__", code, build.schema(*arguments))
    return build.program(functions=(build.function(), function), data=state)


def doubled(levels: int, ends: bytes) -> bytes:
    """A tuple whose two parts are one, so many levels deep: 2 ** levels parts."""
    return ends + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(levels))


def test_a_stack_that_grows_in_setstate(modest: None) -> None:
    """All of it goes into a list, which is unpacked onto it again."""
    grow: list[tuple[str, int, int]] = [("STOREN", 1, 2)]
    size = 1
    grow.append(("LOAD", 2, 0))
    for _ in range(15):
        grow += [
            ("LIST_CONSTRUCT", 0, size),
            ("STORE", 2, 0),
            ("LOAD", 2, 0),
            ("LIST_UNPACK", size, 0),
            ("LOAD", 2, 0),
            ("LIST_UNPACK", size, 0),
        ]
        size *= 2
    for _ in range(400):  # and now many lists of it
        grow += [("LIST_CONSTRUCT", 0, size), ("STORE", 2, 0), ("LOAD", 2, 0), ("LIST_UNPACK", size, 0)]
    data = restored([*grow, ("LIST_CONSTRUCT", 0, size), ("DROP", 0, 0)])
    assert len(data) < 60_000
    with pytest.raises(CaptureError, match=WORDS):
        read(data)


def test_repeated_list_unpack() -> None:
    code = build.code(
        (("STOREN", 1, 1), *(("LOAD", 1, 0), ("LIST_UNPACK", 65_000, 0), ("LIST_CONSTRUCT", 0, 65_000), ("DROP", 0, 0)) * 500, ("LOADC", 0, 0), ("RET", 0, 0)),
        constants=(None,),
    )  # fmt: skip
    with pytest.raises(CaptureError, match=WORDS):
        to_script(read(build.program(functions=(build.function(code),))))


@pytest.mark.parametrize("depth", [18, 60, 190])
def test_keys_that_take_long_to_hash(depth: int) -> None:
    key = doubled(depth, b")")
    entries = b"".join(b"h" + bytes([depth - 1]) + b"K" + bytes([i]) + b"\x86K\1" for i in range(200))
    with pytest.raises(CaptureError, match=WORDS):
        read(build.program(data=build.module({"k": key, "d": b"}(" + entries + b"u"})))


def test_keys_of_one_hash() -> None:
    """-1 and -2 have one hash, and so have all tuples of them; complex numbers of one hash are a matter of arithmetic. A dict compares each
    with all that it has: a megabyte took 22 seconds, and four would have taken six minutes."""
    ones = b"J" + struct.pack("<i", -1) + b"q\0J" + struct.pack("<i", -2) + b"q\1\x86"
    tuples = b"".join(b"(" + b"".join(b"h" + bytes([n >> i & 1]) for i in range(16)) + b"tK\1" for n in range(4_000))
    with pytest.raises(CaptureError, match="a tuple as the key of a dict"):
        read(build.program(data=build.module({"p": ones, "d": b"}(" + tuples + b"u"})))
    name_of_complex = b"c__builtin__\ncomplex\nq\5"
    numbers = [struct.pack(">cdcd", b"G", 5.0 - 1_000_003 * i, b"G", float(i)) + b"\x86RK\1" for i in range(4_000)]
    items = name_of_complex + numbers[0] + b"".join(b"h\5" + n for n in numbers[1:])
    with pytest.raises(CaptureError, match=WORDS):
        read(build.program(data=build.module({"d": b"}(" + items + b"u"})))


def test_values_that_take_long_to_compare() -> None:
    """Two trees of the same shape, of shared parts: == walks 2 ** 18 parts, a thousand times."""
    both = doubled(18, b"K\1") + doubled(18, b"K\1")
    loop = [("STOREN", 1, 2)]
    loop += [("LOAD", 2, 0), ("LIST_UNPACK", 2, 0), ("OP", 0, 0), ("DROP", 0, 0)] * 1000
    code = build.code((*loop, ("LOADC", 0, 0), ("RET", 0, 0)), (("aten::eq", "int", 2),), (None,), registers=2)
    function = ("__torch__.M.__setstate__", code, build.schema(("self", "__torch__.M"), ("state", "Any")))
    state = name("__torch__", "M") + b")\x81" + b"](" + both + b"e\x85b"
    program = read(build.program(functions=(build.function(), function), data=state))
    assert program.module.has_state  # its method does more than is run here


def test_expanded_tensors() -> None:
    """A billion elements, all of them one."""
    data = build.program(data=build.module({"w": tensor("0", 1, (1 << 15, 1 << 15), (0, 0))}), data__0=bytes(4))
    assert len(data) < 1500
    with pytest.raises(CaptureError, match=WORDS):
        penlight.optimize(data)
    many = {f"w{i}": tensor("0", 1, (1000, 1000), (0, 0)) for i in range(200)}
    with pytest.raises(CaptureError, match=WORDS):
        read(build.program(data=build.module(many), data__0=bytes(4)))


def test_a_larger_budget_is_to_be_had() -> None:
    many = {f"w{i}": tensor("0", 1, (1000, 1000), (0, 0)) for i in range(17)}
    data = build.program(data=build.module(many), data__0=bytes(4))
    with pytest.raises(CaptureError, match=r"--read-budget, now 1\)"):
        penlight.optimize(data)
    assert penlight.optimize(data, read_budget=2).methods == ["forward"]
    assert penlight.optimize(data, read_budget=math.inf).methods == ["forward"]
    for wrong in (0, -1, math.nan, "2"):
        with pytest.raises(ValueError, match="read_budget: expected a number above 0, got"):
            penlight.optimize(data, read_budget=wrong)  # type: ignore[arg-type]


def test_tables_of_a_flatbuffer_that_share_a_long_layout(modest: None) -> None:
    """4,000 tables, each with the same 30,000 fields."""
    tables, fields = 4_000, 30_000
    head = bytearray(struct.pack("<I4s", 0, b"PTMF"))
    layout = len(head)
    head += struct.pack("<2H", 4 + 2 * fields, 8) + struct.pack("<H", 4) + bytes(2 * (fields - 1))
    head += bytes(-len(head) % 4)
    module_layout = len(head)
    head += struct.pack("<2H5H", 14, 12, 4, 0, 0, 0, 8)
    head += bytes(-len(head) % 4)
    root = len(head)
    head += struct.pack("<i", root - module_layout) + struct.pack("<I", 9) + struct.pack("<I", 0)
    struct.pack_into("<I", head, root + 8, len(head) - (root + 8))  # field 4, its values: offsets lead forwards only
    vector = len(head)
    head += struct.pack("<I", tables) + bytes(4 * tables)
    for i in range(tables):
        at = len(head)
        struct.pack_into("<I", head, vector + 4 + 4 * i, at - (vector + 4 + 4 * i))
        head += struct.pack("<i", at - layout) + struct.pack("<I", 9)
    struct.pack_into("<I", head, 0, root)
    with pytest.raises(CaptureError):
        read(bytes(head))


def flatbuffer(values: list[tuple[int, bytes]]) -> bytes:
    """A program of these values: their kinds, and tables or structs, of which each says how far into it a reader begins (8 bytes)."""
    head = bytearray(struct.pack("<I4s", 0, b"PTMF"))
    module_layout = len(head)
    head += struct.pack("<2H5H2x", 14, 12, 4, 0, 0, 0, 8)
    value_layout = len(head)
    head += struct.pack("<2H2H", 8, 12, 4, 8)
    root = len(head)
    struct.pack_into("<I", head, 0, root)
    head += struct.pack("<iII", root - module_layout, 9, 4) + struct.pack("<I", len(values)) + bytes(4 * len(values))
    for i, (kind, data) in enumerate(values):
        head += bytes(-len(head) % 8)
        at, place = len(head), root + 16 + 4 * i
        struct.pack_into("<I", head, place, at - place)
        begin = struct.unpack_from("<Q", data)[0]
        head += struct.pack("<iB3xI", at - value_layout, kind, 4 + begin) + data[8:]
    return bytes(head)


def flat_complex(value: complex) -> tuple[int, bytes]:
    return 4, struct.pack("<Q2d", 0, value.real, value.imag)


def flat_int(value: int) -> tuple[int, bytes]:
    return 1, struct.pack("<Qq", 0, value)


def flat_of(kind: int, *fields: list[int]) -> tuple[int, bytes]:
    """A tuple (8) or a dict (9): vectors of the numbers of other values."""
    layout = struct.pack(
        f"<2H{len(fields)}H", 4 + 2 * len(fields), 4 + 4 * len(fields), *(4 + 4 * i for i in range(len(fields)))
    )
    offsets, vectors = b"", b""
    for i, items in enumerate(fields):
        offsets += struct.pack("<I", 4 * (len(fields) - i) + len(vectors))
        vectors += struct.pack(f"<I{len(items)}I", len(items), *items)
    return kind, struct.pack("<Q", len(layout)) + layout + struct.pack("<i", len(layout)) + offsets + vectors


def test_keys_of_one_hash_in_a_flatbuffer() -> None:
    """As in a zip file, above."""
    numbers = [flat_complex(complex(5.0 - 1_000_003 * i, i)) for i in range(4_000)]
    assert len({hash(complex(5.0 - 1_000_003 * i, i)) for i in range(4_000)}) == 1
    everything = list(range(len(numbers)))
    with pytest.raises(CaptureError, match=WORDS):
        read(flatbuffer([*numbers, flat_of(9, everything, everything)]))
    pairs = [flat_int(-1), flat_int(-2), flat_of(8, [0, 1]), flat_of(9, [2], [0])]
    with pytest.raises(CaptureError, match="a dict has a tuple, a list or a dict as a key"):
        read(flatbuffer(pairs))
    few = [*numbers[:10], flat_of(9, everything[:10], everything[:10])]
    with pytest.raises(CaptureError, match="its state, value 0, is complex, expected a module"):  # all else is well
        read(flatbuffer(few))


def shared_state(levels: int) -> bytes:
    """Modules, each of which holds the next one twice, and lists that do so too."""
    inner = build.module({"training": b"\x89", "n": b"K\1"}, "Inner")
    for i in range(levels):
        inner = build.module({"a": inner + b"q" + bytes([i]), "b": b"h" + bytes([i])}, "Inner")
    return inner


@pytest.mark.parametrize("command", ["inspect", "lint"])
def test_commands_do_not_walk_shared_values_again(command: str, tmp_path: Path, penlight_command: Penlight) -> None:
    for i, data in enumerate((build.module({"m": shared_state(17)}), build.module({"t": doubled(17, b"K\1")}))):
        file = tmp_path / f"{i}.ptl"
        file.write_bytes(build.program(data=data))
        told = penlight_command(command, file)
        assert told.code in (0, 1)
        assert "fault of Penlight" not in told.err
        assert len(told.out) < 20_000


@pytest.mark.slow
def test_functions_that_call_each_other_twice() -> None:
    """2 ** 15 calls of the last of them, in each of 30 methods."""
    code = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
    code += "".join(f"  def m{m}(self: __torch__.M, x: int) -> int:\n    return __torch__.f0(x)\n" for m in range(30))
    for i in range(15):
        code += f"def f{i}(x: int) -> int:\n  y = __torch__.f{i + 1}(x)\n  return __torch__.f{i + 1}(y)\n"
    code += "def f15(x: int) -> int:\n  return torch.add(x, 1)\n"
    pickles = {
        "data.pkl": build.START + build.module({"training": b"\x89"}) + build.STOP,
        "constants.pkl": build.START + b")" + build.STOP,
    }
    with pytest.raises(CaptureError, match=WORDS):
        SourceProgram(build.archive({"version": b"3\n", **pickles, "code/__torch__.py": code.encode()})).script()


@pytest.mark.slow
def test_code_whose_registers_are_all_known(modest: None) -> None:
    """Each of its instructions has thousands of constants in registers before it: kept for each, they would take gigabytes."""
    count = 6_000
    stores = tuple(step for i in range(count) for step in (("LOADC", 1, 0), ("STORE", i + 2, 0)))
    code = build.code(
        (("STOREN", 1, 1), *stores, *(("LOAD", 2, 0), ("STORE", 3, 0)) * count, ("LOADC", 0, 0), ("RET", 0, 0)),
        constants=(None, True), registers=count + 2,
    )  # fmt: skip
    script = to_script(read(build.program(functions=(build.function(code),))))
    freeze(script)
    assert [a.op for a in script.functions["__torch__.M.forward"].code] == ["return"]


def test_registers_of_great_numbers() -> None:
    code = build.code(
        (("STOREN", 1, 1), *(("LOAD", 1 << 20, 0), ("STORE", (1 << 20) - 1, 0)) * 10_000, ("LOADC", 0, 0), ("RET", 0, 0)),
        constants=(None,), registers=1 << 20,
    )  # fmt: skip
    with pytest.raises(CaptureError, match="out of proportion for .* instructions"):
        freeze(to_script(read(build.program(functions=(build.function(code),)))))


def test_what_inflates_is_counted() -> None:
    """Many records that are nothing but zeros."""
    records = {
        "version": b"3\n",
        "bytecode.pkl": build.pickled((8, build.function())),
        "data.pkl": build.START + build.module({}) + build.STOP,
    }
    records.update({f"extra/{i}": bytes(1 << 20) for i in range(100)})
    with pytest.raises(CaptureError, match="inflate|proportion"):
        read(build.archive(records, zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize("name", ["m/models/model.json", "serialized_exported_program.json"])
def test_json_that_is_much_larger_when_it_is_parsed(name: str) -> None:
    """64 kB inflated to text of which three letters each made an object of 64 bytes: 2 GB."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"[" + b"{}," * 6_000_000 + b"{}]")
        stored = zipfile.ZipInfo(name.partition("/")[0] + "/data")
        archive.writestr(stored, bytes(1 << 19))  # in proportion to it others may inflate
    data = np.frombuffer(made.getvalue(), np.uint8)
    tracemalloc.start()
    try:
        with pytest.raises(BudgetError, match=WORDS):
            open_exported(data, "m.pt2")
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


def test_ordinary_files_take_little(tmp_path: Path) -> None:
    """A thousandth of what they may."""
    import torch
    from torch import nn

    from penlight.capture.quiet import quiet

    with quiet():
        script = torch.jit.script(nn.Sequential(*(nn.Linear(64, 64) for _ in range(40))))
        script._save_for_lite_interpreter(str(tmp_path / "m.ptl"))
    program = read(tmp_path / "m.ptl")
    to_script(program)
    spent = program.budget.most_steps - program.budget._steps
    assert spent < program.budget.most_steps / 100
