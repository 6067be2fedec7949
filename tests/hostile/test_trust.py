"""No file runs code of its own choosing before its user says that it is trusted: every way in that was found, as a file, through every command.

Each file would make the marker if it could. What torch itself does with some of them is shown too, so that it is known that they bite.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import io
import json
import pickle
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
from penlight.errors import BudgetError, CaptureError, PenlightError, UntrustedError
from penlight.file_kinds import file_kind
from tests.tools.call import Penlight

COMMANDS = ("optimize", "bench", "inspect", "lint")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("offset", torch.arange(3.0))
        self.table = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": (self.layer(x) + self.offset * self.table).reshape(x.shape[0] * 3)}


class Runs:
    """Pickled, it runs a line of Python when it is read."""

    def __init__(self, line: str) -> None:
        self.line = line

    def __reduce__(self) -> Any:
        return exec, (self.line,)


def touch(marker: Path) -> str:
    return f"open({str(marker)!r}, 'w').close()"


Records = dict[str, bytes]


@pytest.fixture(scope="module")
def exported() -> Records:
    """An ordinary .pt2, as its records."""
    dims = {"x": {0: torch.export.Dim("n", max=64)}}
    program = torch.export.export(Net().eval(), (torch.rand(5, 4),), dynamic_shapes=dims)
    stream = io.BytesIO()
    torch.export.save(program, stream)
    with zipfile.ZipFile(stream) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def packed(records: Records, root: str = "m/") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in records.items():
            archive.writestr(root + name, content)
    return stream.getvalue()


def saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


# ---- ways in, of .pt2: each changes the records of an ordinary file ----
def sample_inputs(records: Records, line: str) -> None:
    records["data/sample_inputs/model.pt"] = saved(((torch.rand(5, 4), Runs(line)), {}))


def legacy_weights(records: Records, line: str) -> None:
    records["data/weights/model.pt"] = saved({"layer.weight": Runs(line)})


def legacy_constants(records: Records, line: str) -> None:
    records["data/constants/model.pt"] = saved({"table": Runs(line)})


def _config(records: Records, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    name = f"data/{kind}/model_{kind}_config.json"
    table = json.loads(records[name])
    change(table["config"])
    records[name] = json.dumps(table).encode()


def pickled_weight(records: Records, line: str) -> None:
    _config(records, "weights", lambda config: config["layer.weight"].update(use_pickle=True))
    records["data/weights/weight_0"] = saved(Runs(line))


def opaque_object(records: Records, line: str) -> None:
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    _config(records, "constants", lambda config: config.update(odd=entry))
    records["data/constants/opaque_obj_0"] = pickle.dumps(Runs(line))


def _graph(records: Records, change: Callable[[dict[str, Any]], None]) -> None:
    table = json.loads(records["models/model.json"])
    change(table)
    records["models/model.json"] = json.dumps(table).encode()


def expression(records: Records, line: str) -> None:
    records["models/model.json"] = records["models/model.json"].replace(
        b"Symbol('s77', positive=True, integer=True)", json.dumps(f"exec({line!r}) or Symbol('s77')")[1:-1].encode()
    )


def _nodes(table: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table["graph_module"]["graph"]["nodes"]
    return found


def node_name(records: Records, line: str) -> None:
    """torch writes names of nodes into Python text, which it executes."""
    name = f"a = 0\n{line}\ndef g():\n    b"
    text = records["models/model.json"]
    records["models/model.json"] = text.replace(b'"linear"', json.dumps(name).encode())


def defaultdict_factory(records: Records, line: str) -> None:
    """pytree imports the module that a container's factory lies in."""
    Path(line.split("'")[1]).with_name("evil_module.py").write_text(line)

    def change(table: dict[str, Any]) -> None:
        signature = table["graph_module"]["module_call_graph"][0]["signature"]
        spec = json.loads(signature["out_spec"])
        context = {"default_factory_module": "evil_module", "default_factory_name": "x", "dict_context": ["y"]}
        spec[1].update(type="collections.defaultdict", context=context)
        signature["out_spec"] = json.dumps(spec)

    _graph(records, change)


def enum_key(records: Records, line: str) -> None:
    Path(line.split("'")[1]).with_name("evil_module.py").write_text(line)

    def change(table: dict[str, Any]) -> None:
        signature = table["graph_module"]["module_call_graph"][0]["signature"]
        spec = json.loads(signature["out_spec"])
        spec[1]["context"] = json.dumps([{"__enum__": True, "fqn": "evil_module:E", "name": "A"}])
        signature["out_spec"] = json.dumps(spec)

    _graph(records, change)


def python_function(records: Records, line: str) -> None:
    _graph(records, lambda table: _nodes(table)[1].update(target="torch.os.system"))


def file_operator(records: Records, line: str) -> None:
    """An operator that maps a file makes it, and needs no inputs: capture computes such calls."""

    def change(table: dict[str, Any]) -> None:
        node = copy.deepcopy(_nodes(table)[2])
        marker = line.split("'")[1]
        node.update(
            target="torch.ops.aten.from_file.default", name="made", outputs=[{"as_tensor": {"name": "made"}}],
            inputs=[
                {"name": "filename", "arg": {"as_string": marker}, "kind": 1}, {"name": "shared", "arg": {"as_bool": True}, "kind": 1},
                {"name": "size", "arg": {"as_int": 3}, "kind": 1},
            ],
        )  # fmt: skip
        graph = table["graph_module"]["graph"]
        graph["tensor_values"]["made"] = copy.deepcopy(graph["tensor_values"]["b_offset"])
        _nodes(table).insert(0, node)

    _graph(records, change)


def overload(records: Records, line: str) -> None:
    _graph(records, lambda table: _nodes(table)[1].update(target="torch.ops.aten.add.__class__"))


WAYS = [
    overload, sample_inputs, legacy_weights, legacy_constants, pickled_weight, opaque_object, expression, node_name, defaultdict_factory, enum_key,
    python_function, file_operator,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_pt2_runs_nothing(exported: Records, way: Callable[..., None], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    marker, records = tmp_path / "marker", dict(exported)
    way(records, touch(marker))
    data = packed(records)
    with pytest.raises(UntrustedError, match="trust=True"):
        penlight.optimize(data)
    assert not marker.exists()
    (tmp_path / "m.ptl").write_bytes(data)  # whatever its name
    with pytest.raises(UntrustedError, match="trust=True"):
        penlight.optimize(tmp_path / "m.ptl")
    assert not marker.exists()


@pytest.mark.parametrize("way", [sample_inputs, opaque_object, expression], ids=lambda way: way.__name__)
def test_the_attacks_are_real(exported: Records, way: Callable[..., None], tmp_path: Path) -> None:
    """With trust, torch does what the file says: so the test above tests something."""
    marker, records = tmp_path / "marker", dict(exported)
    way(records, touch(marker))
    with contextlib.suppress(PenlightError):
        penlight.optimize(packed(records), trust=True)
    assert marker.exists()


def _expressions(records: Records, *texts: str) -> bytes:
    """The file with these as sizes of a tensor, as often as there are."""
    changed = dict(records)

    def change(table: dict[str, Any]) -> None:
        sizes = table["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
        first = next(s for s in sizes if "as_expr" in s)
        for text in texts:
            made = copy.deepcopy(first)
            made["as_expr"]["expr_str"] = text
            sizes.append(made)

    _graph(changed, change)
    return packed(changed)


ENDLESS_SIZES = [
    "floor(exp(Integer(300000000)))", "floor(exp(exp(exp(64))))", "floor(1e99999999)", "floor(1/1e-99999999)", "Integer(Float('1e99999999'))",
    "floor(1/Float('1e-99999999', precision=53))", "Mod(Pow(Integer(7),exp(Integer(3000000000))),5)", "Pow(2,Pow(2,32))", "RShift(1,Integer(10000000000))",
    "Pow(Pow(Pow(2,s0-s0+64),s0-s0+64),s0-s0+64)", "Mod(Pow(s0+s1+s2+s3,16),s4+s5)",
    "Xor(" + ",".join(f"Lt(Symbol('s{i}')*Symbol('s{i + 1}'),Symbol('s{i + 2}'))" for i in range(200)) + ")",
    "Max(" + ",".join(f"Pow(Symbol('s{i}',integer=True)+Symbol('s{i + 1}'),2)" for i in range(500)) + ")",
]  # fmt: skip
REFUSES = """
import sys, penlight
for path in sys.argv[1:]:
    try:
        penlight.optimize(path)
    except penlight.CaptureError as e:
        assert "no expression of sizes" in str(e), (path, e)
    else:
        raise SystemExit(f"{path} was taken")
print("refused")
"""


def test_sizes_compute_in_no_time(exported: Records, tmp_path: Path) -> None:
    """In a process of its own: sympy would compute them without end."""
    files = [tmp_path / f"{number}.pt2" for number in range(len(ENDLESS_SIZES))]
    for file, text in zip(files, ENDLESS_SIZES, strict=True):
        file.write_bytes(_expressions(exported, text))
    call = [sys.executable, "-c", REFUSES, *map(str, files)]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "refused\n", ended.stderr


def test_many_sizes_take_from_the_budget(exported: Records) -> None:
    slow = "Xor(" + ",".join(f"Lt(Symbol('s{i}')*Symbol('s{i + 1}'),Symbol('s{i + 2}'))" for i in range(16)) + ")"
    with pytest.raises(BudgetError):
        penlight.optimize(_expressions(exported, *[slow] * 100))


def _of_weights(records: Records, target: str, inputs: dict[str, dict[str, Any]]) -> bytes:
    """The file with a call of an operator on weights alone, whose result the file says has the shape of `offset`, and takes its place."""
    changed = dict(records)

    def change(table: dict[str, Any]) -> None:
        graph = table["graph_module"]["graph"]
        graph["tensor_values"]["made"] = copy.deepcopy(graph["tensor_values"]["b_offset"])
        node = copy.deepcopy(_nodes(table)[0])
        arguments = [{"name": name, "arg": arg, "kind": 1 if arg == OFFSET else 2} for name, arg in inputs.items()]
        node.update(target=target, name="made", outputs=[{"as_tensor": {"name": "made"}}], inputs=arguments)
        for other in _nodes(table):
            for given in other["inputs"]:
                if given["arg"].get("as_tensor", {}).get("name") == "b_offset":
                    given["arg"]["as_tensor"]["name"] = "made"
        _nodes(table).insert(0, node)

    _graph(changed, change)
    return packed(changed)


OFFSET = {"as_tensor": {"name": "b_offset"}}
OF_WEIGHTS: dict[str, tuple[str, str, dict[str, dict[str, Any]]]] = {
    "large": ("as the exported program says, got", "aten.full.default", {"size": {"as_ints": [10**14]}, "fill_value": {"as_float": 1.0}}),
    "overflows": ("fails: RuntimeError", "aten.full.default", {"size": {"as_ints": [1 << 62, 8]}, "fill_value": {"as_float": 1.0}}),
    "copies": ("as the exported program says, got", "aten.repeat.default", {"self": OFFSET, "repeats": {"as_ints": [10**13]}}),
    "fails": ("fails: ", "aten.index_select.default", {"self": OFFSET, "dim": {"as_int": 7}, "index": OFFSET}),
    "counts": ("steps for each element", "aten.special_legendre_polynomial_p.n_scalar", {"x": OFFSET, "n": {"as_int": 10**15}}),
    "counts on the way": ("steps for each element", "aten.combinations.default", {"self": OFFSET, "r": {"as_int": 10**6}}),
    "large on the way": ("steps for each element", "aten.mvlgamma.default", {"self": OFFSET, "p": {"as_int": 2 * 10**9}}),
}  # fmt: skip


@pytest.mark.parametrize("which", OF_WEIGHTS)
def test_what_a_file_says_of_sizes_takes_no_memory(exported: Records, which: str) -> None:
    """Calls that the weights alone determine are computed while capturing: whatever they ask for, it is as much as the file says, or an error."""
    words, target, inputs = OF_WEIGHTS[which]
    with pytest.raises(CaptureError, match=words):
        penlight.optimize(_of_weights(exported, f"torch.ops.{target}", inputs))


@pytest.mark.parametrize(
    ("pieces", "number", "given"),
    [("chunk.default", "chunks", "p_weight"), ("hsplit.int", "sections", "p_weight"), ("hsplit.int", "sections", "x")],
)
def test_a_tensor_of_nothing_has_as_many_pieces_as_a_file_says(pieces: str, number: str, given: str) -> None:
    class Pieces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = torch.unbind(torch.ones(2) * x.sum() + self.weight.sum())
            return first + second

    stream = io.BytesIO()
    torch.export.save(torch.export.export(Pieces(), (torch.empty(0),)), stream)
    with zipfile.ZipFile(stream) as archive:
        records = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}

    def change(table: dict[str, Any]) -> None:
        node = next(n for n in _nodes(table) if "unbind" in n["target"])
        arguments = {"self": {"as_tensor": {"name": given}}, number: {"as_int": 10**10}}
        node["target"] = f"torch.ops.aten.{pieces}"
        node["inputs"] = [{"name": name, "arg": arg, "kind": 1} for name, arg in arguments.items()]

    assert penlight.optimize(packed(records)).methods
    _graph(records, change)
    with pytest.raises(CaptureError, match="at most"):
        penlight.optimize(packed(records))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("module_call_graph", 0, "fqn"), "layer"),
        (("signature", "input_specs", 1, "parameter", "parameter_name"), "layer.weight"),
        (("graph", "tensor_values", "b_offset", "dtype"), 8),
        (("graph", "tensor_values", "b_offset", "sizes"), [{"as_int": 5}]),
    ],
    ids=str,
)
def test_what_a_file_says_of_itself_is_compared(exported: Records, path: tuple[Any, ...], value: Any) -> None:
    records = dict(exported)

    def change(table: dict[str, Any]) -> None:
        at = table["graph_module"]
        for key in path[:-1]:
            at = at[key]
        assert path[-1] in at
        at[path[-1]] = value

    _graph(records, change)
    with pytest.raises(CaptureError, match="expected"):
        penlight.optimize(packed(records))


def test_nothing_is_printed_for_a_file(exported: Records, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PenlightError):
        penlight.optimize(_of_weights(exported, "torch.ops.aten._print.default", {"s": {"as_string": "\x1b[31mhello"}}))
    assert "hello" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("call", ["conv2d", "batch_norm"])
def test_programs_that_contradict_themselves(call: str) -> None:
    """What torch would find when it runs the program, passes and kernels must not fail on in ways of their own."""
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)).eval()
    stream = io.BytesIO()
    torch.export.save(torch.export.export(module, (torch.rand(5, 3, 8, 8),)), stream)
    with zipfile.ZipFile(stream) as archive:
        records = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}

    def change(table: dict[str, Any]) -> None:
        node = next(n for n in _nodes(table) if call in n["target"])
        given = next(i for i in node["inputs"] if i["name"] in ("weight", "running_var"))
        given["arg"]["as_tensor"]["name"] = "p_3_weight"

    assert penlight.optimize(packed(records)).methods
    _graph(records, change)
    with pytest.raises(CaptureError, match="contradicts itself: conv2d|for 4 channels|should contain 4"):
        penlight.optimize(packed(records))


def test_numbers_have_64_bits(exported: Records) -> None:
    records = dict(exported)
    _graph(
        records, lambda table: _nodes(table)[0]["inputs"].append({"name": "x", "arg": {"as_int": 1 << 63}, "kind": 1})
    )
    with pytest.raises(CaptureError, match="a number of more than 64 bits"):
        penlight.optimize(packed(records))


def _with_pickle(records: Records, content: bytes, compression: int = zipfile.ZIP_STORED, **more: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("m/data.pkl", content)
        archive.writestr("m/version", b"3")
        for name, value in more.items():
            archive.writestr(f"m/data/{name[1:]}", value)
    return packed({**records, "data/sample_inputs/model.pt": stream.getvalue()})


def test_pickles_make_no_bytes_of_numbers(exported: Records) -> None:
    """16 bytes of pickle, 4 GB of memory."""
    for module in (b"__builtin__", b"builtins"):
        with pytest.raises(UntrustedError, match="bytearray"):
            penlight.optimize(
                _with_pickle(exported, b"\x80\x02c" + module + b"\nbytearray\n\x8a\x05\x00\x00\x00\x00\x01\x85R.")
            )


def test_pickles_inflate_within_the_budget(exported: Records) -> None:
    with pytest.raises(CaptureError, match="inflate"):
        penlight.optimize(_with_pickle(exported, b"\x80\x02).", zipfile.ZIP_DEFLATED, _0=bytes(100_000_000)))


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_old_archives_have_no_compressions_without_a_bound(compression: int) -> None:
    """zipfile inflates all that there is of them, whatever it is asked for: 4 kB took 8 GB."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        archive.writestr("serialized_exported_program.json", bytes(1 << 20))
    with pytest.raises(CaptureError, match="compression method"):
        penlight.optimize(made.getvalue())


def test_pickles_share_parts_within_the_budget(exported: Records) -> None:
    doubled = b"".join(b"q%ch%c\x86" % (i, i) for i in range(40))
    with pytest.raises(BudgetError):
        penlight.optimize(_with_pickle(exported, b"\x80\x02)" + doubled + b"}\x86."))


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_a_pt2(exported: Records, command: str, tmp_path: Path, penlight_command: Penlight) -> None:
    marker, records = tmp_path / "marker", dict(exported)
    sample_inputs(records, touch(marker))
    (tmp_path / "m.pt2").write_bytes(packed(records))
    told = penlight_command(command, tmp_path / "m.pt2")
    assert told.code == 1
    assert "fault of Penlight" not in told.err
    assert not marker.exists()
    if command in ("optimize", "bench"):
        assert "--trust" in told.err
        penlight_command(command, tmp_path / "m.pt2", "--trust")
        assert marker.exists()


def test_ordinary_pt2_need_no_trust(exported: Records, tmp_path: Path) -> None:
    data, x = packed(exported), torch.rand(7, 4)
    model = penlight.optimize(data)
    torch.testing.assert_close(model(x), torch.export.load(io.BytesIO(data)).module()(x))
    (tmp_path / "m.pt2").write_bytes(data)
    torch.testing.assert_close(penlight.optimize(tmp_path / "m.pt2")(x), model(x))


class Nested(nn.Module):
    def forward(self, pair: Any, *, named: dict[str, torch.Tensor]) -> Any:
        a, b = pair
        made = collections.OrderedDict(sum=a + named["c"], list=[b, (a.mean(), b.max())])
        return made, torch.cat([a, b]).unsqueeze(0)[:, ::2]


def test_containers_and_sizes_of_pt2_are_read(tmp_path: Path) -> None:
    """What torch.export.save writes of containers and of arithmetic on sizes passes the checks."""
    n, m = torch.export.Dim("n", min=2, max=64), torch.export.Dim("m", min=2, max=64)
    args, kwargs = ((torch.rand(6), torch.rand(4)),), {"named": {"c": torch.rand(6)}}
    program = torch.export.export(
        Nested(), args, kwargs, dynamic_shapes={"pair": ({0: n}, {0: m}), "named": {"c": {0: n}}}
    )
    torch.export.save(program, tmp_path / "m.pt2")
    found = penlight.optimize(tmp_path / "m.pt2")(*args, **kwargs)
    torch.testing.assert_close(found, program.module()(*args, **kwargs))


# ---- one classifier ----
def test_bytecode_goes_first(exported: Records, tmp_path: Path, penlight_command: Penlight) -> None:
    """A .ptl with an exported program in it is a .ptl for all."""
    with quiet_jit():
        script = torch.jit.script(nn.Linear(2, 2))
        script._save_for_lite_interpreter(str(tmp_path / "plain.ptl"))
    with zipfile.ZipFile(tmp_path / "plain.ptl") as archive:
        records = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    marker, hidden = tmp_path / "marker", dict(exported)
    sample_inputs(hidden, touch(marker))
    both = {**hidden, **records}
    (tmp_path / "m.ptl").write_bytes(packed(both))
    assert file_kind(tmp_path / "m.ptl") == "zip"
    for command in COMMANDS:
        penlight_command(command, tmp_path / "m.ptl")
    assert not marker.exists()


def test_two_directories_in_one_file(exported: Records, tmp_path: Path) -> None:
    """What kind a zip is, and what is read of it, comes from the same reader, whatever another would see in the same bytes."""
    with quiet_jit():
        stream = io.BytesIO()
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), stream)
    marker, records = tmp_path / "marker", dict(exported)
    sample_inputs(records, touch(marker))
    first, second = stream.getvalue(), packed(records)
    for data in (first + second, second + first, first[:-22] + second, first + second[:-22] + first[-22:]):
        with contextlib.suppress(PenlightError):
            penlight.optimize(data)
        assert not marker.exists()


# ---- TorchScript ----
def quiet_jit() -> Any:
    from penlight.capture.quiet import quiet

    return quiet()


class Saver(nn.Module):
    """Its __setstate__ writes a file: torch.jit.load does."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.w = torch.ones(2)

    @torch.jit.export
    def __getstate__(self):
        return self.path, self.w, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, torch.Tensor, bool]) -> None:
        torch.save(state[1], state[0])
        self.path = state[0]
        self.w = state[1]
        self.training = state[2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.w


class Hanger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.ones(2)

    @torch.jit.export
    def __getstate__(self):
        return self.w, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, bool]) -> None:
        n = 0
        while n >= 0:
            n = 1 - n
        self.w = state[0]
        self.training = state[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.w


class Forward(nn.Module):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, self.path)
        return x + 1


class Bundled(nn.Module):
    """What bundle_inputs would add, with more in it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.jit.export
    def get_all_bundled_inputs(self) -> list[tuple[torch.Tensor]]:
        torch.save(torch.ones(1), self.path)
        return [(torch.ones(2),)]


def script_file(module: nn.Module, path: Path) -> None:
    """The file; what making it did is taken back."""
    with quiet_jit():
        torch.jit.save(torch.jit.script(module.eval()), str(path))


@pytest.mark.slow
@pytest.mark.parametrize("module", [Saver, Forward, Bundled])
@pytest.mark.parametrize("command", COMMANDS)
def test_torchscript_writes_no_file(module: Any, command: str, tmp_path: Path, penlight_command: Penlight) -> None:
    marker = tmp_path / "marker"
    script_file(module(str(marker)), tmp_path / "m.pt")
    assert file_kind(tmp_path / "m.pt") == "torchscript"
    marker.unlink(missing_ok=True)
    told = penlight_command(command, tmp_path / "m.pt", *(["--shape", "2"] if command in ("optimize", "bench") else []))
    assert "fault of Penlight" not in told.err
    assert not marker.exists()


@pytest.mark.parametrize("module", [Forward, Bundled])
def test_bytecode_writes_no_file(module: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with quiet_jit():
        torch.jit.script(module(str(marker)).eval())._save_for_lite_interpreter(str(tmp_path / "m.ptl"))
    marker.unlink(missing_ok=True)
    for inputs in (None, (torch.ones(2),)):
        with contextlib.suppress(PenlightError):
            penlight.optimize(tmp_path / "m.ptl", inputs, allow_missing=True)
        assert not marker.exists()


def test_torch_does_write_it(tmp_path: Path) -> None:
    """So the tests above test something."""
    script_file(Saver(str(tmp_path / "marker")), tmp_path / "m.pt")
    (tmp_path / "marker").unlink(missing_ok=True)
    with quiet_jit():
        torch.jit.load(str(tmp_path / "m.pt"))
    assert (tmp_path / "marker").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_torchscript_does_not_hang(command: str, tmp_path: Path) -> None:
    with quiet_jit():  # __setstate__ runs when the file is loaded, not when it is saved
        script_file(Hanger(), tmp_path / "m.pt")
    call = [sys.executable, "-m", "penlight", command, str(tmp_path / "m.pt")]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 1
    assert "__setstate__" in ended.stderr
    assert "fault of Penlight" not in ended.stderr


def test_ordinary_torchscript_needs_no_trust(tmp_path: Path, penlight_command: Penlight) -> None:
    """torch still tells what bundled inputs give, where a file only computes."""
    import torch.utils.bundled_inputs as bundled

    with quiet_jit():
        script = torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval())
        x = torch.rand(2, 4)
        bundled.augment_model_with_bundled_inputs(script, [(x,)])
        torch.jit.save(script, str(tmp_path / "m.pt"))
    model = penlight.optimize(tmp_path / "m.pt")
    (bundle,) = model.bundled_inputs(as_torch=True)
    assert bundle.has_outputs
    torch.testing.assert_close(bundle.outputs, script(x))
    torch.testing.assert_close(model(x), script(x))
    for command in ("inspect", "lint"):
        assert penlight_command(command, tmp_path / "m.pt").code in (0, 1)


def test_trust_reads_what_the_checks_refuse(exported: Records) -> None:
    records = dict(exported)
    records["data/sample_inputs/model.pt"] = saved(((torch.rand(5, 4),), {"odd": collections.Counter("ab")}))
    data = packed(records)
    try:
        penlight.optimize(data)
    except CaptureError as e:
        assert "sample_inputs" in str(e)
    x = torch.rand(3, 4)
    torch.testing.assert_close(penlight.optimize(data, trust=True)(x)["y"].shape, torch.Size([9]))
