"""README and CONTRIBUTING as a newcomer follows them: every block and command line as it stands, in a fresh environment that README's
own install lines made. Two things are spared: torch comes from the environment of the tests, not from the network, and what `pip
install .` compiles is one instruction set, less optimized.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.capture.lite import legacy
from tests.runtime.native import locked

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- from .*? -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {
    "./dev demo": "tests/test_examples.py runs it, and reads what it says",
    "./dev test": "of which this is a part",
    "./dev test --quick": "of which this is a part",
    "./dev lint --fix": "changes files; tests/test_dev.py runs lint",
    "./dev fuzz --minutes 10": "takes ten minutes; tests/fuzz gives every target some seconds",
    "./dev bench": "installs other engines and takes half an hour; tests/bench has its parts",
}


def blocks(name: str) -> Iterator[tuple[str, str]]:
    """("python" or "shell", text), in order; of a session with output, what was typed. Quotations of our own code are compared
    with it in test_documents.py."""
    for quoted, language, text in BLOCK.findall((ROOT / name).read_text(encoding="utf-8")):
        if language == "python" and not quoted:
            yield "python", text
        elif not language:
            typed = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
            for line in typed or text.splitlines():
                yield "shell", line.partition(" #")[0].strip()


def run(*command: object, folder: Path, path: str = os.environ["PATH"]) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "PATH": path, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0",  # pip's spelling of "no isolation": offline
        "SKBUILD_BUILD_DIR": str(ROOT / "build/newcomer-wheel"), "SKBUILD_CMAKE_BUILD_TYPE": "Hasty",
        "CMAKE_ARGS": "-DPENLIGHT_ISAS=base -DCMAKE_CXX_FLAGS_HASTY=-O1",
    }  # fmt: skip
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture
def environment() -> Iterator[Path]:
    venv = ROOT / "build/newcomer"
    with locked(ROOT / "build/newcomer.lock"):
        run(sys.executable, "-m", "venv", "--clear", venv, folder=ROOT)
        site = Path(
            run(venv / "bin/python", "-c", "import site; print(site.getsitepackages()[0])", folder=ROOT).strip()
        )
        run(
            venv / "bin/pip", "uninstall", "-q", "-y", "setuptools", folder=ROOT
        )  # venv's is too old for torch: the tests' is seen
        (site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
        yield venv


@pytest.mark.slow
def test_every_line(environment: Path, tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8)).save(tmp_path / "photo.jpg")
    (tmp_path / "imagenet.txt").write_text("".join(f"class {i}\n" for i in range(1000)))
    shutil.copy(legacy.FIXTURES / "small.v8.ptl", tmp_path / "legacy.ptl")
    path = os.pathsep.join([str(environment / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    here = {"./dev", "pip", ".venv/bin/python"}
    ran = []
    for language, text in [*blocks("README.md"), *blocks("CONTRIBUTING.md")]:
        if language == "python":
            (tmp_path / "block.py").write_text(text)
            run(environment / "bin/python", "block.py", folder=tmp_path, path=path)
        elif text not in ELSEWHERE:
            line = text.replace(".venv/bin/python", sys.executable)  # where PENLIGHT_VENV names another
            run("bash", "-euc", line, folder=ROOT if text.split()[0] in here else tmp_path, path=path)
        ran.append(text)
        if text == "pip install .":
            place = run(environment / "bin/python", "-c", "import penlight; print(penlight.__file__)", folder=tmp_path)
            assert Path(place).is_relative_to(environment)
            assert (environment / "bin/penlight").exists()
    assert set(ELSEWHERE) <= set(ran), "lines that are nowhere"
    assert "pip install ." in ran
    assert (tmp_path / "model.pen").exists()
