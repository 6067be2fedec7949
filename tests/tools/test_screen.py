"""Sizes, times, and text from files that must not reach the terminal as it is."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from rich.text import Text

from penlight.file.writer import to_array
from penlight.printable import printable
from penlight.tools.screen import Stages, in_bytes, in_seconds, screen
from tests.file.small import small_program
from tests.tools.call import Penlight


def test_in_bytes() -> None:
    sizes = (0, 999, 1000, 12_345, 999_999, 18_622_112, 123_456_789, 2_500_000_000)
    assert [in_bytes(n) for n in sizes] == [
        "0 B",
        "999 B",
        "1 kB",
        "12.3 kB",
        "1 MB",
        "18.6 MB",
        "123 MB",
        "2.5 GB",
    ]


def test_in_seconds() -> None:
    assert [in_seconds(s) for s in (0.0000456, 0.0123, 3.21)] == ["46 µs", "12.3 ms", "3.2 s"]


def test_control_codes_are_not_printed(penlight_command: Penlight, tmp_path: Path) -> None:
    assert printable("a\x1b[31mb\u202ec\n\td ☀ é") == "a�[31mb�c\n\td ☀ é"
    program = small_program()
    program.metadata = {"name": "\x1b]0;owned\x07", "labels": ["\x9b2J"]}
    path = tmp_path / "hostile.pen"
    path.write_bytes(to_array(program).tobytes())
    for options in ([], ["--json"], ["--graph"]):
        told = penlight_command("inspect", path, *options)
        assert told.code == 0
        assert not {"\x1b", "\x9b", "\x07"} & set(told.out)


def test_text_with_a_style_is_no_exception(capsys: pytest.CaptureFixture[str]) -> None:
    screen().print(Text.assemble(("a\x1b[31mb", "bold"), "\x07"))
    assert capsys.readouterr().out == "a�[31mb\n"  # of the bell rich itself leaves nothing


@pytest.mark.parametrize("name", ["a[/b].pen", "[red]a", "\x1b]0;a\x07"])
def test_stages_take_names_as_they_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Stages() as stage:
        stage(f"reading {name}")
        stage.step(1, 2, name)
    assert f"reading {printable(name)}" in capsys.readouterr().err


def test_stages_tell_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    with Stages() as stage:
        stage("first")
        stage("second")
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(":")[0] for line in err.splitlines()] == ["  first", "  second"]
    with contextlib.suppress(ValueError), Stages() as stage:
        stage("third")
        raise ValueError
    assert capsys.readouterr().err == ""
