"""What a .pen file promises: old files load, wrong ones are refused in words, damage to weights is seen when asked for,
writing is deterministic and never leaves half a file."""

from __future__ import annotations

import errno
import os
import resource
import signal
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import penlight
from penlight.file import format as f
from penlight.file.writer import to_array, write_file
from tests.file.edit import Edit, with_hash
from tests.file.golden import integers, state
from tests.file.small import small_file, small_program

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def file() -> bytes:
    return small_file()


def refused(data: bytes | Path, status: str, *parts: str, **options: bool) -> str:
    """Loading fails with this status, and the message says all of `parts`."""
    with pytest.raises(penlight.LoadError) as caught:
        penlight.load(data, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert caught.value.status == status, message
    for part in parts:
        assert part in message
    return message


def inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((2, 3, 10, 8)).astype(np.float32), rng.standard_normal(5).astype(np.float32)


def result(model: penlight.Model) -> np.ndarray:
    x, bias = inputs()
    return model(x, bias=bias)["out"]  # type: ignore[no-any-return]


# --- the promise ---


def test_golden_file_of_version_1() -> None:
    """It loads in this runtime and gives the numbers that torch gave when it was made."""
    path = GOLDEN / "v1.pen"
    expected = np.load(path.with_suffix(".npz"))
    model = penlight.load(path, verify=True)
    assert model.metadata["labels"][-1] == "ë"
    for case in range(3):
        out = model(expected[f"image{case}"], expected[f"name{case}"])
        assert list(out) == ["scores", "best", "map"]
        np.testing.assert_allclose(out["scores"], expected[f"scores{case}"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(out["map"], expected[f"map{case}"], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(out["best"][0], expected[f"best{case}"])


def test_golden_file_of_version_2() -> None:
    """VM code with state: calls in a row, after a reset again, and the bundled ones."""
    expected = np.load(GOLDEN / "v2.npz")
    model = penlight.load(GOLDEN / "v2.pen", verify=True)
    assert model.metadata["labels"][-1] == "ë"
    assert not model.missing_operators
    for _ in range(2):
        for i in range(4):
            (result,), last = model(expected[f"x{i}"], int(expected["n"][i]), str(expected["names"][i]))
            key, text, end = expected[f"texts{i}"].tolist()
            assert (list(result.scores), result.text, last) == ([key, "n"], text, end)
            np.testing.assert_allclose(result.scores[key], expected[f"scores{i}"], rtol=1e-5, atol=1e-6)
            assert result.scores["n"] == expected["n"][i]
        assert model.run_method("count") == (4, 4)
        model.reset()
    (bundle,) = model.bundled_inputs("forward")
    (result,), last = model(*bundle.args)
    ((scores, text),), z = bundle.outputs
    assert (result.text, last) == (text, z)
    np.testing.assert_allclose(result.scores["positive"], scores["positive"], bundle.relative, bundle.absolute)


def test_golden_file_of_version_3() -> None:
    """Quantized tensors in a region: torch's numbers, but for sums between two steps."""
    model = penlight.load(GOLDEN / "v3.pen", verify=True)
    for seed in range(4):
        image = np.random.default_rng(seed).standard_normal((2, 3, 9, 11)).astype(np.float32)
        np.testing.assert_allclose(model(image), integers.expected(image), atol=0.01)


def test_golden_file_of_version_4() -> None:
    """State: calls in a row, after a reset again."""
    model = penlight.load(GOLDEN / "v4.pen", verify=True)
    assert [info.name for info in model.inputs()] == ["rows", "at"]
    assert len(model.outputs()) == 2
    for _ in range(2):
        for (rows, at), (total, calls) in zip(state.calls(), state.expected(), strict=True):
            got = model(rows, at)
            np.testing.assert_allclose(got[0], total, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(got[1], calls)
        model.reset()


def test_there_is_a_golden_file_of_this_version() -> None:
    path = GOLDEN / f"v{f.VERSION}.pen"
    assert path.exists(), "a new format version needs a golden file: python -m tests.file.golden.make"
    assert struct.unpack_from("<I", path.read_bytes(), 8)[0] == f.VERSION


def test_newer_version_is_named(file: bytes) -> None:
    newer = file[:8] + struct.pack("<I", f.VERSION + 1) + file[12:]
    refused(newer, "version", f"version {f.VERSION + 1}", f"format version {f.VERSION} or older", "Update Penlight")


def test_records_may_grow(file: bytes) -> None:
    """A later writer adds fields at the end of records: this reader skips them, and the numbers are the same."""
    edit = Edit(file)
    for section in edit.tables:
        if edit.record_sizes[section] >= 16:
            edit.record_sizes[section] += 24
    np.testing.assert_array_equal(result(penlight.load(edit.bytes(), verify=True)), result(penlight.load(file)))


def test_unknown_sections_are_skipped(file: bytes) -> None:
    edit = Edit(file)
    edit.order.insert(3, "NEWS")
    edit.record_sizes["NEWS"] = 1
    edit.arrays["NEWS"] = []
    from tests.file import edit as edit_module

    edit_module._ARRAY_CODES["NEWS"] = struct.Struct("<B")
    np.testing.assert_array_equal(result(penlight.load(edit.bytes(), verify=True)), result(penlight.load(file)))


# --- files that are not what they should be ---


def test_truncated_anywhere(file: bytes) -> None:
    for size in range(0, len(file), 64):
        message = refused(file[:size], "format", "a .pen file" if size < 80 else "truncated")
        assert size < 80 or f"got {size}" in message


def test_longer_than_it_says(file: bytes) -> None:
    refused(file + b"\0", "format", "file size", f"{len(file)} bytes, as its header says", f"got {len(file) + 1}")


def test_header_that_claims_too_much(file: bytes) -> None:
    for offset, code, value, part in [
        (12, "<I", 79, "header of 80 to 4096 bytes"), (12, "<I", 5000, "header of 80 to 4096 bytes"),
        (16, "<I", 257, "at most 256 sections"), (8, "<I", 0, "version of 1 or more"),
        (32, "<Q", 1 << 62, "tables inside the file"), (32, "<Q", 0, "tables inside the file"),
        (24, "<Q", 1 << 63, "truncated"),
    ]:  # fmt: skip
        wrong = bytearray(file)
        struct.pack_into(code, wrong, offset, value)
        refused(bytes(wrong), "format", part)


def test_wrong_magic(file: bytes) -> None:
    refused(b"\x89PNG" + file[4:], "format", "a file that begins with 89 50 4e 47")
    refused(file.replace(b"\r\n", b"\n", 1), "format", "a .pen file")  # a transfer that "mends" line ends


def test_zip_archive(tmp_path: Path) -> None:
    path = tmp_path / "model.ptl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02" * 100)
    refused(path, "format", "a zip archive", "penlight optimize")


def test_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "empty.pen").touch()
    refused(tmp_path / "empty.pen", "format", "empty.pen", "an empty file")
    refused(b"", "format", "a .pen file")
    refused(tmp_path / "missing.pen", "io", "missing.pen", "No such file")
    refused(tmp_path, "io", "directory")
    refused(tmp_path, "io", "directory", copy=True)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may do everything: be somebody else for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_no_permission(tmp_path: Path, file: bytes) -> None:
    path = tmp_path / "secret.pen"
    path.write_bytes(file)
    path.chmod(0)
    with ordinary_user():
        refused(path, "io", "Permission denied")


@pytest.mark.parametrize("section", [s for s in f.section_ids() if s not in f.OPTIONAL])
def test_section_missing_or_twice(section: str, file: bytes) -> None:
    edit = Edit(file)
    kept = list(edit.order)
    edit.order.remove(section)
    refused(edit.bytes(), "format", f"{section}: expected a section of this name, got none")

    def rename(name: str, entry: dict[str, object]) -> None:
        if name == next(s for s in kept if s != section):
            entry["id"] = section.encode()

    edit.order = kept
    refused(edit.bytes(rename), "format")


@pytest.mark.parametrize("section", f.section_ids())
def test_section_outside_the_file(section: str) -> None:
    edit = Edit((GOLDEN / {"QUNT": "v3.pen", "STAT": "v4.pen"}.get(section, "v2.pen")).read_bytes())
    for change in (
        {"offset": 1 << 60},
        {"count": 1 << 60},
        {"count": (1 << 64) - 1},
        {"record_size": 0},
        {"record_size": 5000},
        {"offset": 84},
    ):

        def claim(name: str, entry: dict[str, object], change: dict[str, int] = change) -> None:
            if name == section:
                entry.update(change)

        refused(edit.bytes(claim), "format", section)


def test_missing_kernel_is_named(file: bytes) -> None:
    edit = Edit(file)
    edit.node("linear")["key"] = edit.string("linear.f32.quantum")
    edit.tables["KEYS"].append({"key": edit.string("linear.f32.quantum")})
    edit.tables["KEYS"].append({"key": edit.string("warp.f32")})
    refused(edit.bytes(), "kernel", "linear.f32.quantum", "warp.f32", "penlight build")


# --- weights ---


def test_flipped_weight_bit(file: bytes) -> None:
    edit = Edit(file)
    before = result(penlight.load(file))
    edit.data = edit.data[:3] + bytes([edit.data[3] ^ 0x40]) + edit.data[4:]  # an exponent
    changed = (
        edit.bytes()[: f.HASH_OFFSET] + file[f.HASH_OFFSET : f.HASH_OFFSET + 32] + edit.bytes()[f.HASH_OFFSET + 32 :]
    )
    after = result(penlight.load(changed))
    assert after.shape == before.shape
    assert not np.array_equal(after, before)
    refused(changed, "checksum", "SHA-256", verify=True)
    penlight.load(with_hash(changed), verify=True)


def test_any_flipped_bit_is_seen_when_asked_for(file: bytes) -> None:
    rng = np.random.default_rng(0)
    for at in rng.choice(len(file), 300, replace=False):
        changed = bytearray(file)
        changed[at] ^= 1 << rng.integers(8)
        with pytest.raises(penlight.LoadError):
            penlight.load(bytes(changed), verify=True)


# --- writing ---


def test_same_program_same_bytes() -> None:
    assert to_array(small_program()).tobytes() == to_array(small_program()).tobytes()


def test_written_file_is_the_image(tmp_path: Path) -> None:
    path = tmp_path / "small.pen"
    assert write_file(small_program(), path) == path.stat().st_size
    assert path.read_bytes() == to_array(small_program()).tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["small.pen"]


def test_save_and_save_again(tmp_path: Path, file: bytes) -> None:
    path = tmp_path / "small.pen"
    assert penlight.load(file).save(path) == len(file)
    model = penlight.load(path)
    before = result(model)
    model.save(path)  # onto the file that it is mapped from
    np.testing.assert_array_equal(result(model), before)
    assert path.read_bytes() == file
    assert oct(path.stat().st_mode & 0o777) == oct(0o666 & ~_umask())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("start", [b"the old file", None])
def test_disk_full(start: bytes | None, tmp_path: Path, file: bytes) -> None:
    """The old file stays, and nothing else is left behind."""
    path = tmp_path / "small.pen"
    if start is not None:
        path.write_bytes(start)
    model = penlight.load(file)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError) as caught:
            model.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert caught.value.errno == errno.EFBIG
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([start] if start is not None else [])


def test_folder_that_cannot_be_written(tmp_path: Path, file: bytes) -> None:
    path = tmp_path / "small.pen"
    path.write_bytes(b"the old file")
    model = penlight.load(file)
    with ordinary_user():
        if os.access(tmp_path, os.W_OK, effective_ids=True):
            pytest.skip("this user may write anywhere")
        with pytest.raises(PermissionError):
            model.save(path)
    assert path.read_bytes() == b"the old file"
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "no" / "such" / "folder.pen")
    with pytest.raises(OSError):
        model.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["small.pen"]


def test_the_file_may_change_underneath_a_copy(tmp_path: Path, file: bytes) -> None:
    path = tmp_path / "small.pen"
    path.write_bytes(file)
    model = penlight.load(path, copy=True)
    before = result(model)
    path.write_bytes(b"\0" * len(file))
    np.testing.assert_array_equal(result(model), before)


def test_descriptor_with_offset(tmp_path: Path, file: bytes) -> None:
    before = result(penlight.load(file))
    for offset in (0, 64, 4096, 7):
        path = tmp_path / f"asset{offset}"
        path.write_bytes(b"x" * offset + file + b"after")
        with path.open("rb") as handle:
            handle.seek(3)
            model = penlight.load((handle.fileno(), offset, len(file)), verify=True)
        path.unlink()
        np.testing.assert_array_equal(result(model), before)
