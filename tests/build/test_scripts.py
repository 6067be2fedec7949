"""The commands of PyTorch's documents, as they stand there, in a checkout: what they ask `penlight build` for, and where things lie then.

`--all` takes minutes: the checkout's Python notes it, and builds for a small model in its place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penlight.build.model_selection import selection_of_models
from tests.build.test_aar import classes_in
from tests.build.test_xcframework import ARM64, IOS, SIMULATOR, X86_64, members, parts, platform_of

pytestmark = pytest.mark.slow  # it compiles

ROOT = Path(__file__).resolve().parents[2]
AAR = "android/pytorch_android/build/outputs/aar/pytorch_android-release.aar"
VISION = "android/pytorch_android_torchvision/build/outputs/aar/pytorch_android_torchvision-release.aar"
PYTHON = """#!/bin/sh
case "$*" in *"penlight build"*) echo "$*" >>'{checkout}/calls' ;; esac
for word; do
  shift
  case "$word" in --all) set -- "$@" --model '{model}' --no-verify --jobs 2 ;; *) set -- "$@" "$word" ;; esac
done
exec '{python}' "$@"
"""


class Checkout:
    def __init__(self, folder: Path, model: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        folder.mkdir()
        (folder / "penlight").symlink_to(ROOT / "penlight")
        shutil.copytree(ROOT / "scripts", folder / "scripts")
        python = folder / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(PYTHON.format(checkout=folder, model=model, python=sys.executable))
        python.chmod(0o755)

    def __call__(self, command: str, code: int = 0) -> str:
        """Runs a line as it stands in a document; says what it printed."""
        hidden = ("ANDROID_", "IOS_", "USE_", "BUILD_", "SELECTED_", "TRACING_", "MAX_JOBS", "PYTHONPATH")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        environment["PENLIGHT_CACHE"] = str(self.cache)
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout

    @property
    def calls(self) -> str:
        path = self.folder / "calls"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def checkout(tmp_path: Path, models: dict[str, Path], cache: Path) -> Checkout:
    return Checkout(tmp_path / "a check out", models["planned"], cache)


@pytest.fixture
def yaml(tmp_path: Path, models: dict[str, Path]) -> Path:
    """What `penlight trace` writes for the small model, less what only PyTorch reads."""
    pytest.importorskip("yaml")
    keys = selection_of_models([models["planned"]]).keys
    assert keys
    path = tmp_path / "deeplabv3_scripted.yaml"
    path.write_text("kernel_metadata:\n" + "".join(f"  penlight::kernel::{key}: []\n" for key in sorted(keys)))
    return path


def abis_in(path: Path) -> list[str]:
    return sorted({name.split("/")[1] for name in zipfile.ZipFile(path).namelist() if name.startswith("jni/")})


def test_an_aar_for_all_abis(checkout: Checkout) -> None:
    said = checkout("BUILD_LITE_INTERPRETER=1 ./scripts/build_pytorch_android.sh")
    assert "BUILD SUCCESSFUL" in said
    assert AAR in said
    assert VISION in said
    assert abis_in(checkout.folder / AAR) == ["arm64-v8a", "armeabi-v7a", "x86", "x86_64"]
    held = {path: classes_in(zipfile.ZipFile(checkout.folder / path)) for path in (AAR, VISION)}
    assert "org/pytorch/LiteModuleLoader.class" in held[AAR]
    assert "org/pytorch/torchvision/TensorImageUtils.class" in held[VISION]
    assert not set(held[AAR]) & set(held[VISION]), "an app that names both has each class once"
    assert "build --all" in checkout.calls


@pytest.mark.parametrize("shell", ["", "sh "])
def test_an_aar_for_one_abi(checkout: Checkout, shell: str) -> None:
    checkout(f"BUILD_LITE_INTERPRETER=1 {shell}./scripts/build_pytorch_android.sh x86")
    checkout(f"{shell}./scripts/build_pytorch_android.sh x86,x86_64")
    assert abis_in(checkout.folder / AAR) == ["x86", "x86_64"], "the last one"
    assert checkout.calls.splitlines()[0].split()[2:7] == ["build", "--all", "--target", "android-x86", "--aar"]


def test_an_aar_with_what_was_traced(checkout: Checkout, yaml: Path) -> None:
    checkout(f"SELECTED_OP_LIST={yaml} TRACING_BASED=1 ./scripts/build_pytorch_android.sh x86")
    assert abis_in(checkout.folder / AAR) == ["x86"]
    assert f"--ops {yaml}" in checkout.calls
    assert "--all" not in checkout.calls


@pytest.mark.parametrize("abi", ["arm64-v8a", "armeabi-v7a with NEON"])
def test_a_library_for_android(checkout: Checkout, abi: str) -> None:
    said = checkout(f"ANDROID_ABI='{abi}' sh ./scripts/build_android.sh -DBUILD_CAFFE2_MOBILE=OFF")
    assert "-DBUILD_CAFFE2_MOBILE=OFF says nothing" in said
    installed = checkout.folder / "build_android/install"
    machine = (installed / "lib/libpenlight.so").read_bytes()[18]
    assert machine == (183 if abi == "arm64-v8a" else 40), "as ELF numbers processors"
    assert (installed / "include/penlight.h").exists()
    assert not (checkout.folder / "build_android/bin").exists()


@pytest.mark.parametrize(
    ("command", "library"),
    [
        (
            "ANDROID_ABI=arm64-v8a USE_VULKAN=1 sh ./scripts/build_android.sh",
            "build_android/install/lib/libpenlight.so",
        ),
        ("USE_VULKAN=1 sh ./scripts/build_pytorch_android.sh x86", AAR),
    ],
)
def test_a_library_with_vulkan(checkout: Checkout, command: str, library: str) -> None:
    if shutil.which("glslc") is None:
        pytest.skip("glslc is not installed (Debian: glslc)")
    checkout(command)
    made = checkout.folder / library
    content = zipfile.ZipFile(made).read("jni/x86/libpenlight.so") if library == AAR else made.read_bytes()
    assert b"vkGetInstanceProcAddr" in content
    assert "--backends cpu,vulkan" in checkout.calls


@pytest.mark.slow
def test_the_benchmark_program(checkout: Checkout) -> None:
    command = "rm -rf build_android; BUILD_PYTORCH_MOBILE=1 ANDROID_ABI=arm64-v8a ./scripts/build_android.sh -DBUILD_BINARY=ON"
    checkout(command)
    program = checkout.folder / "build_android/bin/speed_benchmark_torch"
    assert program.read_bytes()[:20][18] == 183
    assert os.access(program, os.X_OK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "processors", "platform"),
    [
        ("BUILD_PYTORCH_MOBILE=1 IOS_ARCH=arm64 USE_PYTORCH_METAL=1", [ARM64], IOS),
        ("IOS_PLATFORM=SIMULATOR", [ARM64, X86_64], SIMULATOR),
        ("IOS_PLATFORM=SIMULATOR IOS_ARCH=x86_64 BUILD_ROOT=elsewhere", [X86_64], SIMULATOR),
    ],
)
def test_a_library_for_ios(
    checkout: Checkout, variables: str, processors: list[tuple[int, int]], platform: int
) -> None:
    said = checkout(f"{variables} ./scripts/build_ios.sh")
    assert ("there is no Metal yet" in said) == ("METAL" in variables)
    installed = checkout.folder / ("elsewhere" if "elsewhere" in variables else "build_ios") / "install"
    made = (installed / "lib/libpenlight.a").read_bytes()
    archives = parts(made) if len(processors) > 1 else {processors[0]: made}
    assert list(archives) == processors
    for archive in archives.values():
        assert {platform_of(o)[0] for n, o in members(archive) if not n.startswith("__.SYMDEF")} == {platform}
    assert [p.name for p in (installed / "lib").iterdir()] == ["libpenlight.a"], "the documents add all that is in it"
    for name in ("penlight.h", "penlight_spec.hpp", "penlight_library.h", "penlight.hpp", "torch/script.h"):
        assert (installed / "include" / name).exists(), name


@pytest.mark.slow
def test_a_library_for_ios_with_what_was_traced(checkout: Checkout, yaml: Path) -> None:
    checkout(f"SELECTED_OP_LIST={yaml} TRACING_BASED=1 IOS_PLATFORM=SIMULATOR ./scripts/build_ios.sh")
    assert set(parts((checkout.folder / "build_ios/install/lib/libpenlight.a").read_bytes())) == {ARM64, X86_64}
    assert "--all" not in checkout.calls


APP = """#include <torch/script.h>
int main(int, char** argv) { return torch::jit::load(argv[1]).get_methods().size() == 1 ? 0 : 1; }
"""


def test_a_library_for_this_machine(checkout: Checkout, models: dict[str, Path]) -> None:
    """Programs for PyTorch Mobile find headers and library where they looked for them."""
    checkout("./scripts/build_mobile.sh")
    installed = checkout.folder / "build_mobile/install"
    assert [p.stem for p in (installed / "lib").iterdir()] == ["libpenlight"]
    (checkout.folder / "app.cc").write_text(APP)
    checkout(
        f"g++ -std=c++17 app.cc -I'{installed}/include' -L'{installed}/lib' -lpenlight -Wl,-rpath,'{installed}/lib' -o app"
    )
    checkout(f"./app {models['planned']}")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("./scripts/build_pytorch_android.sh mips", "expected an ABI of Android (arm64-v8a, armeabi-v7a, x86, x86_64), got 'mips'"),
        ("./scripts/build_pytorch_android.sh x86 x86_64", "ABIs with commas between them"),
        ("ANDROID_ABI=mips ./scripts/build_android.sh", "got 'mips'"),
        ("./scripts/build_android.sh arm64-v8a", "such as -DBUILD_BINARY=ON, got 'arm64-v8a'"),
        ("IOS_ARCH=armv7 ./scripts/build_ios.sh", "IOS_ARCH: expected arm64 (or x86_64, for simulators), got 'armv7'"),
        ("IOS_PLATFORM=WATCHOS ./scripts/build_ios.sh", "IOS_PLATFORM: expected OS or SIMULATOR, got 'WATCHOS'"),
        ("SELECTED_OP_LIST=none.yaml ./scripts/build_mobile.sh", "SELECTED_OP_LIST=none.yaml: there is no such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_built(checkout: Checkout, command: str, says: str) -> None:
    assert says in " ".join(checkout(command, code=1).split())
    assert not [p.name for p in checkout.folder.iterdir() if p.name.startswith(("android", "build_"))], (
        "nothing is written"
    )
