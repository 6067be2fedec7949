"""The Android archives as Gradle, the linker of C++ code, Java and Android itself read them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import penlight
from penlight.build import java
from penlight.build.class_files import JAVA_8, native_functions, read_class
from penlight.build.formats import elf_tools
from penlight.build.generate import BINDINGS
from penlight.build.library import Library, run_tool
from penlight.build.package import cpp_headers
from penlight.build.package.aar import write_archives
from penlight.build.package.maven import Published, write_repository
from penlight.build.package.zip_file import PAGE, jar
from penlight.build.selection import NOTHING
from penlight.build.targets import GROUPS, TARGETS
from penlight.build.toolchain import toolchain
from penlight.build.wheel import java_files, package_files
from penlight.errors import BuildError
from tests.tools.call import Penlight

pytestmark = pytest.mark.slow  # it compiles

ANDROID = "{http://schemas.android.com/apk/res/android}"
POM = "{http://maven.apache.org/POM/4.0.0}"
VERSION = penlight.__version__
CLASSES = {
    "org/pytorch/Module.class": b"one",
    "org/penlight/Model.class": b"two",
    "org/pytorch/torchvision/T.class": b"three",
}
LITE, VISION = "pytorch_android_lite", "pytorch_android_torchvision_lite"
SHIPPED = ["libpenlight.so", "libpenlight_jni.so"]


def stand_in(name: str, folder: Path, jni: bool = False) -> Library:
    """A library that was not compiled: what packaging reads of one. Its size is no round number."""
    path = folder / name / (TARGETS[name].jni_library if jni else TARGETS[name].library)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF" + path.name.encode() + name.encode() * 4321)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Library(TARGETS[name], NOTHING, path, path, "", digest, "", 0, 0.0)


@pytest.fixture
def libraries(tmp_path: Path) -> list[Library]:
    return [stand_in(name, tmp_path) for name in GROUPS["android"]]


def written(libraries: list[Library], repository: Path) -> Path:
    """With everything: the others lie beside it."""
    loaded = [stand_in(library.target.name, library.path.parents[1], jni=True) for library in libraries]
    return write_archives(libraries, loaded, CLASSES, repository)


def beside(path: Path, name: str) -> Path:
    return path.parents[2] / name / VERSION / f"{name}-{VERSION}.aar"


def data_offset(raw: bytes, entry: zipfile.ZipInfo) -> int:
    name, extra = struct.unpack_from("<HH", raw, entry.header_offset + 26)
    return entry.header_offset + 30 + int(name) + int(extra)


def classes_in(archive: zipfile.ZipFile) -> list[str]:
    held = zipfile.ZipFile(io.BytesIO(archive.read("classes.jar")))
    assert held.read("META-INF/MANIFEST.MF").startswith(b"Manifest-Version: 1.0\r\n")
    return [name for name in held.namelist() if name != "META-INF/MANIFEST.MF"]


@pytest.mark.parametrize(
    ("name", "package", "classes"),
    [
        ("penlight", "org.pytorch.penlight", sorted(CLASSES)),
        (LITE, "org.pytorch", ["org/penlight/Model.class", "org/pytorch/Module.class"]),
        (VISION, "org.pytorch.torchvision", ["org/pytorch/torchvision/T.class"]),
    ],
)
def test_what_is_in_them(libraries: list[Library], tmp_path: Path, name: str, package: str, classes: list[str]) -> None:
    path = written([stand_in("host", tmp_path), *libraries], tmp_path / "maven")
    assert path == tmp_path / f"maven/org/pytorch/penlight/{VERSION}/penlight-{VERSION}.aar"
    archive = zipfile.ZipFile(beside(path, name))
    assert archive.testzip() is None
    manifest = ElementTree.fromstring(archive.read("AndroidManifest.xml"))
    assert (manifest.tag, manifest.get("package")) == ("manifest", package)
    assert [sdk.get(f"{ANDROID}minSdkVersion") for sdk in manifest.iter("uses-sdk")] == ["21"]
    lines = archive.read("META-INF/com/android/build/gradle/aar-metadata.properties").decode().splitlines()
    properties = dict(line.split("=") for line in lines)
    assert (properties["aarFormatVersion"], properties["aarMetadataVersion"]) == ("1.0", "1.0")
    assert int(properties["minCompileSdk"]) <= 21
    assert archive.read("R.txt") == b""
    assert classes_in(archive) == classes
    assert len(archive.namelist()) == len(set(archive.namelist()))
    shipped = [entry for entry in archive.namelist() if entry.startswith("jni/")]
    abis = [] if name == VISION else ["arm64-v8a", "armeabi-v7a", "x86", "x86_64"]
    assert shipped == [f"jni/{abi}/{file}" for abi in abis for file in SHIPPED]


def test_prefab(libraries: list[Library], tmp_path: Path) -> None:
    path = written(libraries, tmp_path)
    assert not [name for name in zipfile.ZipFile(beside(path, VISION)).namelist() if name.startswith("prefab")]
    for archive in map(zipfile.ZipFile, (path, beside(path, LITE))):
        package = json.loads(archive.read("prefab/prefab.json"))
        assert package == {"name": "penlight", "schema_version": 1, "dependencies": [], "version": VERSION}
        module = "prefab/modules/penlight"
        assert json.loads(archive.read(f"{module}/module.json"))["export_libraries"] == []
        assert b"pen_session_run" in archive.read(f"{module}/include/penlight.h")
        assert {f"{module}/include/{name}" for name in cpp_headers()} < set(archive.namelist())
        assert not [n for n in archive.namelist() if n.endswith(("_trace.h", "_image.h"))], (
            "no header without its functions"
        )
        torch = json.loads(archive.read("prefab/modules/torch/module.json"))
        assert torch["export_libraries"] == [":penlight"]
        assert "prefab/modules/torch/include/torch/script.h" in archive.namelist()
        for library in libraries:
            abi = library.target.abi
            about = json.loads(archive.read(f"{module}/libs/android.{abi}/abi.json"))
            assert about == {"abi": abi, "api": 21, "ndk": 21, "stl": "none"}
            for name in (f"{module}/libs/android.{abi}/libpenlight.so", f"jni/{abi}/libpenlight.so"):
                assert hashlib.sha256(archive.read(name)).hexdigest() == library.sha256


def test_what_apps_ship_lies_on_pages(libraries: list[Library], tmp_path: Path) -> None:
    path = written(libraries, tmp_path)
    raw = path.read_bytes()
    shipped = [e for e in zipfile.ZipFile(path).infolist() if e.filename.startswith("jni/")]
    assert len(shipped) == 8
    for entry in shipped:
        at = data_offset(raw, entry)
        assert (entry.compress_type, at % PAGE, raw[at : at + 4]) == (zipfile.ZIP_STORED, 0, b"\x7fELF")
        extra = raw[entry.header_offset + 30 + len(entry.filename) : at]
        assert struct.unpack_from("<HHH", extra) == (0xD935, len(extra) - 4, PAGE), "one field, whole"


def test_the_same_bytes_every_time(libraries: list[Library], tmp_path: Path) -> None:
    for order, name in ((1, "a"), (-1, "b")):
        written(libraries[::order], tmp_path / name)
    a, b = (
        {p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()} for n in "ab"
    )
    assert a == b


def test_the_repository(libraries: list[Library], tmp_path: Path) -> None:
    """Each archive has a POM that names it and what it needs, of the same repository; every file has its checksums."""
    written(libraries[:1], tmp_path)
    found = {}
    for path in tmp_path.glob("org/pytorch/*/*/*.pom"):
        pom = ElementTree.parse(path).getroot()
        group, name, version, kind = (
            pom.findtext(f"{POM}{tag}") for tag in ("groupId", "artifactId", "version", "packaging")
        )
        assert group == "org.pytorch"
        assert path == tmp_path / f"org/pytorch/{name}/{version}/{name}-{version}.pom"
        assert path.with_suffix(".aar").exists() == (kind == "aar")
        needs = []
        for need in pom.iter(f"{POM}dependency"):
            given = {tag: need.findtext(f"{POM}{tag}") for tag in ("groupId", "version", "type", "scope")}
            assert given == {"groupId": group, "version": version, "type": "aar", "scope": "compile"}
            needs.append(need.findtext(f"{POM}artifactId"))
        found[name] = (kind, needs)
    assert found == {
        "penlight": ("aar", []),
        LITE: ("aar", []),
        VISION: ("aar", [LITE]),
        "pytorch_android": ("pom", [LITE]),
        "pytorch_android_torchvision": ("pom", [VISION]),
    }
    files = [p for p in (tmp_path / "org").rglob("*") if p.is_file() and p.suffix not in (".md5", ".sha1")]
    assert len(files) == 5 * 2 + 3
    for path in files:
        for kind in ("md5", "sha1"):
            digest = hashlib.new(kind, path.read_bytes()).hexdigest()
            assert path.with_name(f"{path.name}.{kind}").read_text() == digest


GRADLE = """
repositories { maven { url = uri(project.property("maven")) } }
def names = project.property("names").split(",")
names.each { name -> configurations.create(name); dependencies.add(name, "org.pytorch:${name}:%s") }
task show { doLast { names.each { println "$it: " + configurations[it].resolve().collect { f -> f.name }.sort().join(" ") } } }
"""


@pytest.mark.slow
def test_gradle_takes_it_offline(libraries: list[Library], tmp_path: Path) -> None:
    if shutil.which("gradle") is None:
        pytest.skip("gradle is not installed (Debian: gradle)")
    written(libraries[:1], tmp_path / "maven")
    project = tmp_path / "project"
    project.mkdir()
    (project / "build.gradle").write_text(GRADLE % VERSION)
    (project / "settings.gradle").touch()
    names = ["penlight", LITE, VISION, "pytorch_android", "pytorch_android_torchvision"]
    options = [
        "--offline",
        "--no-daemon",
        "-q",
        f"-Pmaven={tmp_path / 'maven'}",
        f"-Pnames={','.join(names)}",
        "-g",
        str(tmp_path / "home"),
    ]
    done = subprocess.run(["gradle", *options, "show"], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    files = {name: f"{name}-{VERSION}.aar" for name in names}
    both = f"{files[LITE]} {files[VISION]}"
    taken = [files["penlight"], files[LITE], both, files[LITE], both]
    assert done.stdout.splitlines()[-5:] == [f"{name}: {taken}" for name, taken in zip(names, taken, strict=True)]


def test_other_versions_stay(libraries: list[Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = ["0.2.0", "0.10.0", VERSION]
    for version in versions:
        monkeypatch.setattr(penlight, "__version__", version)
        written(libraries[:1], tmp_path)
    listed = ElementTree.parse(tmp_path / "org/pytorch/penlight/maven-metadata.xml").getroot()
    assert [v.text for v in listed.iter("version")] == [VERSION, "0.2.0", "0.10.0"]
    assert [v.text for v in (*listed.iter("latest"), *listed.iter("release"))] == ["0.10.0"] * 2
    assert len(list(tmp_path.glob("org/pytorch/penlight/*/*.aar"))) == 3


@pytest.mark.parametrize("version", ["1.²", "1<&.0", "1.\udcff"])
def test_versions_of_others_are_text(version: str, tmp_path: Path) -> None:
    """They are names of folders, which may be anything."""
    other = tmp_path / "org/pytorch/penlight" / version / "x.pom"
    other.parent.mkdir(parents=True)
    other.touch()
    write_repository(tmp_path, "org.pytorch", "1.0", [Published("penlight", b"zip")])
    listed = ElementTree.parse(tmp_path / "org/pytorch/penlight/maven-metadata.xml").getroot()
    assert {v.text for v in listed.iter("version")} == {"1.0", version.replace("\udcff", "?")}


def test_without_a_library(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="add --target android; got host"):
        written([stand_in("host", tmp_path)], tmp_path)
    with pytest.raises(BuildError, match="a library for Java beside each other one; got none for x86$"):
        write_archives([stand_in("android-x86", tmp_path)], [], {}, tmp_path)
    for option in (["--aar"], ["--maven", tmp_path / "maven"]):
        called = Penlight(capsys)("build", "--all", "--target", "linux-arm64", *option, "-o", tmp_path)
        assert (called.code, "add --target android" in called.err) == (2, True)
    called = Penlight(capsys)("build", "--all", "--target", "wasm", "--java", "-o", tmp_path)
    assert (called.code, "for Android and Linux, not for wasm" in called.err) == (2, True)


@pytest.fixture(scope="session")
def classes() -> dict[str, bytes]:
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed (Debian: default-jdk-headless)")
    return java.java_classes()


def test_the_command(
    capsys: pytest.CaptureFixture[str], models: dict[str, Path], library: Any, cache: Path, classes: dict[str, bytes], tmp_path: Path
) -> None:  # fmt: skip
    options = ("--target", "android-arm64", "--cache", cache, "-o", tmp_path, "--jobs", 2, "--no-verify")
    called = Penlight(capsys)("build", "--model", models["planned"], *options, "--aar")
    assert called.code == 0, called.err
    path = next(tmp_path.glob("maven/org/pytorch/penlight/*/*.aar"))
    assert str(path) in called.out.replace("\n", "")
    archive = zipfile.ZipFile(path)
    shipped = archive.read("jni/arm64-v8a/libpenlight.so")
    assert hashlib.sha256(shipped).hexdigest() == library("android-arm64").sha256
    link_with_prefab(path, tmp_path)
    exported, needed = symbols(archive.read("jni/arm64-v8a/libpenlight_jni.so"))
    assert exported == {*native_functions(classes), "JNI_OnLoad"}
    assert needed <= {"libpenlight.so", "libc.so", "libm.so"}
    assert "libpenlight.so" in needed
    assert next((tmp_path / "android-arm64").glob("libpenlight_jni.so.*.sym")).read_bytes()[:4] == b"\x7fELF"

    again = Penlight(capsys)("build", "--model", models["planned"], *options, "--maven", tmp_path / "elsewhere")
    assert again.code == 0, again.err
    same, other = (
        {p.relative_to(f): p.read_bytes() for p in f.rglob("*.*") if p.is_file()}
        for f in (tmp_path / "maven", tmp_path / "elsewhere")
    )
    assert same == other, "the same bytes every time"


@pytest.mark.slow
def test_from_a_wheel(models: dict[str, Path], cache: Path, classes: dict[str, bytes], tmp_path: Path) -> None:
    """The package as a wheel lays it out, on a machine without javac."""
    installed, without = tmp_path / "site", tmp_path / "bin"
    for name, data in {**dict(package_files()), **java_files()}.items():
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_bytes(data)
    for extension in Path(penlight.__file__).parent.glob("_runtime*.so"):
        shutil.copy(extension, installed / "penlight")
    without.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(installed), "PATH": str(without), "JAVA_HOME": ""}
    command = [
        "build",
        "--model",
        models["planned"],
        "--target",
        "android-arm64",
        "--no-verify",
        "--cache",
        cache,
        "-o",
        "dist",
        "--aar",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "penlight", *map(str, command)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    archive = zipfile.ZipFile(next((tmp_path / "dist").rglob("penlight-*.aar")))
    assert classes_in(archive) == sorted(classes)
    assert symbols(archive.read("jni/arm64-v8a/libpenlight_jni.so"))[0] == {*native_functions(classes), "JNI_OnLoad"}


def symbols(library: bytes) -> tuple[set[str], set[str]]:
    """What it exports, and which libraries it needs."""
    elf_tools()
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(library))
    table: Any = elf.get_section_by_name(".dynsym")
    dynamic: Any = elf.get_section_by_name(".dynamic")
    exported = {
        s.name for s in table.iter_symbols() if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["bind"] == "STB_GLOBAL"
    }
    return exported, {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}


def test_the_classes(classes: dict[str, bytes], tmp_path: Path) -> None:
    """Java 8, nothing of Android's in them, and natives as javap reads them; the same bytes from a second javac."""
    assert {read_class(data).version for data in classes.values()} == {JAVA_8}
    assert {name.partition("/")[0] for name in classes} == {"org"}
    assert java.java_classes() == classes
    (tmp_path / "penlight.jar").write_bytes(jar(classes))
    names = [name.removesuffix(".class") for name in classes]
    command = ["javap", "-p", "-cp", str(tmp_path / "penlight.jar"), *names]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    natives = [method for data in classes.values() for method in read_class(data).natives]
    assert len(natives) == len(re.findall(r"^ .*\bnative\b", said, re.MULTILINE)) > 20


# What Android has since API 24 or later, and Java 8 has: a call of it compiles, and fails on older phones.
LATER = r"""java/util/(function|stream|Optional|concurrent/CompletableFuture|Spliterator)|java/time/|java/nio/file/|java/lang/ref/Cleaner
|java/util/(List|ArrayList)\.(sort|replaceAll|spliterator)|java/util/(\w*Map)\.(getOrDefault|forEach|compute\w*|merge|replaceAll)|\.removeIf:|\.stream:
|java/lang/String\.(join|chars)|java/lang/(Integer|Long|Byte|Short)\.(\w*[uU]nsigned\w*|hashCode:\(\w\)|sum|max|min):|java/lang/Float\.(sum|max|min|isFinite):
|java/lang/Iterable\.forEach|java/util/Comparator\.(comparing|reversed|thenComparing)|java/lang/Math\.(\w+Exact|floorMod|floorDiv):""".replace(
    "\n", ""
)


def calls_in(classes: Iterable[str]) -> list[str]:
    """Every method that these classes call, as javap writes it."""
    said = subprocess.run(["javap", "-v", "-p", *classes], capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(r"(?:Interface)?Methodref +\S+ +// +(\S+)", said)))


def test_every_call_is_there_on_the_oldest_android(classes: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "penlight.jar").write_bytes(jar(classes))
    called = calls_in(f"jar:{(tmp_path / 'penlight.jar').as_uri()}!/{name}" for name in classes)
    assert re.search(LATER, "java/util/List.sort:(Ljava/util/Comparator;)V")
    assert any(name.startswith("java/nio/ByteBuffer.allocateDirect:") for name in called)
    assert [name for name in called if re.search(LATER, name)] == []


def test_what_the_library_finds_by_name_is_kept(libraries: list[Library], tmp_path: Path) -> None:
    """ProGuard may rename everything but that."""
    rules = zipfile.ZipFile(written(libraries, tmp_path)).read("proguard.txt").decode()
    sources = "".join(path.read_text() for path in (BINDINGS / "java/jni").glob("*.cc"))
    found = {name.replace("/", ".") for name in re.findall(r'"(org/\w+/\w+)"', sources)}
    assert found == set(re.findall(r"-keep class (\S+) {", rules))
    assert "class org.pytorch.**, org.penlight.** { native <methods>; }" in rules


def test_names_of_native_methods(tmp_path: Path) -> None:
    """As javac itself writes them into a C header."""
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed (Debian: default-jdk-headless)")
    source = tmp_path / "A_b.java"
    source.write_text(
        "package p.q_r; public class A_b { native void f(); native int g_h(long[] a, String s); native int g_h(byte[][] b);"
        " static class In { static native void \u00fcber(Object o); double d = 1e300; long l = 1L << 40; } }"
    )
    subprocess.run(["javac", "-h", tmp_path / "h", "-d", tmp_path / "c", "-encoding", "UTF-8", source], check=True)
    declared = {n for p in (tmp_path / "h").iterdir() for n in re.findall(r"\bJava_\w+", p.read_text())}
    made = {p.name: p.read_bytes() for p in (tmp_path / "c").rglob("*.class")}
    assert native_functions(made) == declared
    assert len(declared) == 4
    with pytest.raises(BuildError, match="x.class: expected a class file of Java, got 9 bytes"):
        native_functions({"x.class": b"\xca\xfe\xba\xbe\0\0\0\x34\0"})


@pytest.mark.parametrize(
    ("sources", "says"),
    [(True, "javac, which compiles .* is not installed. Debian: apt-get install"), (False, "installed where there was no javac")],
)  # fmt: skip
def test_without_javac(sources: bool, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if not sources:
        monkeypatch.setattr(java, "BINDINGS", tmp_path)
    with pytest.raises(BuildError, match=says):
        java.java_classes()
    (tmp_path / "classes.jar").write_bytes(jar(CLASSES))
    monkeypatch.setattr(java, "SHIPPED", tmp_path / "classes.jar")
    assert java.java_classes() == CLASSES, "as in a wheel"


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
