"""Files that are wrong, by accident or on purpose: an error in words, soon, and nothing run."""

import io
import os
import random
import struct
import time
import tracemalloc
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from penlight.capture.lite import bytecode_version, read
from penlight.capture.lite.flatbuffer import _Wire
from penlight.capture.lite.unpickle import unpickle
from penlight.errors import CaptureError
from tests.capture.lite import build, legacy
from tests.capture.lite.build import START, STOP, integer, integers, name, tensor, text

ZIP = (legacy.FIXTURES / "control.v8.ptl").read_bytes()
FLAT = (legacy.FIXTURES / "control.v9.ptl").read_bytes()


def load(*opcodes: bytes) -> object:
    return unpickle(START + b"".join(opcodes) + STOP, "test")


def refused(message: str, data: bytes) -> None:
    with pytest.raises(CaptureError, match=message):
        read(data)


# pickles


@pytest.mark.parametrize(
    ("module", "leaf"),
    [("posix", "system"), ("os", "system"), ("builtins", "eval"), ("torch", "load"), ("torch._utils", "_rebuild_parameter"),
     ("torch.jit._pickle", "build_anything"), ("__main__", "TensorID"), ("subprocess", "Popen"), ("torch", "FancyStorage")],
)  # fmt: skip
def test_only_known_constructors(module, leaf, tmp_path):
    mark = tmp_path / "mark"
    call = name(module, leaf) + text(f"touch {mark}") + b"\x85R"
    refused("nothing is run", build.program(data=call))
    refused("nothing is run", build.program(bytecode=START + b"(K\x08" + call + b"t" + STOP))
    with pytest.raises(CaptureError, match=f"calls '{module}.{leaf}'.*nothing is run"):
        load(call)
    assert not mark.exists()


def test_refusals_say_why():
    for leaf, why in (("_rebuild_sparse_tensor", "make them dense"),):
        with pytest.raises(CaptureError, match=why):
            load(name("torch._utils", leaf))


@pytest.mark.parametrize(
    "opcode", [o for o in range(256) if bytes([o]) not in b"hK\x87q(tXjrMJ\x8aGN\x88\x89)\x85\x86]}eausc\x81bRQ."]
)
def test_other_opcodes(opcode):
    with pytest.raises(CaptureError, match="is not one that PyTorch's pickler writes"):
        load(bytes([opcode]))


@pytest.mark.parametrize(
    "opcodes",
    [
        b"",  # nothing at all
        b"NN",  # two values
        b"(N",  # a mark left over
        b"t",  # no mark
        b"(e",  # no list
        b"Ne",
        b"N(Ne",  # not a list
        b"](N(t",  # a mark inside
        b"}(Nu",  # a key without a value
        b"}(]Nu",  # a list as a key
        b"}(]\x85Nu",  # a tuple with a list as a key
        b"h\0",  # memo not written
        b"q\0",  # nothing to remember
        b"\x86",
        b"R",
        b"NNR",
        b"NNb",
        b"N)\x81",
        b"NQ",
        b"(" + text("storage") + name("torch", "FloatStorage") + text("0") + text("cpu") + b"K\0NNtQ",
        b")Q",
        b"X\xff\xff\xff\xff",  # a text of 4 GB
        b"X\x05\0\0\0ab",
        b"\x8a\xff" + b"\xff" * 255,  # an integer of 2040 bits
        b"\x8a\x08\0",
        b"G\0",
        b"M\0",
        b"J\0",
        b"K",
        b"cos\n",
        b"c" + b"a" * 10000,
        b"c__torch__\nM\n",  # a class alone
        b"c__torch__\nM\n)\x81",  # without state
        b"c__torch__\nM\n)\x81}(K\0Nub",  # an attribute named 0
        b"ctorch\nFloatStorage\n",
        b"(ctorch\nFloatStorage\nt",
        b"](ctorch\nFloatStorage\ne",
        b"}(Nctorch\nper_tensor_affine\nu",
        b"ccollections\nOrderedDict\nNR",
        b"ctorch\ndevice\nK\0\x85R",
        b"cbuiltins\ncomplex\nNN\x86R",
        b"ctorch.jit._pickle\nbuild_intlist\n](Ne\x85R",
        b"ctorch.jit._pickle\nbuild_intlist\n](\x88e\x85R",  # True is no integer
        b"ctorch.jit._pickle\nbuild_intlist\n)R",
        b"ctorch.jit._pickle\nrestore_type_tag\nNN\x86R",
        b"ctorch._utils\n_rebuild_tensor_v2\n)R",
        b"ctorch._utils\n_rebuild_qtensor\n(NNNNNNtR",
    ],
)  # fmt: skip
def test_broken_pickles(opcodes):
    with pytest.raises(CaptureError, match="^test: "):
        load(opcodes)


def test_a_pickle_cut_short_anywhere():
    with zipfile.ZipFile(io.BytesIO(ZIP)) as archive:
        data = archive.read("control.v8/bytecode.pkl")
    for size in range(0, len(data), 7):
        with pytest.raises(CaptureError):
            unpickle(data[:size], "test")
    assert unpickle(data, "test")[0] == 8


def test_deep_values():
    for opcodes in (
        b")" + b"\x85" * 100_000,
        b"]" * 100_000 + b"a" * 99_999,
        b"}K\0" * 999 + b"}" + b"s" * 999,
        b")" + b"\x85" * 201,
    ):
        with pytest.raises(CaptureError):
            load(opcodes)
    assert load(b")" + b"\x85" * 150)


def test_values_that_refer_to_each_other_often():
    """Two to the power of 60 values in a few bytes."""
    doubling = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(60))
    with pytest.raises(CaptureError, match="refer to each other so often"):
        load(b")" + doubling)


def test_no_cycles():
    with pytest.raises(CaptureError, match="changed after it went into the memo"):
        load(b"]q\0h\0a")
    with pytest.raises(CaptureError, match="changed after it went into the memo"):
        load(b"}q\0Nh\0s")


def test_one_list_copied_over_and_over():
    big = b"](" + b"K\0" * 100_000 + b"eq\0"
    with pytest.raises(CaptureError, match="the same list is used so often"):
        load(big, b"(", (name("torch.jit._pickle", "build_intlist") + b"h\0\x85R") * 10_000, b"t")


def test_places_in_the_memo_may_be_anywhere():
    assert load(b"K\7r\xff\xff\xff\xff", b"j\xff\xff\xff\xff", b"\x86") == (7, 7)


# tensors


def with_tensor(opcodes: bytes, size: int = 24) -> bytes:
    return build.program(data=build.module({"w": opcodes}), data__0=bytes(size))


def test_a_good_tensor():
    program = read(with_tensor(tensor("0", 6, (2, 3), (3, 1))))
    assert program.module.attributes["w"].array().shape == (2, 3)
    assert program.module.attributes["w"].name == "w"
    expanded = read(with_tensor(tensor("0", 6, (1000, 1000), (0, 0), 5))).module.attributes["w"]
    assert expanded.array().shape == (1000, 1000)


@pytest.mark.parametrize(
    ("opcodes", "message"),
    [
        (tensor("0", 7, (7,), (1,)), "claims 7 elements of 4 bytes, but data/0 has 24 bytes"),
        (tensor("0", -1, (7,), (1,)), "claims -1 elements"),
        (tensor("0", 6, (7,), (1,)), "reaches outside of its storage: .* need 28 bytes, data/0 has 24"),
        (tensor("0", 6, (6,), (1,), 1), "reaches outside"),
        (tensor("0", 6, (2, 3), (4, 1)), "reaches outside"),
        (tensor("0", 6, (2,), (1 << 62,)), "reaches outside"),
        (tensor("0", 6, (2,), (1,), 1 << 62), "reaches outside"),
        (tensor("0", 6, (2,), (1,), -1), "negative numbers"),
        (tensor("0", 6, (-1,), (1,)), "negative numbers"),
        (tensor("0", 6, (2,), (-1,)), "negative numbers"),
        (tensor("0", 6, (2, 3), (1,)), "2 sizes and 1 strides"),
        (tensor("0", 6, (1,) * 65, (1,) * 65), "65 sizes"),
        (tensor("0", 6, (1 << 62, 1 << 62), (0, 0)), "elements; at most"),
        (tensor("0", 6, (1 << 40,), (0,)), "elements; at most"),
        (tensor("1", 6, (6,), (1,)), "no record 'data/1'"),
        (tensor("../bytecode.pkl", 6, (6,), (1,)), "no record"),
        (tensor("0", 0, (6,), (1,)), "reaches outside"),
        (tensor("0", 6, (6,), (1,), kind="ComplexHalfStorage"), "ComplexHalf, which Penlight cannot hold"),
        (tensor("0", 6, (6,), (1,), kind="QInt8Storage"), "without a quantizer"),
    ],
)
def test_tensors_stay_in_their_storages(opcodes, message):
    refused(message, with_tensor(opcodes))


def quantized(parameters: bytes, count: int = 6, kind: str = "QInt8Storage", shape: tuple[int, ...] = (2, 3)) -> bytes:
    head = name("torch._utils", "_rebuild_qtensor") + b"(" + build.storage("0", count, kind)
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return head + integer(0) + integers(shape) + integers(strides) + parameters + b"\x89NtR"


def per_channel(scales: bytes, axis: int = 0) -> bytes:
    return b"(" + name("torch", "per_channel_affine") + scales + scales + integer(axis) + b"t"


def test_quantized_tensors():
    good = read(with_tensor(quantized(per_channel(tensor("0", 6, (2,), (1,)))))).module.attributes["w"]
    assert (good.dtype, good.quantizer.axis, len(good.quantizer.scale)) == ("i8", 0, 2)
    for wrong in (
        b"N",
        b")",
        b"(" + name("torch", "per_tensor_affine") + b"t",
        b"(" + name("torch", "per_tensor_affine") + integer(1) + integer(1) + b"t",
        per_channel(tensor("0", 6, (3,), (1,))),
        per_channel(tensor("0", 6, (2,), (1,)), axis=2),
        per_channel(tensor("0", 6, (2,), (0,))),
        per_channel(tensor("0", 6, (2, 1), (1, 1))),
        per_channel(tensor("0", 6, (2,), (1,), kind="ComplexHalfStorage")),
    ):
        with pytest.raises(CaptureError):
            read(with_tensor(quantized(wrong)))
    refused("with a quantizer", with_tensor(quantized(per_channel(tensor("0", 6, (2,), (1,))), kind="CharStorage")))


def test_many_tensors_with_the_same_scales():
    scales = tensor("0", 250_000, (250_000,), (1,))
    one = quantized(per_channel(scales), 250_000, shape=(250_000, 1))
    data = build.program(data=build.module({str(i): one for i in range(1000)}), data__0=bytes(1_000_000))
    refused("more scales than the file holds", data)


# tables of the bytecode


@pytest.mark.parametrize(
    "table",
    [
        {}, [], 8, "8", (8, 1), (8, ()), (8, ("f",)), (8, ("f", ())), (8, ("f", build.code())), (8, (1, build.code(), build.schema())),
        (8, build.function(build.code()[:3])), (8, build.function(build.code()[::-1])),
        (8, build.function(build.code(instructions=(("RET", 0),)))),
        (8, build.function(build.code(instructions=(("NOPE", 0, 0),)))),
        (8, build.function(build.code(instructions=((["RET"], 0, 0),)))),
        (8, build.function(build.code(instructions=(("RET", 1 << 31, 0),)))),
        (8, build.function(build.code(instructions=(("RET", 0, 1 << 16),)))),
        (8, build.function(build.code(instructions=(("RET", 0, -1),)))),
        (8, build.function(build.code(instructions=(("RET", "0", 0),)))),
        (8, build.function(build.code(instructions=7))),
        (8, build.function(build.code(operators=(("aten::add",),)))),
        (8, build.function(build.code(operators=(("aten::add", 7),)))),
        (8, build.function(build.code(operators=(("aten::add", "", -2),)))),
        (8, build.function(build.code(operators=(("aten::add", "", 1 << 40),)))),
        (8, build.function(build.code(operators=((b"add", "", 1),)))),
        (8, build.function(build.code(constants=7))),
        (8, build.function(build.code(types=(7,)))),
        (8, build.function(build.code(registers=-1))),
        (8, build.function(build.code(registers=1 << 30))),
        (8, build.function(build.code(registers=None))),
        (8, build.function(), build.function()),
        (8, ("f", build.code(), 7)), (8, ("f", build.code(), (("arguments", (7,)), ("returns", ())))),
        (8, ("f", build.code(), (("arguments", ((("name", 7), ("type", ""), ("default_value", None)),)), ("returns", ())))),
    ],
)  # fmt: skip
def test_broken_tables(table):
    with pytest.raises(CaptureError):
        read(build.program(bytecode=build.pickled(table)))


def test_instructions_of_the_full_interpreter():
    refused(
        "FORK is not supported in mobile module",
        build.program(functions=(build.function(build.code((("FORK", 0, 0),))),)),
    )


def test_other_parts():
    refused("holds int, expected a module", build.program(data=integer(7)))
    refused("big-endian", build.program(byteorder=b"big"))
    good = {"data.pkl": START + build.module({}) + STOP, "bytecode.pkl": build.pickled((8, build.function()))}
    refused("no record '.data/version'", build.archive(good))
    refused("expected a number", build.archive({**good, "version": b"three"}))
    assert read(build.archive({**good, ".data/version": b"3"})).operator_version == 3
    refused("no record 'data.pkl'", build.archive({"version": b"3", "bytecode.pkl": good["bytecode.pkl"]}))
    assert read(build.program(mobile_debug_handles=b"junk", **{"mobile_debug_handles.pkl": b"junk"}))
    assert (
        read(
            build.program(**{"mobile_debug_handles.pkl": b"junk", "callstack_debug_map.pkl": b"junk"})
        ).bytecode_version
        == 8
    )


def test_debug_tables_that_unfold():
    """A hundred thousand times the same line of a megabyte: left out."""
    strings = b"(X\0\0\0\0" + text("x" * 1_000_000) + b"t"
    lines = name("torch.jit._pickle", "build_intlist") + b"](" + b"K\1" * 100_000 + b"e\x85R"
    table = text("FORMAT_WITH_STRING_TABLE") + strings + b"(K\0" + lines + b"K\0K\1\x87K\0K\0\x87K\1\x87t\x87"
    handles = build.pickled((8, ("__torch__.M.forward", (("function_debug_handles", ((0,),)),))))
    records = {"mobile_debug_handles.pkl": handles, "callstack_debug_map.pkl": build.pickled(((0, 1, None),))}
    started = time.perf_counter()
    program = read(build.program(**records, **{"code/m.py.debug_pkl": START + table + STOP}))
    assert program.functions["__torch__.M.forward"].sources is None
    assert time.perf_counter() - started < 5


# archives


def patched(data: bytes, at: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def directory(data: bytes, record: str) -> int:
    """Where the directory's entry of a record starts."""
    return data.rindex(record.encode()) - 46


def test_an_archive_cut_short_anywhere():
    for size in [*range(0, len(ZIP), 97), len(ZIP) - 1]:
        with pytest.raises(CaptureError):
            read(ZIP[:size])
        assert bytecode_version(ZIP[:size]) == -1


@pytest.mark.parametrize(
    ("field", "form", "value", "message"),
    [
        (8, "<H", 1, "is encrypted"),
        (10, "<H", 12, "compression method 12"),
        (20, "<I", 7, "two different sizes"),
        (24, "<I", 1 << 30, "two different sizes"),
        (20, "<I", 0xFFFFFFFF, "lacks its 64-bit sizes"),
        (28, "<H", 60000, "ends in the middle of an entry"),
        (42, "<I", 1 << 30, "starts outside of the file"),
        (42, "<I", 7, "does not start with a header"),
        (0, "<I", 7, "does not start as one"),
    ],
)
def test_broken_directories(field, form, value, message):
    data = build.program()
    refused(message, patched(data, directory(data, "m/data.pkl") + field, form, value))


def test_a_checksum_that_does_not_fit():
    data = build.program()
    refused("does not have the checksum", patched(data, directory(data, "m/data.pkl") + 16, "<I", 7))
    refused("does not have the checksum", data.replace(b"training", b"trainang"))


def test_names_of_records():
    def with_name(other: bytes) -> bytes:
        return build.program(extra__abcdefg=b"x").replace(b"m/extra/abcdefg", other)

    assert read(with_name(b"m/extra/ABCDEFG")).extra_files == {"ABCDEFG": b"x"}
    refused("outside of the root folder", with_name(b"n/extra/abcdefg"))
    refused("no path inside of the file", with_name(b"m/../..abcdefgh"[:10] + b"/../h"))
    refused("no path inside of the file", with_name(b"/etc/passwdabcd"))
    refused("no path inside of the file", with_name(b"m\\extra\\abcdefg"))
    refused("not UTF-8", with_name(b"m/extra/abcd\xff\xfe\xfd"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_records_of_one_name():
    out = io.BytesIO(build.program())
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("m/version", b"4")
    refused("two records have the name 'version'", out.getvalue())


def test_records_that_share_bytes():
    data = build.program(extra__a=b"x" * 100, extra__b=b"y" * 100)
    start = struct.unpack_from("<I", data, directory(data, "m/extra/a") + 42)[0]
    refused("overlap", patched(data, directory(data, "m/extra/b") + 42, "<I", start))


def test_bombs():
    """A hundred megabytes in a hundred kilobytes, and one that says it is small."""
    bomb = build.archive({"bytecode.pkl": bytes(100 << 20)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 200_000
    tracemalloc.start()
    refused("would inflate to 104857600 bytes", bomb)
    refused("does not inflate to the 1000 bytes", patched(bomb, directory(bomb, "m/bytecode.pkl") + 24, "<I", 1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 << 20


def test_deflated_nonsense():
    data = build.archive({"bytecode.pkl": b"abc" * 100}, zipfile.ZIP_DEFLATED)
    start = data.index(b"bytecode.pkl") + len("bytecode.pkl")
    refused("cannot be inflated", data[:start] + b"\xff\xff\xff" + data[start + 3 :])


# flatbuffers


def test_a_flatbuffer_cut_short_anywhere():
    for size in range(0, len(FLAT) - 16, 61):
        with pytest.raises(CaptureError):
            read(FLAT[:size])


def flat_field(field: int) -> int:
    """Where a field of the root table lies."""
    return _Wire(np.frombuffer(FLAT, np.uint8), "").root().place(field)


def flat_vector(field: int) -> int:
    wire = _Wire(np.frombuffer(FLAT, np.uint8), "")
    return wire.jump(wire.root().place(field))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, 0xFFFFFFFF, "outside of the"),
        (0, 7, "outside of the"),
        (flat_field(0), 3, "between 4 and 9 but the model version is 3"),
        (flat_field(0), 10, "but the model version is 10"),
        (flat_field(3), 1 << 30, "its state, value 1073741824, is NoneType, expected a module"),
        (flat_field(3), 0, "expected a module"),
        (flat_field(10), 11, "operators have version 11"),
        (flat_field(4), 0xFFFFFFF0, "outside of the"),
        (flat_vector(4), 0xFFFFFFFF, "ends outside of the file"),
        (flat_vector(4) + 4, 0xFFFFFFF0, "outside of the"),
        (flat_vector(2) + 4, 1 << 20, "method 1048576 is no function"),
        (flat_vector(2) + 4, 0, "method 0 is no function"),
    ],
)
def test_broken_flatbuffers(at, value, message):
    refused(message, patched(FLAT, at, "<I", value))


def test_flatbuffer_storages_that_overlap():
    flat = (legacy.FIXTURES / "small.v9.ptl").read_bytes()
    wire = _Wire(np.frombuffer(flat, np.uint8), "")
    a, b = wire.root().tables(6, "StorageData")[:2]
    offset = a.jump(0) - b.place(0)
    if offset < 0:
        a, b = b, a
        offset = a.jump(0) - b.place(0)
    refused("storages overlap", patched(flat, b.place(0), "<I", offset))


def test_flatbuffer_references_go_back():
    """A list that holds itself, and one that holds what comes later."""
    flat = (legacy.FIXTURES / "control.v9.ptl").read_bytes()
    wire = _Wire(np.frombuffer(flat, np.uint8), "")
    for index, entry in enumerate(wire.root().tables(4, "IValue")):
        if entry.number(0, "<B") == 7 and entry.table(1, "List").vector(0, "<u4"):
            items = entry.table(1, "List").jump(0)
            for other in (index, index + 1, 1 << 31):
                refused("no value before it", patched(flat, items + 4, "<I", other))
            return
    raise AssertionError("no list in this file")


# everything at once


def mutated(r: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 4, 8])):
        kind, at = r.random(), r.randrange(len(changed))
        if kind < 0.5:
            changed[at] = r.randrange(256)
        elif kind < 0.7:
            changed[at] = r.choice([0, 0xFF, 0x7F, 0x80])
        elif kind < 0.8:
            changed[at : at + 4] = struct.pack("<I", r.choice([0, 0xFFFFFFFF, 0x7FFFFFFF, len(data)]))
        elif kind < 0.9 and len(changed) > 40:
            del changed[at : at + r.randrange(1, 20)]
        else:
            other = r.randrange(len(changed))
            changed[at:at] = changed[other : other + r.randrange(1, 40)]
    return bytes(changed)


@lru_cache
def records(file: str) -> dict[str, bytes]:
    with zipfile.ZipFile(legacy.FIXTURES / file) as archive:
        return {n.partition("/")[2]: archive.read(n) for n in archive.namelist() if not n.endswith(".py")}


def fuzz(seed: int, count: int, names: tuple[str, ...], record: str | None) -> tuple[int, int]:
    """How many of the mutated files could be read, and how many not."""
    r = random.Random(seed)
    outcome = [0, 0]
    for _ in range(count):
        name = r.choice(names)
        if record is None:
            data = mutated(r, (legacy.FIXTURES / name).read_bytes())
        else:  # with right checksums
            data = build.archive({**records(name), record: mutated(r, records(name)[record])})
        try:
            read(data)
            outcome[0] += 1
        except CaptureError:
            outcome[1] += 1
    return outcome[0], outcome[1]


ZIPS = (
    "small.v8.ptl",
    "control.v4.ptl",
    "static_qnnpack.v8.ptl",
    "tables_4bit.v8.ptl",
    "saved.v8.ptl",
    "net_xnnpack.v8.ptl",
)
FLATS = (
    "small.v9.ptl",
    "control.v9.ptl",
    "static_qnnpack.v9.ptl",
    "tables_4bit.v9.ptl",
    "saved.v9.ptl",
    "net_xnnpack.v9.ptl",
)


@pytest.mark.parametrize(
    ("names", "record", "count"),
    [(ZIPS, None, 300), (ZIPS, "data.pkl", 150), (ZIPS, "bytecode.pkl", 150), (("small.v8.ptl",), "callstack_debug_map.pkl", 50),
     (("small.v8.ptl",), "code/__torch__/legacy_models.py.debug_pkl", 50), (FLATS, None, 300)],
    ids=["zip", "data", "bytecode", "calls", "lines", "flatbuffer"],
)  # fmt: skip
def test_fuzz(names, record, count):
    started = time.perf_counter()
    good, bad = fuzz(zlib.crc32(repr((names, record)).encode()), count, names, record)
    assert good + bad == count
    assert bad or "debug" in str(record)  # broken debug information is left out
    assert time.perf_counter() - started < 30


def test_fuzz_takes_little_memory():
    tracemalloc.start()
    for names, record in ((ZIPS, "data.pkl"), (ZIPS, "bytecode.pkl"), (FLATS, None)):
        fuzz(1, 20, names, record)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_fuzz_more(seed):
    for names, record in ((ZIPS, None), (ZIPS, "data.pkl"), (ZIPS, "bytecode.pkl"), (FLATS, None)):
        fuzz(seed, 1000, names, record)


def test_opening_does_not_read_the_weights(tmp_path):
    path = tmp_path / "large.ptl"
    size = 64 << 20
    records = {
        "version": b"3",
        "data.pkl": START + build.module({"w": tensor("0", size // 4, (size // 4,), (1,))}) + STOP,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for record, content in {
            **records,
            "bytecode.pkl": build.pickled((8, build.function())),
            "data/0": bytes(size),
        }.items():
            archive.writestr(f"m/{record}", content)
    tracemalloc.start()
    started = time.perf_counter()
    program = read(path)
    elapsed = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(program.module.attributes["w"].storage.data) == size
    assert peak < 1 << 20
    assert elapsed < 0.5
    if os.path.exists("/proc/self/smaps"):  # nothing of the file is kept in memory
        lines = Path("/proc/self/smaps").read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if line.endswith("/large.ptl"))
        assert next(line for line in lines[at:] if line.startswith("Rss:")).split()[1] == "0"
