"""`penlight bench --adb`, with a stand-in for adb that runs what was pushed under qemu; and with devices that are not as they should be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import penlight
from penlight.build.benchmark import benchmark_binary
from penlight.errors import BuildError
from tests.programs.test_speed_benchmark import speed_benchmark
from tests.tools.call import Called, Penlight

STAND_IN = Path(__file__).with_name("adb_stand_in.py")
FOLDER = "data/local/tmp/penlight"


class Phone:
    """A stand-in device, and `penlight bench --adb` on it."""

    def __init__(self, root: Path, command: Penlight, patch: pytest.MonkeyPatch) -> None:
        self.root, self.command, self.patch = root / "phone", command, patch
        (self.root / "data/local/tmp").mkdir(parents=True)
        adb = root / "bin/adb"
        adb.parent.mkdir()
        adb.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        adb.chmod(0o755)
        patch.setenv("PATH", str(adb.parent), prepend=":")
        patch.setenv("ADB_ROOT", str(self.root))
        patch.delenv("ANDROID_SERIAL", raising=False)

    def bench(self, model: Path, *options: object) -> Called:
        return self.command("bench", model, "--adb", *options)

    @property
    def files(self) -> set[str]:
        return {p.name for p in (self.root / "data/local/tmp").rglob("*")}

    @property
    def pushed(self) -> list[str]:
        lines = (self.root / "calls").read_text().splitlines() if (self.root / "calls").exists() else []
        return [line.split("/")[-1] for line in lines if " push " in line]


@pytest.fixture
def phone(tmp_path: Path, penlight_command: Penlight, monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(tmp_path, penlight_command, monkeypatch)


@pytest.fixture(scope="session")
def binary() -> Path:
    return speed_benchmark("arm64")


@pytest.fixture
def elf(tmp_path: Path) -> Path:
    """As much of an arm64 program as is looked at before it runs."""
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little") + bytes(100))
    return path


@pytest.mark.slow
def test_table_json_and_profile(phone: Phone, classifier: Path, binary: Path) -> None:
    told = phone.bench(classifier, "--binary", binary, "--threads", "1,2", "--runs", "3", "--profile", "--peak", "10,5")
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert "1 × 3 × 32 × 32; 5.53e-05 G multiply-adds; i8mm; on Stand-in (PHONE), Android 14, arm64-v8a" in lines[0]
    here = phone.command("bench", classifier, "--threads", "1,2", "--runs", "3").out.splitlines()
    assert here[1].split() == next(line for line in lines[1:] if "best ms" in line).split()  # the same columns
    assert [line.split()[0] for line in lines[3:5]] == ["1", "2"]
    assert "Kernel calls, 2 threads" in told.out
    assert "conv2d.f32" in told.out
    assert phone.files == set()
    found = json.loads(phone.bench(classifier, "--binary", binary, "--threads", "1", "--json", "--runs", "4").out)
    one = found["threads"]["1"]
    assert one["runs"] == 4
    assert 0 < one["best_s"] <= one["median_s"] <= one["p90_s"] <= one["p99_s"]
    assert one["multiply_adds"] == 16 * 16 * 8 * 3 * 3 * 3 + 8 * 6
    assert one["steps"] == []


@pytest.mark.slow
def test_kinds_of_models(phone: Phone, files: Path, binary: Path, tmp_path: Path) -> None:
    """Two inputs, free sizes, interpreted code with its bundled input, and a file that is optimized first."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if bool(x.sum() > 0) else x

    free, script, bundled = tmp_path / "free.pen", tmp_path / "script.pen", tmp_path / "bundled.pen"
    penlight.optimize(str(files / "classifier.pt"), (torch.rand(2, 3, 32, 32),), dynamic_shapes="auto").save(free)
    penlight.optimize(torch.jit.script(Model())).save(script)
    penlight.optimize(torch.jit.script(Model()), bundled_inputs={"forward": [(torch.rand(3, 5),)]}).save(bundled)
    for model, options, sizes in (
        (files / "two.pt2", [], [[2, 5], [2, 5]]),
        (free, ["--shape", "2,3,16,8", "--channels-last"], [[2, 3, 16, 8]]),
        (script, ["--shape", "2,7:i64"], [[2, 7]]),
        (bundled, [], [[3, 5]]),
    ):
        told = phone.bench(model, "--binary", binary, "--threads", "1", "--seconds", "0.01", "--json", *options)
        assert told.code == 0, told.err
        found = json.loads(told.out)
        assert list(found["inputs"].values()) == sizes
        assert found["threads"]["1"]["runs"] >= 5


@pytest.mark.slow
@pytest.mark.parametrize("old", [False, True])
def test_kept_models_are_not_copied_again(phone: Phone, classifier: Path, files: Path, binary: Path, old: bool) -> None:
    if old:
        phone.patch.setenv("ADB_OLD", "1")
    options = ["--binary", binary, "--threads", "1", "--runs", "1"]
    for model, keep, copies in ((classifier, True, 2), (classifier, True, 4 if old else 2), (files / "two.pt2", False, 6 if old else 3)):  # fmt: skip
        told = phone.bench(model, *options, *(["--keep"] if keep else []))
        assert told.code == 0, told.err
        assert len(phone.pushed) == copies
        assert phone.files == ({"penlight", "speed_benchmark_torch", "model.pen"} if keep else set())


@pytest.mark.slow
@pytest.mark.parametrize("old", [False, True])
def test_errors_of_the_program(phone: Phone, classifier: Path, binary: Path, old: bool) -> None:
    if old:
        phone.patch.setenv("ADB_OLD", "1")
    told = phone.bench(classifier, "--binary", binary, "--isa", "z80", "--threads", "1")
    assert told.code == 1
    assert "the program failed on PHONE (exit code 1): error:" in told.err
    assert "z80" in told.err
    assert phone.files == set()


@pytest.mark.parametrize(
    ("devices", "options", "words"),
    [
        ("", [], "no device is connected: plug one in"),
        ("A device,B device", [], "2 devices are connected: choose one with --serial: A, B"),
        ("A unauthorized", [], "device A does not trust this computer yet: unlock it"),
        ("A offline", [], "device A is offline: plug it in again"),
        ("A no permissions (user in plugdev group; are your udev rules wrong?)", [], "udev rules"),
        ("A sideload,B offline", [], "device A is in sideload mode: start Android; device B is offline"),
        ("A host", [], "device A is not ready: host"),
        ("A device,B unauthorized", ["--serial", "B"], "device B does not trust"),
        ("A device", ["--serial", "C"], "there is no device 'C': connected are A"),
        ("", ["--serial", "C"], "there is no device 'C': none is connected"),
    ],
)
def test_devices(phone: Phone, classifier: Path, elf: Path, devices: str, options: list[str], words: str) -> None:
    phone.patch.setenv("ADB_DEVICES", devices)
    told = phone.bench(classifier, "--binary", elf, *options)
    assert told.code == 1
    assert words in told.err
    assert "Traceback" not in told.err


@pytest.mark.parametrize("serial", ["option", "environment", "only one is ready"])
def test_choice_of_a_device(phone: Phone, classifier: Path, elf: Path, serial: str) -> None:
    """It is gone further with: up to the program, which is none."""
    phone.patch.setenv("ADB_DEVICES", f"A {'offline' if 'only' in serial else 'device'},B device")
    if serial == "environment":
        phone.patch.setenv("ANDROID_SERIAL", "B")
    told = phone.bench(classifier, "--binary", elf, *(["--serial", "B"] if serial == "option" else []))
    assert "the program failed on B (exit code" in told.err
    assert phone.files == set()


def test_full_disk(phone: Phone, classifier: Path, elf: Path) -> None:
    phone.patch.setenv("ADB_ROOM", "2000")  # the program fits, the model does not
    assert classifier.stat().st_size > 2000
    told = phone.bench(classifier, "--binary", elf, "--keep")
    assert told.code == 1
    assert f"{classifier}: the disk of PHONE is full" in told.err
    assert "are free. Delete something there" in told.err
    assert phone.files == {"penlight", "speed_benchmark_torch"}
    assert phone.bench(classifier, "--binary", elf).code == 1
    assert phone.files == set()


def test_failing_copies(phone: Phone, classifier: Path, elf: Path) -> None:
    (phone.root / FOLDER / "model.pen").mkdir(parents=True)  # in the way
    told = phone.bench(classifier, "--binary", elf)
    assert told.code == 1
    assert "could not be copied to PHONE:/data/local/tmp/penlight/model.pen" in told.err
    assert phone.files == set()
    (phone.root / FOLDER).touch()
    assert "no folder /data/local/tmp/penlight can be made" in phone.bench(classifier, "--binary", elf).err


def test_lost_device(phone: Phone, classifier: Path, elf: Path) -> None:
    phone.patch.setenv("ADB_LOST", "1")
    told = phone.bench(classifier, "--binary", elf)
    assert told.code == 1
    assert "the connection to PHONE is lost: error: device 'PHONE' not found" in told.err


def test_wrong_program(phone: Phone, classifier: Path, elf: Path, files: Path) -> None:
    phone.patch.setenv("ADB_ABI", "x86_64")
    told = phone.bench(classifier, "--binary", elf)
    assert (told.code, phone.pushed) == (1, [])
    assert "expected a program for x86_64, which the device is, got one for arm64-v8a" in told.err
    assert "no processor that Android runs on" in phone.bench(classifier, "--binary", files / "labels.txt").err


def test_results_of_another_version(phone: Phone, classifier: Path, elf: Path) -> None:
    phone.patch.setattr("penlight.tools.device_bench._run", lambda device, flags: {"steps": []})
    told = phone.bench(classifier, "--binary", elf)
    assert told.code == 1
    assert f"{elf} is of another version: its result has no 'isa'" in told.err


def test_wrong_calls(phone: Phone, classifier: Path, elf: Path) -> None:
    for options, words in (
        (["--adb", "--input", "x.npy"], "no --input, no --arg"),
        (["--adb", "--arg", "n=3"], "no --input, no --arg"),
        (["--serial", "A"], "are for --adb"),
        (["--keep"], "are for --adb"),
    ):
        told = phone.command("bench", classifier, *options)
        assert told.code == 2
        assert words in told.err
    phone.patch.setenv("PATH", "/nowhere")
    phone.patch.delenv("ANDROID_HOME", raising=False)
    phone.patch.delenv("ANDROID_SDK_ROOT", raising=False)
    assert "adb is not installed" in phone.bench(classifier, "--binary", elf).err


def test_adb_of_an_sdk(phone: Phone, classifier: Path, elf: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").rename(tmp_path / "platform-tools")
    phone.patch.setenv("ANDROID_HOME", str(tmp_path))
    assert "the program failed on PHONE" in phone.bench(classifier, "--binary", elf).err


def test_a_processor_without_program() -> None:
    with pytest.raises(BuildError, match="only for arm64-v8a, armeabi-v7a, x86_64, x86: give one with --binary"):
        benchmark_binary("riscv64")
