"""What a file calls things, and what it says of itself: nothing of it reaches a terminal as escape sequences or markup, and what Penlight's commands
rely on is of the kind that they expect."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import penlight
from penlight.compat.compiled_module import CompiledModule
from penlight.errors import LoadError, PenlightError, PlanWarning, ReportError
from penlight.file.layers import with_layers
from penlight.file.metadata import sections, with_sections
from penlight.file.reader import read
from penlight.file.writer import to_array
from penlight.ir.containers import check_output_spec, unflatten
from penlight.pages import document
from penlight.quant.report import Report
from tests.file.assemble import program
from tests.hostile.mutations import seeds
from tests.tools.call import Penlight

EVIL = b"\x1b]0;[/b]\x07"


def renamed(data: bytes, name: bytes) -> bytes:
    """The file with this name of its text table replaced by as much of an escape sequence."""
    image = np.frombuffer(data, np.uint8)
    text = b"\0" + sections(image)["TEXT"][1]
    assert b"\0" + name + b"\0" in text
    evil = (EVIL * len(name))[: len(name)]
    return with_sections(image, {"TEXT": text.replace(b"\0" + name + b"\0", b"\0" + evil + b"\0")[1:]}).tobytes()


def noted(data: bytes, metadata: bytes | dict[str, Any]) -> bytes:
    text = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
    return with_sections(np.frombuffer(data, np.uint8), {"META": text + b"\0"}).tobytes()


COMMANDS: list[list[object]] = [
    ["inspect", "FILE", "--graph"], ["lint", "FILE"], ["run", "FILE", "--input", "x.npy"], ["run", "FILE", "--input", "q=x.npy"],
    ["run", "FILE", "--input", "x.npy", "--arg", "q=1"], ["inspect", "FILE", "--shape", "q=1,2"], ["trace", "FILE", "--static", "-o", "o.yaml"],
]  # fmt: skip


@pytest.mark.parametrize("which", [0, 1], ids=["planned", "interpreted"])
def test_names_are_not_for_the_terminal(
    which: int, tmp_path: Path, penlight_command: Penlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones((3, 2, 6, 6), np.float32))
    names = [[b"forward", b"x", b"a.bias", b"linear.f32"], [b"forward", b"layer", b"aten::sum", b"words"]][which]
    for name in names:
        Path("FILE").write_bytes(renamed(seeds()["pen"][which], name))
        for command in COMMANDS:
            told = penlight_command(*command)
            assert not {"\x1b", "\x07"} & set(told.out + told.err), (name, command)
            assert "fault of Penlight" not in told.err, (name, command, told.err)


def test_errors_and_reprs_are_printable() -> None:
    for data, name in zip(seeds()["pen"], (b"forward", b"forward"), strict=True):
        model = penlight.load(renamed(data, name), threads=1)
        texts = [repr(model), *map(str, model.inputs(model.methods[0]) if model.planned_methods else [])]
        calls: list[Any] = [
            lambda m=model: m.nothere,
            lambda m=model: m.inputs("nothere"),
            lambda m=model: m.run_method(m.methods[0], 1, 2, 3, 4, 5),
        ]
        for call in calls:
            with pytest.raises((AttributeError, PenlightError)) as raised:
                call()
            texts.append("".join(traceback.format_exception(raised.value)))
        assert not {"\x1b", "\x07"} & set("".join(texts))
    assert str(PlanWarning("a\x1b[31m")) == "a�[31m"
    assert str(LoadError("a\u202eb")) == "a�b"


KINDS: list[dict[str, Any]] = [
    {"torch_operators": 7}, {"torch_operators": [[1]]}, {"torch_operators": [1, "aten::add"]}, {"unplanned": 7}, {"unplanned": [7]},
    {"unplanned": {"a": 1}}, {"unplanned": [{"operators": "1", "source": "", "why": ""}]}, {"unplanned": [{"why": "", "source": ""}]},
]  # fmt: skip


@pytest.mark.parametrize("metadata", [*KINDS, b'{"a":' + b"[" * 150 + b"]" * 150 + b"}"], ids=range(len(KINDS) + 1))
def test_what_commands_rely_on_is_checked_at_load(metadata: Any, tmp_path: Path) -> None:
    for data in seeds()["pen"]:
        for call in (penlight.load, read):
            with pytest.raises(LoadError, match="damaged"):
                call(noted(data, metadata))


def test_metadata_that_is_nested_as_deep_as_it_may() -> None:
    data = noted(seeds()["pen"][0], b'{"a":' + b"[" * 98 + b"]" * 98 + b"}")
    assert read(data).metadata == penlight.load(data).metadata


@pytest.mark.parametrize("steps", [7, [1], "abc", {"\x1b[31m": 1}, {"resize": 10**400}, {"mean": "x"}], ids=range(6))
def test_preprocessing_that_is_none(
    steps: Any, tmp_path: Path, penlight_command: Penlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_bytes(noted(seeds()["pen"][0], {"preprocessing": steps}))
    told = penlight_command("run", "FILE", "x.jpg")
    assert told.code == 1
    assert "preprocessing: " in told.err
    assert "fault of Penlight" not in told.err
    assert penlight_command("inspect", "FILE").code == 0


REPORT = {"name": "n", "method": "m", "examples": 1}
WRONG: list[Any] = [
    {}, {**REPORT, "examples": 1e999}, {**REPORT, "sqnr": 10**400}, {**REPORT, "layers": 7}, {**REPORT, "bytes_before": 10**4000},
    {**REPORT, "layers": [["a", "b", "c", "i8", "", None, None, 1e999]]}, {**REPORT, "notes": 7},
]  # fmt: skip


@pytest.mark.parametrize("report", WRONG, ids=range(len(WRONG)))
def test_reports_that_are_none(report: Any) -> None:
    model = penlight.load(noted(seeds()["pen"][0], {"quantization": report}))
    with pytest.raises(ReportError, match="not one that penlight.quantize wrote"):
        model.report()


def test_a_report_is_text_wherever_it_is_shown() -> None:
    evil = "<script>alert(1)</script>\x1b[31m[/b]' onload='x"
    row = [evil, evil, evil, evil, evil, float("nan"), -1.0, 1, 1]
    found = Report.from_metadata({**REPORT, "name": evil, "layers": [row], "notes": [evil], "costs": evil})
    page = found.html()
    assert "<script>" not in page
    assert "' onload" not in page
    for text in (str(found), _on_a_console(found)):
        assert "\x1b" not in text
        assert "[/b]" in text


PROTOCOLS = ["_repr_html_", "_repr_javascript_", "_repr_mimebundle_", "_ipython_display_", "__array__"]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_notebook_does_not_run_what_it_shows(name: str) -> None:
    """It asks every object for such methods, and takes what they give for a page or a script."""
    script = f"{name}(self):\n return('<script>alert(1)</script>')\nforward(self, x):\n return(r1)"
    model = penlight.load(to_array(program(script)).tobytes())
    for shown in (model, CompiledModule(model)):
        assert not hasattr(shown, name)
        assert callable(shown.forward)
    assert model.run_method(name) == "<script>alert(1)</script>"


def test_pages_can_be_written_whatever_files_are_called() -> None:
    assert "<title>a?.pen</title>" in document("a\udcff.pen", "").encode().decode()


@pytest.mark.parametrize("option", ["--metadata", "--labels"])
def test_json_that_is_nested_without_end(option: str, tmp_path: Path, penlight_command: Penlight) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 100_000)
    (tmp_path / "m.pt").write_bytes(seeds()["pt"][0])
    told = penlight_command("optimize", tmp_path / "m.pt", option, file)
    assert told.code == 2
    assert "not JSON" in told.err


def _on_a_console(report: Report) -> str:
    """Of somebody else's, with markup."""
    console = Console(width=200)
    with console.capture() as captured:
        console.print(report)
    return captured.get()


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["planned", "interpreted"])
def test_texts_that_are_not_utf8(
    which: int, tmp_path: Path, penlight_command: Penlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what runs are made of and where it came from: told when it is asked for, and odd letters are no reason to fail."""
    monkeypatch.chdir(tmp_path)
    image = np.frombuffer(seeds()["pen"][which], np.uint8)
    text = sections(image)["TEXT"][1]
    for name in sorted({name for name in text.split(b"\0") if name}):
        odd = (b"\0" + text).replace(b"\0" + name + b"\0", b"\0\xff" + name[1:] + b"\0")[1:]
        Path("FILE").write_bytes(with_sections(image, {"TEXT": odd}).tobytes())
        told = penlight_command("bench", "FILE", "--runs", 1, "--seconds", 0, "--threads", 1, "--profile", "--json")
        assert "fault of Penlight" not in told.err, (name, told.err)
        try:
            model = penlight.load("FILE", threads=1)
            for method in model.planned_methods:
                assert model.profile(np.ones((3, 2, 6, 6), np.float32), method=method, runs=1)
            assert model.planned_parts is not None
            for method in model.methods:
                model.bundled_inputs(method)
        except PenlightError as e:
            assert "got" in str(e) or "damaged" in str(e)


def test_layers_may_be_called_anything() -> None:
    """For `compare --layers`."""
    image = np.frombuffer(seeds()["pen"][0], np.uint8)
    text = sections(image)["TEXT"][1]
    plain = with_layers(image)[1]
    for layer in plain:
        odd = text.replace(b"\0" + layer.name.encode() + b"\0", b"\0\xff" + layer.name[1:].encode() + b"\0")
        named = [other.name for other in with_layers(with_sections(image, {"TEXT": odd}))[1]]
        assert len(named) == len(plain)


def test_schemas_are_checked_by_the_reader_too() -> None:
    data = seeds()["pen"][1]
    for new in (b'"argumentz"', b'"arg\xffments"'):
        assert b'"arguments"' in data
        with pytest.raises(LoadError, match="schema: expected a list of arguments"):
            read(data.replace(b'"arguments"', new))


@pytest.mark.parametrize("fields", [["ﬁ", "fi"], ["＿cls"], ["＿tuple_new"], ["a\ud800", "class", ""]], ids=range(4))
def test_fields_of_namedtuples_that_are_one_name_to_python(fields: list[str]) -> None:
    spec = {"namedtuple": ["P", dict.fromkeys(fields, 0)]}
    check_output_spec(spec, 1, set())
    made = unflatten(spec, [7])
    assert tuple(made) == (7,) * len(fields)
    assert len(set(made._fields)) == len(fields)
