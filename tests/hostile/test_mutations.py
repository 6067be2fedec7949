"""A few hundred mutated files of every kind, of a fixed seed (tests/hostile/mutations.py runs any number of them): whatever is wrong with a file
is told in an error of Penlight's own, by every reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penlight
from penlight.errors import LoadError
from penlight.file.metadata import with_sections
from tests.hostile.mutations import compile_and_plan, problem, run, seeds


@pytest.mark.parametrize(("kind", "count"), [("pen", 250), ("ptl", 150), ("pt", 100), ("pt2", 25)])
def test_only_errors_of_ours(kind: str, count: int, tmp_path: Path) -> None:
    found, first = run(kind, count, 1000, tmp_path)
    assert not found, "\n".join(f"{what}, first with {number}\n{told}" for what, (number, told) in first.items())


@pytest.mark.parametrize("kind", ["pen", "ptl", "pt", "pt2"])
def test_files_cut_short(kind: str, tmp_path: Path) -> None:
    from tests.hostile.mutations import READERS

    for data in seeds()[kind]:
        for size in (0, 1, 2, 3, 4, 7, 8, 16, len(data) // 2, len(data) - 1):
            for reader in READERS[kind]:
                assert problem(reader, data[:size], tmp_path) == ("", "")


def test_whole_files_are_read(tmp_path: Path) -> None:
    """So the tests above test something."""
    from tests.hostile.mutations import READERS

    for kind, files in seeds().items():
        for data in files:
            for reader in READERS[kind]:
                reader(data, tmp_path)
    compile_and_plan(seeds()["pt"][0], tmp_path)


META = [
    b"\xff\xfe", b"", b"{", b"[]", b"7", b"null", b"[" * 5000, b'{"a": ' * 3000, b'{"name": "\\ud800"', b'{"extra_files": 7}', b'{"extra_files": {"a": {"base64": 7}}}',
    b'{"extra_files": {"a": {}}}',
]  # fmt: skip


@pytest.mark.parametrize("text", META, ids=range(len(META)))
def test_metadata_is_checked_at_load(text: bytes, tmp_path: Path) -> None:
    for data in seeds()["pen"]:
        image = with_sections(np.frombuffer(data, np.uint8), {"META": text + b"\0"})
        with pytest.raises(LoadError):
            penlight.load(image.tobytes())


def test_files_in_base_64_are_checked_when_asked_for() -> None:
    text = b'{"extra_files": {"a": {"base64": "=="}}}'
    image = with_sections(np.frombuffer(seeds()["pen"][0], np.uint8), {"META": text + b"\0"})
    model = penlight.load(image.tobytes())
    with pytest.raises(LoadError, match="base 64"):
        _ = model.extra_files


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"args"', b'"argz"'), (b'"args": [0]', b'"args": [7]'), (b'"args": [0]', b'"args": 000'),
        (b'"names": ["x"]', b'"names": [777]'), (b'"names"', b'"n\xffmes"'), (b'{"dict": {"y": 0', b'{"dict": {"y": 9'), (b'{"dict": {"y": 0', b'{"tupl": {"y": 0'),
        (b'{"dict": {"y": 0', b'{"list": {"y": 0'), (b'"arguments"', b'"argumentz"'), (b'"arguments"', b'"argum\xffnts"'),
        (b'"arguments": [{"name"', b'"arguments": [{"nome"'),
    ],
)  # fmt: skip
def test_containers_and_schemas_are_checked_at_load(old: bytes, new: bytes, tmp_path: Path) -> None:
    changed = [data.replace(old, new) for data in seeds()["pen"] if old in data]
    assert changed
    for data in changed:
        with pytest.raises(LoadError, match="damaged"):
            penlight.load(data)


def test_strings_of_torchscript_are_bytes() -> None:
    """Not all are UTF-8: they are kept, and Python sees what it can of them."""
    (data,) = seeds()["pt"]
    model = penlight.optimize(data, plan=False, methods=["words"])
    assert model.run_method("words", "p") == ["pa", "b"]
    (flat,) = (d for d in seeds()["ptl"] if d[4:8] == b"PTMF")
    odd = flat.replace(b"\x01\0\0\0b\0", b"\x01\0\0\0\xff\0")
    assert odd != flat
    assert penlight.optimize(odd, plan=False).run_method("words", "p") == ["pa", "\ufffd"]
