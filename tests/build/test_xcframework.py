"""The XCFramework as Xcode reads it: property lists, module map, the processors in each file, and what their objects are for."""

from __future__ import annotations

import plistlib
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import penlight
from penlight.build.generate import ISAS
from penlight.build.library import build_library, run_tool
from penlight.build.model_selection import selection_of_models
from penlight.build.package.xcframework import fat_file, write_xcframework
from penlight.build.targets import GROUPS, TARGETS
from penlight.build.toolchain import toolchain
from penlight.errors import BuildError
from tests.build.test_aar import stand_in
from tests.tools.call import Penlight

ARM64, X86_64 = (0x0100000C, 0), (0x01000007, 3)
SLICES = {"ios-arm64": ["arm64"], "ios-arm64_x86_64-simulator": ["arm64", "x86_64"]}
IOS, SIMULATOR = 2, 7  # platforms, as a Mach-O file numbers them
# Of Apple's list of functions that an app must give a reason for: those that a C library may call.
NEEDS_REASON = re.compile(r"_(f|l)?stat(at|fs|vfs)?(64)?(\$.*)?$|_getattrlist|_fgetattrlist|_mach_absolute_time$")


def parts(data: bytes) -> dict[tuple[int, int], bytes]:
    """By processor."""
    magic, count = struct.unpack_from(">II", data)
    assert magic == 0xCAFEBABE
    rows = [struct.unpack_from(">iiIII", data, 8 + 20 * i) for i in range(count)]
    assert all(at % (1 << alignment) == 0 for _, _, at, _, alignment in rows)
    return {(kind, sub): data[at : at + size] for kind, sub, at, size, _ in rows}


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    assert archive.startswith(b"!<arch>\n")
    at = 8
    while at < len(archive):
        name, size = archive[at : at + 16].decode().strip(), int(archive[at + 48 : at + 58])
        assert archive[at + 58 : at + 60] == b"`\n"
        data = archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
        assert name.startswith("#1/"), "long names as Apple's linker reads them"
        length = int(name[3:])
        yield data[:length].rstrip(b"\0").decode(), data[length:]


def commands(macho: bytes) -> Iterator[tuple[int, int]]:
    """Kind and offset of each load command."""
    magic, _, _, kind, count = struct.unpack_from("<Iiiii", macho)
    assert (magic, kind) == (0xFEEDFACF, 1), "an object for 64 bits"
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", macho, at)
        yield command, at
        at += size


def platform_of(macho: bytes) -> tuple[int, int]:
    """The platform, and the oldest version of it."""
    found = [struct.unpack_from("<II", macho, at + 8) for kind, at in commands(macho) if kind == 0x32]
    assert len(found) == 1
    return int(found[0][0]), int(found[0][1]) >> 16


def symbols(macho: bytes) -> Iterator[tuple[str, bool, bool]]:
    """Names, whether they are defined here, and whether only one object may do so."""
    for kind, at in commands(macho):
        if kind == 2:
            table, count, strings, _ = struct.unpack_from("<IIII", macho, at + 8)
            for i in range(count):
                name, flags, _, about = struct.unpack_from("<IBBH", macho, table + 16 * i)
                text = macho[strings + name : macho.index(b"\0", strings + name)].decode()
                yield text, flags & 0x0E != 0, flags & 0x0F == 0x0F and not about & 0x80


def test_what_is_in_it(tmp_path: Path) -> None:
    path = write_xcframework([stand_in(name, tmp_path) for name in GROUPS["ios"]], tmp_path)
    about = plistlib.loads((path / "Info.plist").read_bytes())
    assert (about["CFBundlePackageType"], about["XCFrameworkFormatVersion"]) == ("XFWK", "1.0")
    listed = {each["LibraryIdentifier"]: each for each in about["AvailableLibraries"]}
    assert {name: each["SupportedArchitectures"] for name, each in listed.items()} == SLICES
    assert sorted(p.name for p in path.iterdir()) == ["Info.plist", *SLICES]
    for name, each in listed.items():
        simulator = name.endswith("-simulator")
        assert each["SupportedPlatform"] == "ios"
        assert each.get("SupportedPlatformVariant") == ("simulator" if simulator else None)
        framework = path / name / each["LibraryPath"]
        assert (path / name / each["BinaryPath"]).is_file()
        own = plistlib.loads((framework / "Info.plist").read_bytes())
        assert (own["CFBundlePackageType"], own["MinimumOSVersion"]) == ("FMWK", "13.0")
        assert own["CFBundleSupportedPlatforms"] == ["iPhoneSimulator" if simulator else "iPhoneOS"]
        assert own["CFBundleShortVersionString"] == penlight.__version__
        assert (framework / own["CFBundleExecutable"]).is_file()
        privacy = plistlib.loads((framework / "PrivacyInfo.xcprivacy").read_bytes())
        assert privacy["NSPrivacyTracking"] is False
        assert "pen_session_run" in (framework / "Headers/penlight.h").read_text()
        module = (framework / "Modules/module.modulemap").read_text()
        assert module.startswith("framework module Penlight {")
        assert (
            re.findall(r'header "(.*)"', module)
            == [p.name for p in (framework / "Headers").iterdir()]
            == ["penlight.h"]
        )
    device = stand_in("ios-arm64", tmp_path)
    assert (path / "ios-arm64/Penlight.framework/Penlight").read_bytes() == device.path.read_bytes()


@pytest.mark.parametrize("target", GROUPS["ios"])
def test_code_imports_the_module(target: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    path = write_xcframework([stand_in(target, tmp_path)], tmp_path)
    (tmp_path / "app.m").write_text(
        "@import Penlight;\npen_status ask(pen_needs* n) { return pen_model_check(0, 0, n, 0); }\n"
    )
    tools = toolchain(TARGETS[target])
    options = [f"--target={TARGETS[target].triple}", "-nostdlibinc", "-fmodules", f"-fmodules-cache-path={tmp_path}"]
    framework = next(path.glob("ios-*"))
    run_tool([*tools.compiler, *options, "-F", str(framework), "-fsyntax-only", str(tmp_path / "app.m")])


def test_one_file_for_two_processors() -> None:
    given = {"x86_64": b"x" * 20_001, "arm64": b"a" * 5}
    assert parts(fat_file(given)) == {ARM64: given["arm64"], X86_64: given["x86_64"]}
    assert fat_file({"arm64": b"alone"}) == b"alone"


def test_only_what_was_built(tmp_path: Path) -> None:
    write_xcframework([stand_in(name, tmp_path) for name in GROUPS["ios"]], tmp_path)
    path = write_xcframework([stand_in("ios-simulator-arm64", tmp_path)], tmp_path)
    assert sorted(p.name for p in path.iterdir()) == ["Info.plist", "ios-arm64-simulator"], "nothing of the one before"
    with pytest.raises(BuildError, match="add --target ios; got host"):
        write_xcframework([stand_in("host", tmp_path)], tmp_path)


@pytest.mark.parametrize("name", ["cpp/app.cc", "torch/module.py", "Package.swift"])
def test_what_is_somebody_elses_stays(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An app's folder as -o, which has sources of its own by these names; told before anything is compiled."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("an app's")
    with pytest.raises(BuildError, match="which would be lost"):
        write_xcframework([stand_in("ios-arm64", tmp_path)], tmp_path)
    called = Penlight(capsys)("build", "--all", "--target", "ios", "-o", tmp_path)
    assert (called.code, "which would be lost" in " ".join(called.err.split())) == (1, True)
    assert (tmp_path / name).read_text() == "an app's"


def test_a_full_disk_leaves_the_package_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def there() -> dict[str, bytes]:
        return {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    libraries = [stand_in("ios-arm64", tmp_path)]
    write_xcframework(libraries, tmp_path)
    before = there()
    for call in ("xcframework._write_plist", "apple.copy_headers", "apple.shutil.copytree"):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
            patch.setattr(f"penlight.build.package.{call}", full)
            write_xcframework(libraries, tmp_path)
        assert there() == before
    write_xcframework(libraries, tmp_path)
    assert there() == before


@pytest.mark.slow
def test_the_command(capsys: pytest.CaptureFixture[str], models: dict[str, Path], cache: Path, tmp_path: Path) -> None:
    """Every object is for the platform that its folder says, none is lost, and none calls what needs a reason."""
    options = ("--target", "ios", "--cache", cache, "-o", tmp_path, "--jobs", 2)
    called = Penlight(capsys)("build", "--model", models["planned"], *options)
    assert called.code == 0, called.err
    assert str(tmp_path / "Penlight.xcframework") in called.out.replace("\n", "")
    chosen = selection_of_models([models["planned"]])
    read = {
        name: (tmp_path / f"Penlight.xcframework/{name}/Penlight.framework/Penlight").read_bytes() for name in SLICES
    }
    simulators = parts(read["ios-arm64_x86_64-simulator"])
    archives = {
        "ios-arm64": (read["ios-arm64"], ARM64, IOS, 13),
        "ios-simulator-arm64": (simulators[ARM64], ARM64, SIMULATOR, 14),  # the first with this processor
        "ios-simulator-x86_64": (simulators[X86_64], X86_64, SIMULATOR, 13),
    }
    for target, (archive, processor, platform, oldest) in archives.items():
        assert archive == build_library(TARGETS[target], chosen, tmp_path / "again", cache=cache).path.read_bytes()
        (table, _), *objects = members(archive)
        assert table.startswith("__.SYMDEF"), "what linkers look names up in"
        called_for, defined, alone = set(), set(), []
        for name, macho in objects:
            assert struct.unpack_from("<ii", macho, 4) == processor, name
            assert platform_of(macho) == (platform, oldest), name
            for symbol, here, strong in symbols(macho):
                (defined if here else called_for).add(symbol)
                alone += [symbol] if strong else []
        assert {"_pen_session_run", "_pen_model_check"} <= defined
        assert not [name for name in called_for - defined if name.startswith(("_pen_", "__ZN3pen"))], "whole"
        assert len(alone) == len(set(alone)) > 100, "-all_load, as the documents link, takes every object"
        assert not [name for name in called_for if NEEDS_REASON.match(name)]
        for isa in (n for n in TARGETS[target].isas if not ISAS[n].headers):  # whose objects have the same file names
            assert any(name.startswith(f"__ZN3pen{len(isa)}{isa}10linear_f32") for name in defined), isa
