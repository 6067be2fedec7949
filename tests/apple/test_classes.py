"""The Objective-C classes against GNUstep, and the documents' Objective-C++ as it stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import penlight
from tests.apple import gnustep
from tests.cpp.test_documents import LITE, METAL, ON_CPU, app, run, split
from tests.cpp.test_values import Script

pytestmark = pytest.mark.slow  # it compiles

__all__ = ["app"]
HERE = Path(__file__).parent
APP = """
#import <Foundation/Foundation.h>
%(head)s
#include <fstream>
void guarded(const std::function<void()>& call);
@interface TorchModuleOfDocument : NSObject {
  torch::jit::mobile::Module _impl;
}
- (nullable instancetype)initWithFileAtPath:(NSString*)filePath;
- (NSArray<NSNumber*>*)predictImage:(void*)imageBuffer;
@end
@implementation TorchModuleOfDocument
- (nullable instancetype)initWithFileAtPath:(NSString*)filePath {
  self = [super init];
  if (self) _impl = torch::jit::_load_for_mobile(filePath.UTF8String);
  return self;
}
%(method)s
@end
int main() {
  @autoreleasepool {
    std::vector<float> image(3 * 224 * 224);
    std::ifstream("image.bin", std::ios::binary).read(reinterpret_cast<char*>(image.data()), 4 * image.size());
    TorchModuleOfDocument* app = [[TorchModuleOfDocument alloc] initWithFileAtPath:@"model.pt"];
    auto call = [&] {
      for (NSNumber* score in [app predictImage:image.data()]) printf("%%.9g\\n", score.floatValue);
    };
    guarded(call);
  }
}
"""
# Apple's runtime takes C++ exceptions in Objective-C++ too. GCC's lets them pass, so that they are caught outside of it.
GUARD = """#include <stdio.h>
#include <exception>
#include <functional>
void guarded(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    puts(e.what());
  }
}
"""
REST = """NSMutableArray* results = [[NSMutableArray alloc] init];
  for (int i = 0; i < 1000; i++) [results addObject:@(outputTensor.data_ptr<float>()[i])];
  return [results copy];"""


def app_of(block: str) -> str:
    """A program around a block, with what its dots stand for."""
    head, method = split(block)
    return APP % {"head": head, "method": method.replace("\n  ...\n", f"\n  {REST}\n")}


@pytest.mark.parametrize("block", [METAL, LITE], ids=["metal", "lite"])
def test_predict_image_of_the_documents(block: str, app: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    source = tmp_path / "TorchModule.mm"
    source.write_text(app_of(block))
    (tmp_path / "guard.cc").write_text(GUARD)
    sources, (folder, expected) = [source, tmp_path / "guard.cc"], app
    scores = run(gnustep.program(sources, tmp_path / "app", [ON_CPU]), folder).split()
    np.testing.assert_allclose(np.array(scores, float), expected, rtol=1e-4, atol=1e-5)
    assert run(gnustep.program(sources, tmp_path / "app"), folder).startswith(
        "Metal: this version of Penlight has no Metal"
    )


@pytest.mark.parametrize(
    "flags", [(), ("-fsanitize=address,undefined", "-fno-sanitize=vptr", "-g1")], ids=["plain", "asan"]
)
def test_classes(
    flags: tuple[str, ...], app: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # GNUstep keeps much until the end
    penlight.optimize(torch.jit.script(Script())).save(tmp_path / "script.pen")
    penlight.optimize(torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),)).save(tmp_path / "linear.pen")
    program = gnustep.program([HERE / "classes.mm"], tmp_path / "classes", flags)
    words, scores = run(program, tmp_path, "script.pen", "linear.pen", str(app[0] / "model.pt")).split("\n")
    assert words == "all well"
    expected = penlight.load(app[0] / "model.pt")(torch.full((1, 3, 224, 224), 0.5))
    np.testing.assert_allclose(np.array(scores.split(), float), expected[0], rtol=1e-4, atol=1e-5)
