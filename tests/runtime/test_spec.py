"""penlight_spec.hpp reads container specs as Python does, to the bit, and refuses all else in words, under sanitizers."""

from __future__ import annotations

import json
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from penlight.ir.dims import evaluate, parse_dim
from tests.runtime import native

HERE = Path(__file__).parent
INCLUDE = native.ROOT / "penlight/runtime/include"
SIZES = {"in0_0": 2, "in0_1": 3, "in0_2": 5, "in1_0": 7}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("spec") / "spec"
    command = [
        "g++",
        "-std=c++17",
        *native.WARNINGS,
        "-fno-exceptions",
        "-fno-rtti",
        *native.FLAGS["asan"],
        f"-I{INCLUDE}",
    ]
    subprocess.run([*command, str(HERE / "spec.cc"), "-o", str(out)], check=True)
    return out


def read(reader: Path, *lines: str) -> list[str]:
    done = subprocess.run(
        [reader], input="\n".join(lines) + "\n", capture_output=True, text=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split("\n")[:-1]


def out(spec: Any, tensors: int = 5) -> str:
    return f"out {tensors} {json.dumps(spec)}"


def seen(spec: Any) -> Any:
    """A spec as the program writes it."""
    if isinstance(spec, int):
        return spec
    ((kind, body),) = spec.items()
    if kind == "const" and isinstance(body, float):
        return {"const": "float " + struct.pack(">d", body).hex()}
    if kind == "dim":
        return {"number": evaluate(parse_dim(body), SIZES)}
    if kind in ("tuple", "list"):
        return {kind: [seen(s) for s in body]}
    if kind in ("dict", "ordered_dict"):
        return {"items" if kind == "dict" else kind: [[k, seen(s)] for k, s in body.items()]}
    if kind == "dict_items":
        return {"items": [[k, seen(s)] for k, s in body]}
    if kind == "namedtuple":
        return {kind: [body[0], *([k, seen(s)] for k, s in body[1].items())]}
    return spec


SPECS = [
    3,
    {"complex": [3, 4]},
    {"item": 2},
    {"none": True},
    *({"const": c} for c in (True, False, 0, -(2**63), 2**63 - 1, "", 'a"\\/\x00\n\u00e9\u20ac\U0001f600', 0.1, -0.0, 5e-324, 2.2250738585072014e-308,
                             2.225073858507201e-308, 1.7976931348623157e308, 9007199254740993.0, 1e23, float("inf"), float("-inf"))),
    {"opaque": "torch.float32"},
    {"tuple": []},
    {"list": [0, {"tuple": [1, {"dict": {}}]}, 2]},
    {"dict": {"out": 0, "aux": {"list": [1, 2, 3, 4, 0]}, "": 1}},
    {"ordered_dict": {"out": 0, "out2": 0}},
    {"dict_items": [[1, 0], [True, 1], ["1", {"none": True}], [-7, 2]]},
    {"namedtuple": ["Point", {"x": 0, "y": {"item": 1}}]},
    *({"dim": d} for d in ("12", "in0_2 // 2", "-in1_0 // 2", "-in1_0 % 3", "in1_0 % -3", "(in0_0 - 5) // -2", "max(in0_1, min(in1_0, 4)) * 2 - 1",
                           "in0_0 - in0_1 - in0_2", "--3", "2 - -in1_0 * 3")),
]  # fmt: skip


def test_specs(reader: Path) -> None:
    for spec, line in zip(SPECS, read(reader, *map(out, SPECS)), strict=True):
        assert json.loads(line) == seen(spec), spec
    pretty = [f"out 5 {json.dumps(s, indent=1, ensure_ascii=False)}".replace("\n", " \t\r") for s in SPECS]
    assert read(reader, *pretty) == read(reader, *map(out, SPECS))


def test_floats_are_the_captured_ones_to_the_bit(reader: Path) -> None:
    chance = random.Random(3)
    floats = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(3000)]
    floats += [chance.uniform(-2, 2) * 10.0 ** chance.randrange(-30, 30) for _ in range(2000)]
    floats = [f for f in floats if f == f]
    lines = read(reader, *(out({"const": f}) for f in floats))
    assert [json.loads(line) for line in lines] == [seen({"const": f}) for f in floats]
    # halfway cases, of up to 19 digits, which no repr has
    texts = [f"{chance.randrange(10**18, 10**19)}e{chance.randrange(-360, 310)}" for _ in range(2000)]
    texts += [
        "9007199254740993.0",
        "9007199254740995.0",
        "0.5e-323",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
    ]
    lines = read(reader, *(f'out 1 {{"const": {t}}}' for t in texts))
    assert [json.loads(line) for line in lines] == [seen({"const": float(t)}) for t in texts]


def test_arguments(reader: Path) -> None:
    spec = {
        "args": [{"tuple": [1, 0]}, {"const": 2}],
        "kwargs": {"mask": 2, "scale": {"const": 0.5}},
        "names": ["x", "n", "other", "scale", "mask"],
    }
    (line,) = read(reader, f"in 3 {json.dumps(spec)}")
    nodes, arguments = line.split(" | ")
    parts = [["x", {"tuple": [1, 0]}], ["n", {"const": 2}], ["mask", 2], ["scale", seen({"const": 0.5})]]
    assert json.loads(nodes) == {"arguments": parts}
    assert (
        arguments == "1 4? 0 6? 5"
    )  # of a third position it is known that there is such a parameter, not that it was captured
    assert read(reader, 'in 1 {"args": [0], "kwargs": {}, "names": []}') == ['{"arguments": [0]} | 1 0 0 0 0']
    formats = 'in 1 {"args": [0], "kwargs": {}, "names": [], "channels_last": [[], [0, 12]]}'
    assert read(reader, formats) == ['{"arguments": [0]} | 1 0 0 0 0'], "for callers with torch's tensors"


BAD = {
    "": "its end",
    "5": "the number of one of 5 tensors, got '5'",
    "-1": "the number of one of 5 tensors",
    "0.0": "the number of one of 5 tensors",
    "1 2": "nothing more, got '2'",
    "01": "without a 0 before it",
    '{"tupel": [1]}': "SPEC.md lists under Containers, got '\"tupel\": [1]}'",
    '{"args": [], "kwargs": {}, "names": []}': "SPEC.md lists",
    "{}": "a string",
    '{"item": 5}': "one of 5 tensors",
    '{"complex": [1]}': "a comma",
    '{"none": false}': "true",
    '{"const": null}': "a value",
    '{"const": [1]}': "a value",
    '{"const": 9223372036854775808}': "64 bits",
    '{"const": 123456789012345678901.5}': "19 digits",
    '{"const": "a': "the rest of a string",
    '{"const": "\\ud800x"}': "second half of a surrogate pair",
    '{"const": "\\udc00"}': "first half of a surrogate pair",
    '{"const": "\\u12g4"}': "four hexadecimal digits",
    '{"const": "\\x"}': "an escape that JSON has",
    '{"opaque": 3}': "a string",
    '{"tuple": [1,]}': "a value",
    '{"tuple": [1 2]}': "a comma, or the end of a list",
    '{"tuple": [1], "list": [2]}': "which has one key",
    '{"dict": {"a": 1, "a": 2}}': "keys that are not the same",
    '{"dict_items": [[0.5, 1]]}': "a string, an int or a bool",
    '{"dict_items": [[1, 1], [1, 2]]}': "keys that are not the same",
    '{"namedtuple": ["P", {"x": 1}': "the end of a list of a name and fields",
    '{"dim": "in0_2 /"}': "goes on where it should end",
    '{"dim": "s0"}': "has no meaning there",
    '{"dim": "in0"}': "named in<input>_<dim>",
    '{"dim": "max(1)"}': "take two values",
    '{"dim": "(1"}': "closing parenthesis",
    '{"dim": "12345678901234567890"}': "over 64 bits",
    '{"dim": "1\\u0000"}': "has no meaning there",
    json.dumps({"dim": "(" * 70 + "1" + ")" * 70}): "nests too deep",
    '{"tuple": [' * 66: "64 containers inside each other",
    json.dumps({"tuple": [0] * 8192}): "8192 parts",
}


def test_what_is_no_spec(reader: Path) -> None:
    for (text, words), line in zip(BAD.items(), read(reader, *(f"out 5 {t}" for t in BAD)), strict=True):
        assert line.startswith("error: output spec, byte "), text
        assert words in line, text
    raw = subprocess.run(
        [reader], input=b'out 1 {"const": "\xc0\x80"}\nout 1 {"const": "\xed\xa0\x80"}\n', capture_output=True
    )
    assert raw.stdout.count(b"expected UTF-8, got a byte that is no text") == 2
    lines = {
        'in 2 {"args": [0], "kwargs": {}, "names": []}': "a place for input 1",
        'in 1 {"args": [{"item": 0}], "kwargs": {}, "names": []}': "a form that arguments may have",
        'in 1 {"kwargs": {}, "args": [0], "names": []}': "in this order",
        'in 0 {"args": [], "kwargs": {}, "names": [1]}': "a string",
        'in 0 {"args": [], "kwargs": {}, "names": [], "channels_first": [[], []]}': "in this order",
        'in 0 {"args": [], "kwargs": {}, "names": [], "channels_last": [[]]}': "two lists of results",
        'in 0 {"args": [], "kwargs": {}, "names": [], "channels_last": [[], [-1]]}': "the number of a result",
        'in 0 {"args": [], "kwargs": {}, "names": [], "channels_last": [[], []}': "the end of two lists",
        "in 1 0": "in this order",
    }
    for line, words in zip(read(reader, *lines), lines.values(), strict=True):
        assert line.startswith("error: input spec, byte ")
        assert words in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("in2_0", "no input has"),
        ("in0_3", "no input has"),
        ("1 // (in0_0 - 2)", "divides by 0"),
        ("in0_0 * 9223372036854775807", "64 bits"),
    ],
)
def test_dims_that_have_no_value(reader: Path, text: str, words: str) -> None:
    assert words in read(reader, out({"dim": text}))[0]


def test_damaged_specs_never_crash(reader: Path) -> None:
    """Bytes changed, cut, doubled: whatever Python takes as the same spec is read so, all else is an error."""
    chance = random.Random(14)
    texts = [json.dumps(s) for s in SPECS] + [
        json.dumps({"args": [0, {"list": [1, {"const": 0.5}]}], "kwargs": {"m": 2}, "names": ["x"]})
    ]
    lines = []
    for _ in range(20000):
        text = chance.choice(texts)
        for _ in range(chance.randrange(1, 4)):
            at, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
            piece = chance.choice(
                ['"', "{", "}", "[", "]", ",", ":", "-", "9", "\\u", "\\", "e", " ", text[at:end], ""]
            )
            text = text[:at] + piece + text[chance.choice((at, at + 1, end)) :]
        lines.append(f"{'in' if 'args' in text else 'out'} 5 {text}")
    answers = read(reader, *lines)
    assert len(answers) == len(lines)
    taken = [(line, a) for line, a in zip(lines, answers, strict=True) if not a.startswith("error: ")]
    assert len(taken) > 500
    for line, answer in taken:
        spec = json.loads(line.split(" ", 2)[2])  # nothing is taken that is no JSON
        if line.startswith("out") and "dim" not in line:
            assert json.loads(answer) == seen(spec), line


def test_stands_without_headers_of_a_c_library(tmp_path: Path) -> None:
    ziglang = pytest.importorskip("ziglang")
    zig = Path(ziglang.__file__).parent
    (tmp_path / "one.cc").write_text(
        '#include "penlight_spec.hpp"\nbool f(penlight::Spec* s) { return s->read_inputs("", 0); }\n'
    )
    flags = [
        "-ffreestanding",
        "-nostdlibinc",
        "-isystem",
        str(zig / "lib/include"),
        f"-I{INCLUDE}",
        "-fno-exceptions",
        "-fno-rtti",
    ]
    for target in ("aarch64-linux-android", "arm64-apple-ios", "x86_64-windows-gnu"):
        command = [str(zig / "zig"), "clang", f"--target={target}", "-std=c++17", *native.WARNINGS, *flags]
        subprocess.run([*command, "-c", str(tmp_path / "one.cc"), "-o", str(tmp_path / "one.o")], check=True)
