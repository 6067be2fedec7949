"""The Android archive as Gradle, the linker of C++ code and Android itself read it."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import penlight
from penlight.build.library import Library, run_tool
from penlight.build.package.aar import PAGE, write_aar
from penlight.build.selection import NOTHING
from penlight.build.targets import GROUPS, TARGETS
from penlight.build.toolchain import toolchain
from penlight.errors import BuildError
from tests.tools.call import Penlight

ANDROID = "{http://schemas.android.com/apk/res/android}"
POM = "{http://maven.apache.org/POM/4.0.0}"


def stand_in(name: str, folder: Path) -> Library:
    """A library that was not compiled: what packaging reads of one. Its size is no round number."""
    path = folder / name / TARGETS[name].library
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF" + name.encode() * 4321)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Library(TARGETS[name], NOTHING, path, path, "", digest, "", 0, 0.0)


@pytest.fixture
def libraries(tmp_path: Path) -> list[Library]:
    return [stand_in(name, tmp_path) for name in GROUPS["android"]]


def data_offset(raw: bytes, entry: zipfile.ZipInfo) -> int:
    name, extra = struct.unpack_from("<HH", raw, entry.header_offset + 26)
    return entry.header_offset + 30 + int(name) + int(extra)


def test_what_is_in_it(libraries: list[Library], tmp_path: Path) -> None:
    path = write_aar([stand_in("host", tmp_path), *libraries], tmp_path)
    version = penlight.__version__
    assert path == tmp_path / f"maven/org/pytorch/penlight/{version}/penlight-{version}.aar"
    archive = zipfile.ZipFile(path)
    assert archive.testzip() is None
    manifest = ElementTree.fromstring(archive.read("AndroidManifest.xml"))
    assert (manifest.tag, manifest.get("package")) == ("manifest", "org.pytorch.penlight")
    assert [sdk.get(f"{ANDROID}minSdkVersion") for sdk in manifest.iter("uses-sdk")] == ["21"]
    lines = archive.read("META-INF/com/android/build/gradle/aar-metadata.properties").decode().splitlines()
    properties = dict(line.split("=") for line in lines)
    assert (properties["aarFormatVersion"], properties["aarMetadataVersion"]) == ("1.0", "1.0")
    assert int(properties["minCompileSdk"]) <= 21
    assert archive.read("R.txt") == b""
    assert b"native <methods>" in archive.read("proguard.txt")
    jar = zipfile.ZipFile(io.BytesIO(archive.read("classes.jar")))
    assert jar.namelist() == ["META-INF/MANIFEST.MF"]
    assert jar.read("META-INF/MANIFEST.MF").startswith(b"Manifest-Version: 1.0\r\n")
    assert len(archive.namelist()) == len(set(archive.namelist()))


def test_prefab(libraries: list[Library], tmp_path: Path) -> None:
    archive = zipfile.ZipFile(write_aar(libraries, tmp_path))
    package = json.loads(archive.read("prefab/prefab.json"))
    assert package == {"name": "penlight", "schema_version": 1, "dependencies": [], "version": penlight.__version__}
    module = "prefab/modules/penlight"
    assert json.loads(archive.read(f"{module}/module.json"))["export_libraries"] == []
    assert b"pen_session_run" in archive.read(f"{module}/include/penlight.h")
    assert sum("/include/" in name for name in archive.namelist()) == 1, "no header without its functions"
    for library in libraries:
        abi = library.target.abi
        about = json.loads(archive.read(f"{module}/libs/android.{abi}/abi.json"))
        assert about == {"abi": abi, "api": 21, "ndk": 21, "stl": "none"}
        for name in (f"{module}/libs/android.{abi}/libpenlight.so", f"jni/{abi}/libpenlight.so"):
            assert hashlib.sha256(archive.read(name)).hexdigest() == library.sha256


def test_what_apps_ship_lies_on_pages(libraries: list[Library], tmp_path: Path) -> None:
    path = write_aar(libraries, tmp_path)
    raw = path.read_bytes()
    shipped = [e for e in zipfile.ZipFile(path).infolist() if e.filename.startswith("jni/")]
    assert sorted(e.filename.split("/")[1] for e in shipped) == ["arm64-v8a", "armeabi-v7a", "x86", "x86_64"]
    for entry in shipped:
        at = data_offset(raw, entry)
        assert (entry.compress_type, at % PAGE, raw[at : at + 4]) == (zipfile.ZIP_STORED, 0, b"\x7fELF")
        extra = raw[entry.header_offset + 30 + len(entry.filename) : at]
        assert struct.unpack_from("<HHH", extra) == (0xD935, len(extra) - 4, PAGE), "one field, whole"


def test_the_same_bytes_every_time(libraries: list[Library], tmp_path: Path) -> None:
    first = write_aar(libraries, tmp_path / "a").read_bytes()
    assert write_aar(libraries[::-1], tmp_path / "b").read_bytes() == first


def test_the_pom_names_the_file(libraries: list[Library], tmp_path: Path) -> None:
    path = write_aar(libraries[:1], tmp_path)
    pom = ElementTree.parse(path.with_suffix(".pom")).getroot()
    group, artifact, version, kind = (
        pom.findtext(f"{POM}{tag}") for tag in ("groupId", "artifactId", "version", "packaging")
    )
    assert group is not None
    assert path == tmp_path / f"maven/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.{kind}"
    assert sum(name.startswith("jni/") for name in zipfile.ZipFile(path).namelist()) == 1, "the ABIs that were built"


def test_without_android(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="add --target android; got host"):
        write_aar([stand_in("host", tmp_path)], tmp_path)
    called = Penlight(capsys)("build", "--all", "--target", "linux-arm64", "--aar", "-o", tmp_path)
    assert (called.code, "add --target android" in called.err) == (2, True)


def test_the_command(
    capsys: pytest.CaptureFixture[str], models: dict[str, Path], library: Any, cache: Path, tmp_path: Path
) -> None:
    options = ("--target", "android-arm64", "--cache", cache, "-o", tmp_path, "--jobs", 2, "--no-verify", "--aar")
    called = Penlight(capsys)("build", "--model", models["planned"], *options)
    assert called.code == 0, called.err
    path = next(tmp_path.glob("maven/org/pytorch/penlight/*/*.aar"))
    assert str(path) in called.out.replace("\n", "")
    shipped = zipfile.ZipFile(path).read("jni/arm64-v8a/libpenlight.so")
    assert hashlib.sha256(shipped).hexdigest() == library("android-arm64").sha256
    link_with_prefab(path, tmp_path)


def link_with_prefab(path: Path, folder: Path) -> None:
    """C++ code of an app, with header and library as prefab gives them to its build."""
    zipfile.ZipFile(path).extractall(folder / "aar")
    module = folder / "aar/prefab/modules/penlight"
    (folder / "app.cc").write_text(
        '#include <penlight.h>\npen_status ask(pen_needs* n, pen_error* e) { return pen_model_check("a", 0, n, e); }\n'
    )
    target, tools = TARGETS["android-arm64"], toolchain(TARGETS["android-arm64"])
    made = [str(folder / "app.cc"), "-o", str(folder / "app.o")]
    run_tool([*tools.compiler, *tools.compile_flags(target), f"-I{module / 'include'}", "-c", *made])
    libraries = module / "libs/android.arm64-v8a/libpenlight.so"
    options = ["-m", target.emulation, "-shared", "--no-undefined", "-o", str(folder / "libapp.so")]
    run_tool([*tools.linker, *options, str(folder / "app.o"), str(libraries)])
