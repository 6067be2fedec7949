"""How large shaders are, as libraries hold them; and that what was packed comes back."""

from __future__ import annotations

import math
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import penlight
from penlight.build import gpu_rules, pack_spirv, shaders
from penlight.build.generate import scan
from penlight.build.model_selection import selection_of_models
from penlight.errors import BuildError
from penlight.ops import registry
from penlight.ops.devices import gpu_rows

LIMITS = {"everything": 600_000, "mobilenet_v2": 60_000}  # bytes


def packed_bytes(keys: set[str], folder: Path) -> int:
    made = shaders.compile_shaders(gpu_rules.used_shaders(keys), folder)
    names = {name for name, _ in made}
    return sum(
        len(pack_spirv.pack(*(made[name, f16] for f16 in (False, True) if (name, f16) in made))) for name in names
    )


@pytest.mark.slow
def test_sizes(tmp_path: Path, shared_folder: Path) -> None:
    try:
        shaders.tool("glslc")
    except BuildError as e:
        pytest.skip(str(e))
    torchvision = pytest.importorskip("torchvision")
    folder = shared_folder / "spirv"
    everything = packed_bytes({*scan(registry.load_all()).kernels, *gpu_rows()}, folder)
    network = torchvision.models.mobilenet_v2(weights=None).eval()
    penlight.optimize(network, (torch.rand(1, 3, 64, 64),), backend="vulkan").save(tmp_path / "m.pen")
    keys = selection_of_models([tmp_path / "m.pen"]).keys
    assert keys
    one = packed_bytes(set(keys), folder)
    assert everything < LIMITS["everything"], everything
    assert one < LIMITS["mobilenet_v2"], one


def test_two_builds_at_a_time_do_not_mix_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another build, which may be of another version, writes its sources while this one compiles: what is kept would be made of them."""
    try:
        shaders.tool("glslc")
    except BuildError as e:
        pytest.skip(str(e))
    run = subprocess.run

    def at_the_same_time(command: Any, **options: Any) -> Any:
        for source in [*shaders.included(), "fetch.comp"]:
            (tmp_path / source).write_text("#error of another version")
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", at_the_same_time)
    made = shaders.compile_shaders(["fetch"], tmp_path)
    assert made["fetch", False][:4] == bytes.fromhex("03022307")  # the magic of SPIR-V


def test_mistakes_are_told() -> None:
    """Before glslc sees them: what C++ fills by these names."""
    for text, says in (
        ("layout(constant_id = 1) const uint A = 0;", "constant_id: expected 0, 1, 2"),
        ("READ(1, x);", "buffers: expected 0, 1, 2"),
        ("layout(push_constant) uniform Push { uint a[40]; };", "expected at most 128 bytes, got 160"),
    ):
        with pytest.raises(BuildError, match=says):
            shaders.describe("made_up", text)


def test_threads() -> None:
    """A device need not have more than 128 in a group; those that multiply matrices are asked first, and so are those with larger tiles."""
    for shader in shaders.shaders().values():
        threads = [int(n) for n in re.findall(r"local_size_[xyz] = (\d+)", shader.text)]
        assert math.prod(threads) <= 128 or "cooperative_matrix" in shader.text, shader.name
