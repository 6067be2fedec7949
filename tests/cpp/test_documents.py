"""The documents' C++, compiled as it stands inside a small program, gives torch's numbers: on Vulkan, and where they say .metal() in words or,
if the program asks for that, on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import penlight
from tests import vulkan_drivers
from tests.compat import extract
from tests.cpp import compilers

pytestmark = pytest.mark.slow  # it compiles

METAL, VULKAN, LITE = (
    next(extract.FOLDER.glob(f"{number}_*.0.{kind}.txt")).read_text(encoding="utf-8")
    for number, kind in (("000", "mm"), ("001", "cc"), ("002", "mm"))
)
ON_CPU = "-DPENLIGHT_METAL_RUNS_ON_CPU"


class Small(torch.nn.Module):
    """As many scores as the app of the documents has, of a picture as large."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 8, 7, 4), torch.nn.Linear(8, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).relu().mean((2, 3)))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A folder with the app's model and picture, and the scores that torch gives."""
    folder = tmp_path_factory.mktemp("app")
    torch.manual_seed(0)
    module, image = Small().eval(), torch.rand(1, 3, 224, 224)
    penlight.optimize(module, (image,)).save(folder / "model.pt")
    image.numpy().tofile(folder / "image.bin")
    return folder, module(image).detach().numpy()[0]


def split(block: str) -> tuple[str, str]:
    """What stands before the method of an Objective-C++ block, and the method; without the dots for code that is left out around them."""
    head, method = re.split(r"^(?=- \()", block, flags=re.M)
    return re.sub(r"^\.\.\.$", "", head, flags=re.M), re.sub(r"^\.\.\.$", "", method, flags=re.M)


def run(program: Path, folder: Path, *arguments: str, expect: int = 0) -> str:
    environment = {**os.environ, **vulkan_drivers.ENVIRONMENT}
    done = subprocess.run(
        [program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == expect, done.stderr[-3000:]
    return done.stdout if expect == 0 else done.stderr


PROGRAM = """
%(head)s
#include <fstream>
struct App {
  torch::jit::mobile::Module _impl;
  std::vector<float> predictImage(void* imageBuffer) %(body)s
};
int main() {
  std::vector<float> image(3 * 224 * 224);
  std::ifstream("image.bin", std::ios::binary).read(reinterpret_cast<char*>(image.data()), 4 * image.size());
  App app{torch::jit::_load_for_mobile("model.pt")};
  %(begin)s
  for (float score : app.predictImage(image.data())) printf("%%.9g\\n", score);
  %(end)s
}
"""
REST = (
    "float* scores = outputTensor.data_ptr<float>(); return std::vector<float>(scores, scores + outputTensor.numel());"
)
CATCH = "} catch (const std::exception& e) { puts(e.what()); }"


def predict(block: str, compiler: str, folder: Path, flags: Sequence[str] = ()) -> Path:
    head, method = split(block)
    body = method[method.index("{") :].replace("\n  ...\n", f"\n  {REST}\n")
    words = ("try {", CATCH) if "-fno-exceptions" not in flags else ("", "")
    source = folder / "predict.cc"
    source.write_text(PROGRAM % {"head": head, "body": body, "begin": words[0], "end": words[1]})
    return compilers.program(compiler, source, folder / "predict", [*flags, "-Wno-deprecated"])  # of #import, in g++


@pytest.mark.parametrize("compiler", compilers.COMPILERS)
@pytest.mark.parametrize("block", [METAL, LITE], ids=["metal", "lite"])
def test_predict_image(block: str, compiler: str, app: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    folder, expected = app
    scores = run(predict(block, compiler, tmp_path, [ON_CPU, "-fno-rtti"]), folder).split()
    np.testing.assert_allclose(np.array(scores, float), expected, rtol=1e-4, atol=1e-5)
    assert run(predict(block, compiler, tmp_path), folder).startswith(
        "Metal: this version of Penlight has no Metal backend"
    )


def test_metal_without_exceptions_ends_with_words(app: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    program = predict(METAL, "g++", tmp_path, ["-fno-exceptions", "-fno-rtti"])
    assert run(program, app[0], expect=-6).startswith("Metal: this version of Penlight")


@pytest.mark.parametrize("compiler", compilers.COMPILERS)
def test_vulkan(compiler: str, tmp_path: Path) -> None:
    """A list of lines more than a program: what they leave out stands between them. The last one cannot be compiled by anybody, as it takes
    .cpu() of what it declares: it is given the name of the line before."""
    if not penlight.is_vulkan_available():
        pytest.skip("there is no Vulkan device")
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 4, (2, 3)), torch.nn.Sigmoid()).eval()
    penlight.optimize(module, (torch.rand(1, 2, 2, 3),), backend="vulkan").save(tmp_path / "$PATH")
    available, *lines, last = VULKAN.strip().split("\n")
    assert last == "auto tensor_output = tensor_output.cpu();"
    between = [
        "auto& t = tensor; float* in = tensor.data_ptr<float>();",
        "if (!tensor_vulkan.is_vulkan()) return 2;\nstd::vector<torch::jit::IValue> inputs{tensor_vulkan};",
        "",
        "if (!tensor_output_vulkan.is_vulkan()) return 3;",
    ]
    code = "\n".join(f"{line}\n{more}" for line, more in zip(lines, between, strict=True))
    source = tmp_path / "vulkan.cc"
    source.write_text(
        f"#include <torch/script.h>\nint main() {{\nif (!\n{available}\n) return 1;\n{code}\n"
        f"{last.replace('= tensor_output', '= tensor_output_vulkan')}\n"
        'for (int64_t i = 0; i < tensor.numel(); ++i) printf("%.9g ", in[i]);\n'
        'for (int64_t i = 0; i < tensor_output.numel(); ++i) printf("%.9g ", tensor_output.data_ptr<float>()[i]);\n}\n'
    )
    numbers = np.array(run(compilers.program(compiler, source, tmp_path / "vulkan"), tmp_path).split(), np.float32)
    given, got = numbers[:12], numbers[12:]
    assert len(set(given)) > 6, "random"
    assert ((given >= 0) & (given < 1)).all()
    expected = module(torch.tensor(given).reshape(1, 2, 2, 3)).detach().numpy().ravel()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
