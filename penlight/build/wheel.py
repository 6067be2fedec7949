"""Makes wheels of this package, `./dev wheel`: a checkout in; a wheel a platform and Python out, checked (wheel_checks.py), and an sdist.

zig compiles all of it on any machine. The runtime is the one of `penlight build --all`, as the library for programs in C and, linked in
once more, in the extension: a process that has another libpenlight.so loaded would give that to an extension that asked for one by name.
From 3.12 on Python has a stable ABI that nanobind can do with: one wheel serves all later versions, and the headers of any system do.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from platform import machine
from tempfile import TemporaryDirectory

from penlight.build.generate import BINDINGS, ROOT
from penlight.build.java import java_classes
from penlight.build.library import Library, build_library, run_tool
from penlight.build.package.zip_file import jar
from penlight.build.selection import EVERYTHING
from penlight.build.shaders import all_spirv
from penlight.build.targets import MACOS_VERSION, TARGETS
from penlight.build.toolchain import find_zig
from penlight.build.wheel_checks import GLIBC, STABLE, check_sdist, check_wheel
from penlight.build.wheel_windows import PYCONFIG, python_library
from penlight.errors import BuildError

TREE = ROOT.parent
_GOLDEN = TREE / "tests/file/golden"
_FLAGS = ("-std=c++17", "-Os", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-fno-stack-protector", "-ffunction-sections",
          "-fdata-sections", "-DNDEBUG", "-DNB_COMPACT_ASSERTIONS", "-Wno-macro-redefined",
          "-include", "stdio.h")  # which nanobind uses, and the stable ABI's Python.h does not bring  # fmt: skip
_ELF_LINK = ("-Wl,--gc-sections", "-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,noexecstack", "-s", "-lpthread", "-ldl", "-lm")
_MACHO_LINK = (
    "-Wl,-undefined,dynamic_lookup",
    "-Wl,-dead_strip",
    "-Wl,-s",
)  # Python's functions are in the program that loads it


@dataclass(frozen=True)
class Platform:
    triple: str  # as zig calls it, with the oldest system
    tag: str  # as wheels call it
    suffix: str  # of an extension for one version of Python: .cpython-311-<suffix>.so; "": none but the stable ABI's
    link: tuple[str, ...]


def _linux(processor: str) -> Platform:
    glibc = ".".join(map(str, GLIBC))
    tag = f"manylinux_{glibc.replace('.', '_')}_{processor}"
    return Platform(f"{processor}-linux-gnu.{glibc}", tag, f"{processor}-linux-gnu", _ELF_LINK)


def _macos(processor: str, name: str) -> Platform:
    return Platform(
        f"{processor}-macos.{MACOS_VERSION}", f"macosx_{MACOS_VERSION.replace('.', '_')}_{name}", "", _MACHO_LINK
    )


PLATFORMS = {  # by target (targets.py)
    "linux-x86_64": _linux("x86_64"),
    "linux-arm64": _linux("aarch64"),
    "macos-arm64": _macos("aarch64", "arm64"),
    "macos-x86_64": _macos("x86_64", "x86_64"),
    "windows-x86_64": Platform("x86_64-windows-gnu", "win_amd64", "", ("-s", "-Wl,--gc-sections")),
}


@dataclass(frozen=True)
class Python:
    """Whose headers the extension is compiled with."""

    version: tuple[int, int]
    headers: Path
    config: Path  # pyconfig.h, which Debian keeps elsewhere, behind a switch by processor

    @property
    def stable(self) -> bool:
        return self.version >= STABLE

    def tags(self, platform: Platform) -> str:
        name = "cp{}{}".format(*(STABLE if self.stable else self.version))
        return f"{name}-{'abi3' if self.stable else name}-{platform.tag}"

    def extension(self, platform: Platform) -> str:
        if self.stable:
            return "_runtime.pyd" if platform.tag.startswith("win") else "_runtime.abi3.so"
        return "_runtime.cpython-{}{}-{}.so".format(*self.version, platform.suffix)


def find_python(program: str) -> Python | None:
    """None where there is no such program, where it is none for us (free-threaded, PyPy, too old), or where it has no headers."""
    ask = ("import sys, sysconfig as s; print(*sys.version_info[:2], sys.implementation.name, s.get_config_var('Py_GIL_DISABLED') or 0);"
           "print(s.get_path('include')); print(s.get_config_h_filename())")  # fmt: skip
    if not shutil.which(program):
        return None
    done = subprocess.run([program, "-c", ask], capture_output=True, text=True)
    if done.returncode:  # a shim of pyenv, for a version that is not chosen
        return None
    first, headers, config = done.stdout.splitlines()
    major, minor, kind, free = first.split()
    fit = kind == "cpython" and free == "0" and (int(major), int(minor)) >= (3, 10)
    if not fit or not (Path(headers) / "Python.h").exists() or not Path(config).exists():
        return None
    return Python((int(major), int(minor)), Path(headers), Path(config))


def find_pythons(programs: Sequence[str]) -> list[Python]:
    """Of those, one for each wheel: each version below the stable ABI, and the oldest that has it."""
    found = {p.version: p for p in map(find_python, programs) if p}
    stable = sorted(v for v in found if v >= STABLE)[:1]
    return [found[v] for v in [*sorted(v for v in found if v < STABLE), *stable]]


# --- the extension ---
def build_extension(platform: Platform, python: Python, library: Library, out: Path) -> Path:
    """The Python extension, with the objects that `library` was linked from."""
    import nanobind

    home, bindings = Path(nanobind.include_dir()).parent, TREE / "bindings/python"
    zig = [str(find_zig()), "c++", "-target", platform.triple]
    headers = out / "headers"
    shutil.copytree(python.headers, headers)
    windows = library.target.system == "windows"
    if windows:
        (headers / "pyconfig.h").write_text(PYCONFIG)
    else:
        shutil.copy(python.config, headers / "pyconfig.h")
    limited = [f"-DPy_LIMITED_API=0x{STABLE[0]:02X}{STABLE[1]:02X}0000"] if python.stable else []
    folders = (headers, home / "include", home / "ext/robin_map/include", ROOT / "runtime/include")
    flags = [*_FLAGS, *limited, *(f"-I{f}" for f in folders)]
    objects = []
    devices = library.selection.backends != ("cpu",)  # a library for the CPU alone lacks what bindings call for others
    own = [p for p in sorted(bindings.glob("*.cc")) if not (devices and p.stem == "without_devices")]
    for source in (home / "src/nb_combined.cpp", *own):
        objects.append(out / f"{source.stem}.o")
        run_tool([*zig, *flags, "-c", str(source), "-o", str(objects[-1])])
    listed, exports = out / "objects.txt", out / "exports.map"
    linked = [*objects, *library.objects, *([python_library(out)] if windows else [])]
    listed.write_text("".join(f'"{p.as_posix()}"\n' for p in linked))
    exports.write_text("{ global: PyInit__runtime; local: *; };\n")
    only = [f"-Wl,--version-script={exports}"] if library.target.elf else []
    made = out / python.extension(platform)
    run_tool([*zig, "-shared", *platform.link, *only, "-o", str(made), f"@{listed}"])
    return made


# --- the wheel ---
def write_wheel(tags: str, files: Mapping[str, bytes], metadata: Mapping[str, bytes], version: str, out: Path) -> Path:
    """A wheel of these files (and of those of its dist-info), the same bytes each time."""
    info = f"penlight-{version}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: penlight\nRoot-Is-Purelib: false\nTag: {tags}\n"
    whole = {**files, **{f"{info}/{name}": data for name, data in metadata.items()}, f"{info}/WHEEL": wheel.encode()}
    record = "".join(f"{name},{digest(data)},{len(data)}\n" for name, data in whole.items())
    whole[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = out / f"penlight-{version}-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in whole.items():
            entry = zipfile.ZipInfo(name)  # of 1980: no clock in it
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, data)
    return path


def digest(data: bytes) -> str:
    """As RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def package_files() -> Iterator[tuple[str, bytes]]:
    """The package as it is in git, new files too; nothing that was built in place."""
    yield from _files("penlight")


def binding_files() -> Iterator[tuple[str, bytes]]:
    """Headers and sources for apps in C++, Objective-C and Swift, where a wheel has them."""
    for name, data in _files("bindings/cpp", "bindings/apple"):
        yield f"penlight/{name}", data


def _files(*folders: str) -> Iterator[tuple[str, bytes]]:
    command = ["git", "ls-files", "-co", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=True)
    for name in sorted(listed.stdout.splitlines()):
        if (TREE / name).is_file():
            yield name, (TREE / name).read_bytes()


def java_files() -> dict[str, bytes]:
    """What Android archives are made of besides the runtime: Java classes, compiled, and the sources of the library that they load."""
    sources = {
        f"penlight/bindings/java/jni/{p.name}": p.read_bytes() for p in sorted((BINDINGS / "java/jni").iterdir())
    }
    return {"penlight/bindings/java/classes.jar": jar(java_classes()), **sources}


def _backend(call: str) -> str:
    """What scikit-build-core, which pyproject.toml names, says."""
    command = [sys.executable, "-c", f"import scikit_build_core.build as b; print('made', b.{call})"]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"scikit-build-core does not do {call}:\n{done.stdout}{done.stderr}")
    return done.stdout.split("made ")[-1].strip()


def package_metadata() -> tuple[str, dict[str, bytes]]:
    """The version, and the files of dist-info but WHEEL and RECORD: the same that `pip install .` writes."""
    with TemporaryDirectory() as folder:
        info = Path(folder) / _backend(f"prepare_metadata_for_build_wheel({folder!r})")
        files = {p.relative_to(info).as_posix(): p.read_bytes() for p in sorted(info.rglob("*")) if p.is_file()}
    del files["WHEEL"]
    files.pop("RECORD", None)
    return info.name.removesuffix(".dist-info").split("-")[1], files


def build_wheels(
    names: Sequence[str], pythons: Sequence[Python], out: Path, jobs: int
) -> Iterator[tuple[Path, Library]]:
    """Checked ones, each with the library in it."""
    version, metadata = package_metadata()
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        platform = PLATFORMS[name]
        # Vulkan where its loader is known (runtime/vulkan/loader.cc); its shaders are in every wheel, for libraries for phones.
        backends = ("cpu", "vulkan") if TARGETS[name].system == "linux" else ("cpu",)
        held = replace(EVERYTHING, backends=backends)
        library = build_library(TARGETS[name], held, TREE / "build/wheel", jobs=jobs, traced=True)
        for python in pythons:
            if not python.stable and not platform.suffix:
                continue  # other ABIs than the stable one take what that system's own headers say
            with TemporaryDirectory() as folder:
                extension = build_extension(platform, python, library, Path(folder))
                files = {**dict(package_files()), **dict(binding_files())}
                files[f"penlight/{extension.name}"] = extension.read_bytes()
            files |= java_files()
            files |= {f"penlight/spirv/{name}": made for name, made in all_spirv(TREE / "build/wheel/shaders").items()}
            for path in (library.path, library.path.with_suffix(".lib")):
                if path.exists():  # Windows has a second file to link with
                    files[f"penlight/lib/{path.name}"] = path.read_bytes()
            made = write_wheel(python.tags(platform), files, metadata, version, out)
            check_wheel(made)
            yield made, library


# --- try them ---
_TRY = """
import ctypes, sys, numpy, penlight
from pathlib import Path
golden, home = Path(sys.argv[1]), Path(penlight.__file__).parent
assert home.is_relative_to(sys.prefix), home
given = numpy.load(golden / "v1.npz")
scores = penlight.load(golden / "v1.pen", verify=True)(given["image0"], given["name0"])["scores"]
numpy.testing.assert_allclose(scores, given["scores0"], rtol=1e-5, atol=1e-6)
loaded = penlight.load(golden / "v2.pen", verify=True)
(bundle,) = loaded.bundled_inputs("forward")
loaded(*bundle.args)
library = ctypes.CDLL(str(home / "lib/libpenlight.so"))
library.pen_version.restype = ctypes.c_char_p
assert library.pen_version().decode() == penlight.__version__
print("Python %d.%d" % sys.version_info[:2])
"""


def try_wheel(wheel: Path, program: str) -> str:
    """Installs it into an empty environment of this Python and runs models from tests/file/golden, a planned and an interpreted one."""
    with TemporaryDirectory() as folder:
        python = f"{folder}/empty/bin/python"
        _run([program, "-m", "venv", "empty"], folder)
        _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel.resolve())], folder)
        return _run([python, "-c", _TRY, str(_GOLDEN)], folder)


def try_emulated(wheel: Path, root: Path, processor: str) -> str:
    """The same with the Python in a folder of another processor's Debian, under qemu; "" where it has none that the wheel is for."""
    fit = [p for p in sorted(root.resolve().glob("usr/bin/python3.[0-9]*")) if _serves(wheel, (3, int(p.name[8:])))]
    emulator = shutil.which(f"qemu-{processor}-static")
    if not fit or not emulator:
        return ""
    with TemporaryDirectory(dir=root / "usr") as folder:
        place = ["--target", "site", "--python-version", fit[0].name[6:], "--only-binary", ":all:"]
        place += [
            word for minor in range(17, GLIBC[1] + 1) for word in ("--platform", f"manylinux_2_{minor}_{processor}")
        ]
        _run(
            [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *place, str(wheel.resolve())],
            folder,
        )
        found = {"PYTHONHOME": str(root.resolve() / "usr"), "PYTHONPATH": str(Path(folder).resolve() / "site")}
        return _run([emulator, "-L", str(root.resolve()), str(fit[0]), "-c", _TRY, str(_GOLDEN)], folder, found)


def _run(command: Sequence[str], folder: str, more: Mapping[str, str] | None = None) -> str:
    environment = {**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, **(more or {})}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def _serves(wheel: Path, version: tuple[int, int]) -> bool:
    made_for = (3, int(wheel.stem.split("-")[2].removeprefix("cp3")))
    return version == made_for or version > made_for == STABLE


def _tried(wheel: Path, library: Library, programs: Sequence[str], root: Path | None) -> str:
    """How it ran, in words; another processor's under an emulator, and its library alone where no Python for it is here."""
    target = library.target
    if (sys.platform, target.system, target.processor) == ("linux", "linux", machine()):
        found = {p.version: program for program in programs if (p := find_python(program))}
        fit = [program for version, program in sorted(found.items()) if _serves(wheel, version)]
        return "installed and run with " + ", ".join(try_wheel(wheel, program) for program in fit)
    if root and target.system == "linux" and (ran := try_emulated(wheel, root, target.processor)):
        return f"run under qemu-{target.processor} with {ran}"
    from penlight.build.verify import verify

    results = [verify(library, _GOLDEN / name) for name in ("v1.pen", "v2.pen")]
    return "its library: " + "; ".join(dict.fromkeys(v.text for v in results))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev wheel", description="Wheels of Penlight, checked, and an sdist.")
    parser.add_argument("--platform", nargs="*", choices=PLATFORMS, default=list(PLATFORMS))
    parser.add_argument("--python", nargs="*", default=[f"python3.{minor}" for minor in range(10, 20)], metavar="PROGRAM",
                        help="interpreters that have headers: whose wheels to make, and who tries them")  # fmt: skip
    parser.add_argument(
        "--emulated", type=Path, metavar="FOLDER", help="an arm64 Debian with Python, to try wheels under qemu"
    )
    parser.add_argument("--out", type=Path, default=TREE / "dist")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    given = parser.parse_args(arguments)
    pythons = find_pythons(given.python)
    if not any(p.stable for p in pythons):
        print("no Python 3.12 or later with headers is here: no wheel for those (--python names one)", file=sys.stderr)
    for wheel, library in build_wheels(given.platform, pythons, given.out, given.jobs):
        print(
            f"{wheel.name}  {wheel.stat().st_size / 1e6:.1f} MB; {_tried(wheel, library, given.python, given.emulated)}",
            flush=True,
        )
    sdist = given.out / _backend(f"build_sdist({str(given.out.resolve())!r})")
    check_sdist(sdist, dict(package_files()))
    print(f"{sdist.name}  {sdist.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
