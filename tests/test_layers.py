"""Data flows one way: each folder imports only from those before it. The order is the way of a model (docs/TOUR.md)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "penlight"
# Each line may import from itself and from the lines above. Files of the package stand beside the folders they serve.
LAYERS = [
    ["errors", "printable", "magic", "budget", "limits", "archive", "paths", "file_kinds", "pages", "preprocess"],
    ["ir", "ops", "torchvision"],  # graphs, and the operators that stand in them
    ["_runtime"],  # in C++, which imports none of these
    ["passes", "capture"],
    ["quant"],  # what it runs, it is given
    ["lower"],
    ["file"],
    ["tensor", "vm_module", "model", "agreement"],
    ["apart", "bundles", "compile", "quantizer"],
    ["__init__"],
    ["functional"],  # models of one operator
    ["build"],  # libraries; what they compute is compared with the model here
    ["lint"],
    ["compat"],
    ["tools", "__main__"],
]
# Rooms of capture: what comes from torch.export knows no scripts, .ptl files know neither.
ROOMS = {"capture.lite": {"capture.export", "capture.script"}, "capture.export": {"capture.script", "capture.lite"}}


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Modules that a file imports, wherever in it, and the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "penlight":
            inside = node.module.split(".")[1:]
            for name in [[*inside]] if inside else [[alias.name] for alias in node.names]:
                yield ".".join(name), node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "penlight":
                    yield ".".join(alias.name.split(".")[1:]) or "__init__", node.lineno


def layer_of(module: str) -> int:
    top = module.split(".")[0]
    found = [i for i, names in enumerate(LAYERS) if top in names]
    if not found and top in ("load", "optimize", "Model"):  # names of the package itself
        return layer_of("__init__")
    assert found, f"{module} is in no layer: put it into LAYERS, where it belongs"
    return found[0]


@pytest.mark.parametrize("folder", sorted({p.relative_to(PACKAGE).parts[0] for p in PACKAGE.rglob("*.py")}))
def test_imports_go_one_way(folder: str) -> None:
    wrong = []
    root = PACKAGE / folder
    for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for imported, line in imports(path):
            room = ".".join(module.split(".")[:2])
            if layer_of(imported) > layer_of(module) or ".".join(imported.split(".")[:2]) in ROOMS.get(room, ()):
                wrong.append(f"{path.relative_to(PACKAGE)}:{line} imports {imported}")
    assert not wrong, "\n".join(wrong)


def test_the_generator_needs_the_standard_library_only(tmp_path: Path) -> None:
    """`pip install` runs it in an environment of its own, before anything is installed."""
    command = [sys.executable, "-S", "-m", "penlight.build.generate", "--out", str(tmp_path), "--backends", "cpu"]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pen_format.h").exists()
