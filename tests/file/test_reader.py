"""reader.py: what the writer wrote comes back; what nobody wrote gives an error in words."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from penlight.errors import LoadError
from penlight.file import format as f
from penlight.file.contents import Expression
from penlight.file.reader import read
from penlight.lower.prepack import pack_grouped, pack_panel16, pack_taps
from tests.file.small import small_file, small_program

WHOLE = small_file()


def test_a_whole_file() -> None:
    pen = read(WHOLE)
    assert (pen.version, pen.size, pen.verify_hash()) == (f.VERSION_PLAIN, len(WHOLE), True)
    assert pen.metadata == {"labels": ["dark", "bright"], "name": "small ☀"}
    assert [m.name for m in pen.methods] == ["forward"]
    assert {"conv2d.f32.direct", "conv2d.f32.depthwise3", "conv2d.f32.grouped", "linear.f32"} <= set(pen.keys)
    assert "clamp.f32" not in pen.keys, "an activation that kernels do by themselves"
    assert pen.operators["conv2d"] == 3


def test_ports_have_symbolic_dims_as_text() -> None:
    method = read(WHOLE).method("forward")
    assert [str(p) for p in method.inputs] == ["x: f32[x_0, 3, x_2, 8]", "bias: f32[5]"]
    assert method.inputs[0].limits == ((1, 16), (3, 3), (8, None), (8, 8))
    assert method.outputs[0].shape == ("x_0", 5)
    assert isinstance(method.outputs[0].shape[0], Expression)
    assert method.input_spec == {"args": [0], "kwargs": {"bias": 1}, "names": ["x", "bias"]}
    assert method.output_spec == {"dict": {"out": 0, "rows": {"dim": "in0_2 // 2"}}}


def test_nodes_have_attributes_of_every_kind() -> None:
    nodes = read(WHOLE).method().nodes
    stem = next(n for n in nodes if n.key == "conv2d.f32.direct")
    assert stem.attrs == {
        "stride": (2, 2),
        "padding": (1, 1, 0, 0),
        "dilation": (1, 1),
        "groups": 1,
        "act": "clamp",
        "act_args": (0.0, 6.0),
    }
    assert stem.source.startswith("model.py:3")
    assert stem.inputs[2] is None
    assert stem.inputs[1] is not None
    assert stem.inputs[1].constant is not None
    assert stem.outputs[0].layout == "nhwc"
    assert stem.outputs[0].shape == ("x_0", 20, "x_2 // 2", 4)
    mean = next(n for n in nodes if n.op == "mean")
    assert isinstance(mean.attrs["keepdim"], bool)


def test_weights_lie_as_the_packers_put_them() -> None:
    rng = np.random.default_rng(7)
    w, d, g, _ = (
        rng.standard_normal(s).astype(np.float32) for s in ((20, 3, 3, 3), (20, 1, 3, 3), (8, 5, 1, 1), (5, 8))
    )
    stored = {c.shape: c for c in read(WHOLE).constants}
    for plain, packed, layout in (
        (w, pack_panel16(w, 1), "panel16"),
        (d, pack_taps(d, 20), "taps"),
        (g, pack_grouped(g, 4), "grouped"),
    ):
        constant = stored[plain.shape]
        assert constant.layout == layout
        assert constant.offset % f.ALIGNMENT == 0
        np.testing.assert_array_equal(constant.array, packed.reshape(-1))
        assert not constant.array.flags.writeable


def test_text_shows_every_node() -> None:
    pen = read(WHOLE)
    text = str(pen)
    assert text.startswith("method forward(x: f32[x_0, 3, x_2, 8], bias: f32[5]) {\n")
    assert text.count("conv2d.f32.") == 3
    assert 'act="clamp", act_args=[0.0, 6.0])  # model.py:3' in text


def test_from_a_path(tmp_path: Path) -> None:
    path = tmp_path / "small.pen"
    path.write_bytes(WHOLE)
    assert read(path).hash == read(WHOLE).hash
    with pytest.raises(LoadError, match=r"nowhere\.pen: cannot be read: No such file"):
        read(tmp_path / "nowhere.pen")


def test_the_same_program_gives_the_same_bytes() -> None:
    assert small_file() == WHOLE
    assert small_program() is not small_program()


def test_needs_neither_torch_nor_the_runtime() -> None:
    code = "import sys; from penlight.file.reader import read; sys.exit('torch' in sys.modules or 'penlight._runtime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def changed(at: int, data: bytes) -> bytes:
    return WHOLE[:at] + data + WHOLE[at + len(data) :]


def section(name: str) -> tuple[int, int, int, int]:
    """Offset of the section's own record, its offset, record size and count."""
    for i in range(len(f.section_ids())):
        at = f.HEADER.size + i * f.SECTION.size
        id_bytes, size, offset, count = f.SECTION.struct.unpack_from(WHOLE, at)
        if id_bytes.decode() == name:
            return at, offset, size, count
    raise KeyError(name)


def field(record: f.Record, index: int, name: str, value: int) -> bytes:
    """The file with one field of one record changed."""
    _, offset, size, _ = section(record.section)
    at = offset + index * size
    for part in record.fields:
        if part.name == name:
            return changed(at, struct.pack("<" + part.code, value))
        at += struct.calcsize("<" + part.code)
    raise KeyError(name)


_DIMS = (
    section("INTS")[1]
    + 8 * f.VALUE.struct.unpack_from(WHOLE, section("VALS")[1])[[x.name for x in f.VALUE.fields].index("dims")]
)  # of the first value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a .pen file, got 0 bytes"),
        (b"PK\x03\x04" + bytes(100), "zip archive"),
        (b"hello, this is a text file " * 9, "begins with 68 65 6c 6c"),
        (WHOLE[:40], "expected a .pen file, got the first 40 bytes of one"),
        (WHOLE[:-1], f"truncated: expected {len(WHOLE)} bytes, as its header says, got {len(WHOLE) - 1}"),
        (WHOLE + b"\0", "file size: expected"),
        (changed(8, struct.pack("<I", f.VERSION + 1)), f"expected format version {f.VERSION} or older, got version {f.VERSION + 1}"),
        (changed(8, struct.pack("<I", 0)), "format version of 1 or more"),
        (changed(12, struct.pack("<I", 8)), "a header of 80 to 4096 bytes, got 8"),
        (changed(16, struct.pack("<I", 999)), "at most 256 sections, got 999"),
        (changed(32, struct.pack("<Q", 2**60)), "tables inside the file"),
        (changed(section("NODE")[0] + 8, struct.pack("<Q", 2**63)), "NODE: expected a section inside the file"),
        (changed(section("NODE")[0] + 16, struct.pack("<Q", 2**62)), "NODE: expected a section inside the file"),
        (changed(section("NODE")[0], b"XXXX"), "NODE: expected a section of this name, got none"),
        (changed(section("NODE")[0], b"VALS"), "VALS: expected one section of this name, got two"),
        (changed(section("INTS")[0] + 4, struct.pack("<I", 4)), "INTS: expected records of the size this section has in every version, got 4 bytes"),
        (changed(section("KEYS")[0] + 4, struct.pack("<I", 1)), "KEYS: expected records of the size"),
        (field(f.STRING, 0, "offset", 2**32 - 1), "text inside TEXT"),
        (field(f.CONSTANT, 0, "dtype", 77), "dtype code below 10, got 77"),
        (field(f.CONSTANT, 0, "offset", 32), "64-byte aligned"),
        (field(f.CONSTANT, 0, "size", 2**63), "weights inside DATA"),
        (field(f.CONSTANT, 0, "rank", 200), "rank of at most 8, got 200"),
        (field(f.VALUE, 0, "layout", 9), "a known layout, got 9"),
        (field(f.VALUE, 1, "constant", 1000), "a constant that exists"),
        (field(f.NODE, 0, "key", 99999), "a string index, got 99999"),
        (field(f.NODE, 0, "inputs", 2**31), "a range inside its table"),
        (field(f.NODE, 1, "output_count", 0), "results"),
        (field(f.ATTR, 0, "kind", 50), "a known kind of attribute"),
        (changed(_DIMS, struct.pack("<q", -(2**62))), "dims of 0 to 1099511627776, got ['-4611686018427387904'"),
        (changed(_DIMS, struct.pack("<q", 2**41)), "dims of 0 to 1099511627776, got ['2199023255552'"),
        (field(f.STEP, 0, "op", 88), "a known operation, got 88"),
        (field(f.STEP, 0, "op", 2), "two operands"),
        (field(f.EXPR, 0, "count", 0), "one result, got 0"),
        (field(f.INSTRUCTION, 0, "op", 7), "a known instruction, got 7"),
        (field(f.INSTRUCTION, 0, "op", 1), "return as the last instruction"),
        (field(f.INSTRUCTION, 0, "target", 5), "a region that exists, got 5 of 1"),
        (field(f.METHOD, 0, "input_count", 4095), "a range inside its table"),
        (changed(section("META")[1], b"!"), "META: expected JSON"),
    ],
)  # fmt: skip
def test_errors_in_words(data: bytes, message: str) -> None:
    with pytest.raises(LoadError) as caught:
        read(data)
    assert message in str(caught.value)


def test_version_has_a_status_of_its_own() -> None:
    with pytest.raises(LoadError) as caught:
        read(changed(8, struct.pack("<I", f.VERSION + 1)))
    assert caught.value.status == "version"


def test_a_changed_weight_changes_the_hash_only() -> None:
    pen = read(changed(len(WHOLE) - 1, bytes([WHOLE[-1] ^ 1])))
    assert not pen.verify_hash()


def test_records_may_grow() -> None:
    """A later writer may add fields at a record's end: they are skipped; missing ones read as 0."""
    at, offset, size, count = section("NODE")
    grown = b"".join(WHOLE[offset + i * size :][:size] + b"\xaa\xaa\xaa\xaa" for i in range(count))
    data_at, data_offset, _, data_count = section("DATA")
    # the grown table goes to the end of the tables, the weights move behind it
    tables = WHOLE[: struct.unpack_from("<Q", WHOLE, 32)[0]]
    tables += b"\0" * (-len(tables) % 8)
    new_offset = len(tables)
    tables += grown
    new_data = -(-len(tables) // 64) * 64
    weights = WHOLE[data_offset : data_offset + data_count]
    out = bytearray(tables.ljust(new_data, b"\0") + weights)
    struct.pack_into("<IQQ", out, at + 4, size + 4, new_offset, count)
    struct.pack_into("<Q", out, data_at + 8, new_data)
    struct.pack_into("<QQ", out, 24, len(out), len(tables))
    assert str(read(bytes(out))) == str(read(WHOLE))


def test_no_mutation_gives_anything_but_a_load_error() -> None:
    """Random changes of the tables: read or refused, never another exception, never endless."""
    rng = np.random.default_rng(1)
    tables = struct.unpack_from("<Q", WHOLE, 32)[0]
    refused = 0
    for _ in range(1500):
        data = bytearray(WHOLE)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, tables - 8))
            width = int(rng.choice([1, 4, 8]))
            data[at : at + width] = (
                rng.choice([0, 1, 255, 127, 128, int(rng.integers(256))], width).astype(np.uint8).tobytes()
            )
        try:
            str(read(bytes(data)))
        except LoadError:
            refused += 1
    assert 100 < refused < 1500
