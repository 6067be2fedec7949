"""The pages "from model.pt to an app" are true: their commands run as they stand, their code compiles, and gives torch's numbers."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import penlight
from penlight.build.package.aar import ARCHIVES
from tests.apple import gnustep
from tests.cpp import compilers
from tests.java import desktop
from tests.runtime import native

pytestmark = pytest.mark.slow  # it compiles

ROOT = native.ROOT
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no {language}"
    return found


class Small(torch.nn.Module):
    """As much as the pages say of theirs: a picture in, scores out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 8, 7, 4), torch.nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).relu().mean((2, 3)))


class Page:
    """A folder with model.pt in which a page's commands run, and what torch says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        torch.manual_seed(0)
        self.module = Small().eval()
        torch.jit.script(self.module).save(str(folder / "model.pt"))
        penlight.optimize(self.module, (torch.rand(1, 3, 224, 224),)).save(folder / "model.pen")
        command = folder / "bin/penlight"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m penlight "$@"\n')
        command.chmod(0o755)

    def __call__(self, command: str) -> str:
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {"PENLIGHT_CACHE": str(ROOT / "build/libraries"), "PYTHONPATH": str(ROOT), "PATH": path}
        done = subprocess.run(
            ["sh", "-ec", command], cwd=self.folder, env={**os.environ, **kept}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def scores(self, image: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        with torch.inference_mode():
            return self.module(torch.from_numpy(np.ascontiguousarray(image, np.float32)))[0].numpy()  # type: ignore[no-any-return]


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(tmp_path)


def close(printed: str, expected: np.ndarray) -> None:  # type: ignore[type-arg]
    np.testing.assert_allclose([float(word) for word in printed.split()], expected, rtol=1e-4, atol=1e-5)


# --- Android ---
def test_android_java(page: Page) -> None:
    desktop.needs_java()
    (block,) = blocks("ANDROID.md", "java")
    random = np.random.default_rng(0).integers(0, 256, (224, 224, 3))
    numbers = (random.astype(np.int64) * [65536, 256, 1]).sum(-1) | 0xFF000000
    numbers.astype(">u4").tofile(page.folder / "pixels")
    padding = bytes(4096)  # as the stand-in for an AssetManager has it
    (page.folder / "model.pen").write_bytes(padding + (page.folder / "model.pen").read_bytes() + padding)
    source = page.folder / "App.java"
    source.write_text(
        f"""import android.content.res.AssetManager; import android.graphics.Bitmap; import java.io.*; import java.nio.*; import java.nio.file.*;
import org.pytorch.*; import org.pytorch.Module; import org.pytorch.torchvision.TensorImageUtils;
public class App {{
  static AssetManager getAssets() {{ return new AssetManager(new File("{page.folder}")); }}
  public static void main(String[] arguments) throws IOException {{
    int[] pixels = new int[224 * 224];
    ByteBuffer.wrap(Files.readAllBytes(Paths.get("{page.folder}/pixels"))).asIntBuffer().get(pixels);
    Bitmap bitmap = new Bitmap(pixels, 224);
    {block}
    for (float score : scores) System.out.println(score);
  }}
}}
"""
    )
    classes = os.pathsep.join(map(str, desktop.classes()[:2]))
    desktop.run_tool(["javac", "-cp", classes, "-d", page.folder, source])
    library = f"-Djava.library.path={desktop.library()}"
    said = desktop.run_tool(["java", library, "-cp", f"{classes}{os.pathsep}{page.folder}", "App"])
    close(said, page.scores(((random / 255 - MEAN) / STD).transpose(2, 0, 1)[None]))


def test_android_gradle() -> None:
    """Each line is one of an app's that is compiled here, and each archive one that is written."""
    (block,) = blocks("ANDROID.md", "kotlin")
    home = ROOT / "examples/android/HelloWorld"
    known = "".join((home / name).read_text() for name in ("settings.gradle.kts", "app/build.gradle.kts"))
    known = "".join(re.sub(r"//.*", "", known).split())
    for line in re.sub(r"//.*", "", block).strip().splitlines():
        words = "".join(line.split())
        inner = re.fullmatch(r"(?:repositories|androidResources)\{(.*)\}", words)
        assert (inner[1] if inner else words) in known, line
    named = re.findall(r'"org.pytorch:(\w+):(.*?)"', block)
    assert {name for name, _ in named} < set(ARCHIVES)
    assert {version for _, version in named} == {penlight.__version__}
    assert f"`org.pytorch:penlight:{penlight.__version__}`" in (ROOT / "docs/ANDROID.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_android_commands(page: Page) -> None:
    desktop.needs_java()
    pytest.importorskip("ziglang")
    (page.folder / "app/src/main/assets").mkdir(parents=True)
    (block,) = blocks("ANDROID.md", "sh")
    page(block)
    archives = {
        path.parent.parent.name for path in (page.folder / "maven/org/pytorch").glob(f"*/{penlight.__version__}/*.aar")
    }
    assert set(ARCHIVES) == archives


# --- iOS ---
@pytest.mark.slow
def test_ios_commands(page: Page) -> None:
    pytest.importorskip("ziglang")
    (block,) = blocks("IOS.md", "sh")
    page(block)
    for name in ("Penlight.xcframework/Info.plist", "Package.swift", "Penlight.podspec", "LibTorch-Lite.podspec", "cpp/penlight.hpp", "torch/torch/script.h"):  # fmt: skip
        assert (page.folder / "penlight" / name).is_file(), name


def test_ios_objective_c(page: Page, tmp_path: Path) -> None:
    (block,) = blocks("IOS.md", "objc")
    head, code = block.split("\n\n", 1)
    assert head == "#import <PenlightObjC/PenlightObjC.h>"
    source = tmp_path / "app.mm"
    source.write_text(
        f"""#import "PenlightObjC.h"
#include <vector>
int main(int, char** argv) {{
  @autoreleasepool {{
    NSString* path = [NSString stringWithUTF8String:argv[1]];
    std::vector<float> memory(3 * 224 * 224, 0.25f);
    float* pixels = memory.data();
    NSError* error = nil;
    {code}
    for (NSNumber* score in scores.numbers) printf("%.7g\\n", score.doubleValue);
  }}
}}
"""
    )
    program = gnustep.program([source], tmp_path / "app")
    done = subprocess.run([program, page.folder / "model.pen"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    close(done.stdout, page.scores(np.full((1, 3, 224, 224), 0.25)))


def test_ios_swift_parses_and_calls_what_is_there() -> None:
    swift = pytest.importorskip(
        "tree_sitter_swift", reason="pip install tree-sitter tree-sitter-swift: they parse Swift"
    )
    import tree_sitter

    (block,) = blocks("IOS.md", "swift")
    parser = tree_sitter.Parser(tree_sitter.Language(swift.language()))
    assert not parser.parse(block.encode()).root_node.has_error
    kit = (ROOT / "bindings/apple/PenlightKit/Penlight.swift").read_text(encoding="utf-8")
    for line in block.strip().splitlines()[2:]:
        begin = line.split("=", 1)[1].split("(")[0]
        assert begin in kit, line
        for label in re.findall(r"\b(contentsOf|shape):", line):
            assert re.search(rf"init\([^)]*\b{label}", kit)


# --- C++ ---
@pytest.mark.parametrize("compiler", compilers.COMPILERS)
def test_cpp(compiler: str, page: Page, tmp_path: Path) -> None:
    """Both programs, without CMake."""
    own, torch_names = blocks("CPP.md", "cpp")
    for name, text in (("own", own), ("torch", torch_names)):
        (tmp_path / f"{name}.cc").write_text(text)
    program = compilers.program(compiler, tmp_path / "own.cc", tmp_path / "own", ["-fno-exceptions", "-fno-rtti"])
    close(page(f"{program} model.pen"), page.scores(np.full((1, 3, 224, 224), 0.5)))
    said = page(f"{compilers.program(compiler, tmp_path / 'torch.cc', tmp_path / 'torch')} model.pen")
    close(said.rpartition(" ")[2], page.scores(np.ones((1, 3, 224, 224)))[:1])
    assert said.startswith("10 scores, the first ")


@pytest.mark.slow
def test_cpp_commands(page: Page) -> None:
    (build,) = blocks("CPP.md", "cmake")
    begin = "cmake_minimum_required(VERSION 3.18)\nproject(app LANGUAGES CXX)\n"
    library = native.build("plain") / "libpenlight.a"
    (page.folder / "CMakeLists.txt").write_text(
        f"{begin}set(PENLIGHT_LIBRARY {library} CACHE FILEPATH {chr(34)}{chr(34)})\n{build}"
    )
    (page.folder / "app.cc").write_text(blocks("CPP.md", "cpp")[0])
    (commands,) = blocks("CPP.md", "sh")
    scores = "\n".join(line for line in page(commands).splitlines() if re.fullmatch(r"-?\d+\.\d{6}", line))
    close(scores, page.scores(np.full((1, 3, 224, 224), 0.5)))
