import gzip
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from penlight.capture.lite import bytecode_version, contained_types, operators, read
from penlight.capture.lite.program import Function, Instruction, LiteProgram
from penlight.errors import CaptureError
from penlight.ir.values import ScriptObject, ScriptTensor, TypedDict, TypedList
from tests.capture.lite import build, legacy, make_legacy

CASES = list(legacy.cases())
ZIPS = [c for c in CASES if c.version < 9]


def by_name(cases):
    return pytest.mark.parametrize("case", cases, ids=[c.name for c in cases])


def tensors(program: LiteProgram) -> dict[str, ScriptTensor]:
    """Those that are attributes, by path; and those inside of packed parameters."""
    found = {}

    def visit(value, path):
        if isinstance(value, ScriptTensor):
            found[path] = value
        elif isinstance(value, ScriptObject):
            assert not value.has_state, value.type_name
            for name, child in value.attributes.items():
                visit(child, f"{path}.{name}" if path else name)

    visit(program.module, "")
    return found


def same(a, b):
    """Values of two files, whose storages differ."""
    assert type(a) is type(b)
    if isinstance(a, ScriptTensor):
        assert (a.dtype, a.shape, a.strides, a.quantizer) == (b.dtype, b.shape, b.strides, b.quantizer)
        np.testing.assert_array_equal(a.array(), b.array())
    elif isinstance(a, ScriptObject):
        assert a.type_name == b.type_name
        same(a.attributes, b.attributes)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


@by_name(CASES)
def test_structure(case):
    program = read(case.path)
    assert program.bytecode_version == case.version == bytecode_version(case.path)
    assert program.container == ("flatbuffer" if case.version == 9 else "zip")
    assert {c.method for c in case.calls} <= set(program.methods)
    for function in program.functions.values():
        assert function.instructions[-1].op == "RET"
        assert function.arguments is not None
        assert function.arguments[0].name == "self"
        for step in function.instructions:
            if step.op in ("OP", "OPN"):
                assert 0 <= step.x < len(function.operators)
            if step.op == "LOADC":
                assert 0 <= step.x < len(function.constants)
        variadic = {step.x for step in function.instructions if step.op == "OPN"}
        for i, operator in enumerate(function.operators):
            assert (operator.arg_count is None) == (case.version < 6 or i in variadic)
    if case.version < 9:
        assert program.extra_files == {"note.txt": b"made of " + case.name.split(".")[0].encode()}


@by_name([c for c in ZIPS if not c.name.startswith(("net_xnnpack", "tables_4bit"))])
def test_weights_are_those_that_torch_reads(case):
    """XNNPACK's contexts are not in this torch, and it cannot read tables of four bits any more."""
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "qnnpack"
    expected = torch.jit.load(str(case.path)).state_dict()
    torch.backends.quantized.engine = engine
    found = tensors(read(case.path))
    plain = {k: v for k, v in expected.items() if isinstance(v, torch.Tensor) and not v.is_quantized}
    for name, value in plain.items():
        if "inner" not in name:  # has slots by number
            np.testing.assert_array_equal(found[name].array(), value.numpy())
            assert found[name].strides == value.stride()


@pytest.mark.parametrize("name", sorted({c.name.split(".")[0] for c in CASES if c.version == 9}))
def test_both_containers_hold_the_same(name):
    zipped, flat = read(legacy.FIXTURES / f"{name}.v8.ptl"), read(legacy.FIXTURES / f"{name}.v9.ptl")
    same(zipped.module, flat.module)
    assert list(zipped.functions) == list(flat.functions)
    for qualified, a in zipped.functions.items():
        b = flat.functions[qualified]
        assert (a.instructions, a.operators, a.types, a.register_count) == (
            b.instructions,
            b.operators,
            b.types,
            b.register_count,
        )
        assert (a.arguments, a.returns) == (b.arguments, b.returns)
        same(a.constants, b.constants)


def test_every_version_of_a_file_holds_the_same_weights():
    programs = [read(c.path) for c in CASES if c.name.startswith("small.")]
    assert [p.bytecode_version for p in programs] == [4, 5, 6, 7, 8, 9]
    for program in programs[1:]:
        same(programs[0].module, program.module)


def test_values_and_types():
    module = read(legacy.FIXTURES / "control.v8.ptl").module
    assert isinstance(module.attributes["names"], TypedList)
    assert (module.attributes["names"], module.attributes["names"].type) == (["zero", "one", "two"], "List[str]")
    assert isinstance(module.attributes["table"], TypedDict)
    assert (module.attributes["table"], module.attributes["table"].type) == ({"a": 0.5, "b": -2.0}, "Dict[str, float]")
    assert module.attributes["limit"] == 3
    assert module.attributes["scale"] is None


def test_defaults_of_arguments():
    forward = read(legacy.FIXTURES / "control.v8.ptl").functions["__torch__.legacy_models.Control.forward"]
    assert [(a.name, a.type, a.has_default, a.default) for a in forward.arguments[1:]] == [
        ("x", "Tensor", False, None),
        ("mode", "str", True, "sum"),
        ("steps", "Optional[int]", True, None),
    ]


def test_one_parameter_under_two_names_is_one_storage():
    for version in (4, 8, 9):
        found = tensors(read(legacy.FIXTURES / f"small.v{version}.ptl"))
        assert found["head"].storage is found["tied"].storage
        assert found["head"].storage is not found["block.weight"].storage


def test_source_lines():
    program = read(legacy.FIXTURES / "small.v8.ptl")
    (function,) = program.functions.values()
    of = {
        function.operators[step.x].full_name: line
        for step, line in zip(function.instructions, function.sources, strict=True)
        if step.op == "OP"
    }
    code = (legacy.HERE / "legacy_models.py").read_text().splitlines()
    number = 1 + next(i for i, line in enumerate(code) if "F.conv2d(x, self.weight" in line)
    assert of["aten::conv2d"] == f"legacy_models.py:{number}, in forward: {code[number - 1].strip()}  [block]"
    assert re.fullmatch(r"legacy_models.py:\d+, in forward: return torch.softmax.*", of["aten::softmax.int"])
    assert read(legacy.FIXTURES / "static_qnnpack.v8.ptl").functions.popitem()[1].sources is None


def test_modules_in_files_of_torch_1_6():
    """Made by hand: no PyTorch here writes mobile_debug.pkl."""
    code = build.code(
        (("LOADC", 0, 0), ("OP", 0, 0), ("OP", 1, 0), ("RET", 0, 0)), (("aten::relu", ""), ("aten::neg", "")), (None,)
    )
    texts = "top(Net).layer1(Sequential).0(Block).forward", "top(Net).forward"
    table = (4, ("__torch__.M.forward", (("module_debug_info", texts),)))
    made = build.program(version=4, functions=(build.function(code),), **{"mobile_debug.pkl": build.pickled(table)})
    (function,) = read(made).functions.values()
    assert function.sources == ["", "in forward  [layer1.0]", "in forward", ""]
    for wrong in (
        (4, ("__torch__.M.forward", 7)),
        (4, ("__torch__.M.forward", (("module_debug_info", (7, 8)),))),
        7,
        (4,),
    ):
        made = build.program(version=4, functions=(build.function(code),), **{"mobile_debug.pkl": build.pickled(wrong)})
        assert read(made).functions["__torch__.M.forward"].sources is None


def test_stack_of_a_traced_model(tmp_path):
    make_legacy.make(str(tmp_path), ["net_traced"])
    (function,) = read(tmp_path / "net_traced.v8.ptl").functions.values()
    lines = [line for step, line in zip(function.instructions, function.sources, strict=True) if step.op == "OP"]
    assert all(re.fullmatch(r"legacy_models.py:\d+, in forward(  \[\w+\])?", line) for line in lines)


def test_files_of_the_installed_torch(tmp_path):
    """Written here and now, in both containers."""
    engine = torch.backends.quantized.engine
    names = ["small", "control", "counter", "saved", "named", "dynamic_fp16", "static_fbgemm", "divide", "gelu"]
    try:
        make_legacy.make(str(tmp_path), names)
    finally:
        torch.backends.quantized.engine = engine
    written = list(legacy.cases(tmp_path))
    assert {c.name.split(".")[0] for c in written} == set(names)
    for case in written:
        test_structure(case)


def test_summaries_are_those_of_torch():
    from torch.jit.mobile import _get_mobile_model_contained_types, _get_model_bytecode_version, _get_model_ops_and_info

    for name in ("control.v8.ptl", "static_qnnpack.v8.ptl", "named.v8.ptl", "small.v4.ptl"):
        path = str(legacy.FIXTURES / name)
        program = read(path)
        assert bytecode_version(path) == _get_model_bytecode_version(path)
        assert set(operators(program)) == set(_get_model_ops_and_info(path))
        if len(program.functions) == 1:  # torch forgets all but the last
            assert contained_types(program) == _get_mobile_model_contained_types(path)
    assert operators(read(legacy.FIXTURES / "small.v8.ptl"))["aten::conv2d"] == 5
    assert operators(read(legacy.FIXTURES / "small.v4.ptl"))["aten::conv2d"] is None
    old, new = (operators(read(legacy.FIXTURES / f"{name}.v8.ptl")) for name in ("divide_old", "divide"))
    assert old == new


def test_sources_of_bytes():
    """A path, bytes, a file on disk, a file in memory."""
    path = legacy.FIXTURES / "small.v8.ptl"
    first = read(path)
    same(first.module, read(str(path)).module)
    same(first.module, read(path.read_bytes()).module)
    same(first.module, read(io.BytesIO(path.read_bytes())).module)
    with path.open("rb") as f:
        same(first.module, read(f).module)
        assert bytecode_version(f) == 8
    with pytest.raises(FileNotFoundError):
        read(path.with_name("missing.ptl"))


def test_a_file_that_is_inflated_while_it_is_read(tmp_path):
    """Its descriptor is that of the compressed one."""
    data = (legacy.FIXTURES / "small.v8.ptl").read_bytes()
    with gzip.open(tmp_path / "m.ptl.gz", "wb") as out:
        out.write(data)
    with gzip.open(tmp_path / "m.ptl.gz") as f:
        same(read(data).module, read(f).module)


def test_weights_are_views_of_the_file():
    found = tensors(read(legacy.FIXTURES / "small.v8.ptl"))["block.weight"].storage.data
    assert not found.flags.writeable
    assert not found.flags.owndata


def test_torch_is_not_needed():
    program = """
import sys
sys.modules["torch"] = None
from penlight.capture.lite import read
print(len(read(sys.argv[1]).functions))
"""
    path = legacy.FIXTURES / "control.v8.ptl"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "4\n"


def test_versions_that_are_not_read():
    text = "Lite Interpreter version number does not match. The model version must be between 4 and 9 but the model version is "
    for version in (0, 1, 3, 10, 300, 70000):
        data = build.program(version=version)
        with pytest.raises(CaptureError, match=text + str(version)):
            read(data)
        assert bytecode_version(data) == version
    with pytest.raises(CaptureError, match=text + "3"):  # files before versions had no number
        read(build.program(bytecode=build.pickled((build.function(),))))
    with pytest.raises(CaptureError, match="operators have version 11; versions 1 to 10 are known"):
        read(_with_version(b"11\n"))
    for junk in (b"", b"PK", b"hello, world", b"\0" * 100, b"PK\x03\x04" + b"\0" * 100, b"\0\0\0\0PTMF"):
        assert bytecode_version(junk) == -1
        with pytest.raises(CaptureError):
            read(junk)


def _with_version(content: bytes) -> bytes:
    records = {"version": content, "data.pkl": build.START + build.module({}) + build.STOP}
    return build.archive({**records, "bytecode.pkl": build.pickled((8, build.function()))})


def test_torchscript_without_bytecode_says_what_to_do():
    out = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), out)
    with pytest.raises(CaptureError, match="has no bytecode: it is a TorchScript file for the full PyTorch"):
        read(out.getvalue())


def test_a_file_packed_again_by_another_tool(tmp_path):
    """Deflated weights, folders as entries."""
    path = tmp_path / "again.ptl"
    with (
        zipfile.ZipFile(legacy.FIXTURES / "small.v8.ptl") as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        target.writestr("small/", b"")
        for entry in source.namelist():
            target.writestr("small/" + entry.partition("/")[2], source.read(entry))
    same(read(path).module, read(legacy.FIXTURES / "small.v8.ptl").module)


def test_function_names_its_method():
    assert Function("__torch__.M.run", [Instruction("RET", 0, 0)], [], [], [], 0).method == "run"


@pytest.mark.slow
@pytest.mark.skipif(bool(legacy.original_missing()), reason=legacy.original_missing())
def test_every_file_of_the_original(tmp_path: Path):
    """Everything that make_legacy.py can write with torch 1.13, in all versions."""
    legacy.make(tmp_path, legacy.ORIGINAL_PYTHON)
    written = list(legacy.cases(tmp_path))
    assert len(written) > 40
    for case in written:
        test_structure(case)


def test_version_5_writes_the_folder_of_its_tensors_into_their_keys():
    """As the files of PyTorch 1.8 have it; later ones, and those that are made version 5 again, only have the number."""
    steps = (("STOREN", 1, 2), ("DROPR", 1, 0), ("LOADC", 0, 0), ("LOADC", 1, 0), ("MOVE", 2, 0), ("OP", 0, 0), ("LOADC", 1, 0),
             ("OP", 1, 0), ("RET", 0, 0))  # fmt: skip
    table = build.code(steps, (("aten::add", "int"), ("aten::add", "Scalar")), ("TENSOR", 1), (), 2)
    forward = ("__torch__.M.forward", table, build.schema(("self", "__torch__.M"), ("y", "int")))
    tensor = build.tensor("constants/0", 8, (2, 4), (4, 1), kind="DoubleStorage")
    bytecode = build.pickled((5, forward)).replace(build.text("TENSOR"), tensor)
    values = np.arange(8, dtype=np.float64)
    program = read(build.program(version=5, bytecode=bytecode, constants__0=values.tobytes()))
    np.testing.assert_array_equal(program.functions["__torch__.M.forward"].constants[0].array(), values.reshape(2, 4))
