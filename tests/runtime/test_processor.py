"""The processor's description: read from files under /sys, from cpuid and from PENLIGHT_PROCESSOR, also where they are hostile; what
follows from it; and that no result does."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import penlight
from penlight import _runtime
from tests.runtime import native

K, M = 1 << 10, 1 << 20
X86 = platform.machine() in ("x86_64", "AMD64", "i686")
NOTHING = (32 * K, 0, 256 * K, 0, 0, 0, 256 * K, False)  # what is assumed


def told(*words: str | Path) -> tuple[int | bool, ...]:
    """Bytes and sharers of L1, L2, L3, a core's part of L2, and whether anything was said."""
    program = native.program("plain", Path(__file__).parent / "processor.cc")
    *caches, near, said = native.run([program, *words]).stdout.split()
    return (*(int(n) for cache in caches for n in cache.split("/")), int(near), said == "yes")


def tree(root: Path, cores: dict[int, list[tuple[str, str, str, str]]]) -> Path:
    """A folder as /sys/devices/system/cpu: of each core its caches' level, type, size and map of cores."""
    for core, caches in cores.items():
        for index, words in enumerate(caches):
            folder = root / f"cpu{core}/cache/index{index}"
            folder.mkdir(parents=True)
            for name, word in zip(("level", "type", "size", "shared_cpu_map"), words, strict=True):
                (folder / name).write_text(f"{word}\n")
    return root


LITTLE = [
    ("1", "Data", "32K", "01"),
    ("1", "Instruction", "16K", "01"),
    ("2", "Unified", "128K", "01"),
    ("3", "Unified", "4096K", "ff"),
]
BIG = [
    ("1", "Data", "64K", "80"),
    ("1", "Instruction", "64K", "80"),
    ("2", "Unified", "1024K", "80"),
    ("3", "Unified", "4096K", "ff"),
]


class TestFiles:
    def test_a_phone(self, tmp_path: Path) -> None:
        """The little core's caches, as they are the smaller ones."""
        root = tree(tmp_path, {0: LITTLE, 7: BIG})
        assert told("files", root, "8") == (32 * K, 1, 128 * K, 1, 4 * M, 8, 128 * K, True)

    def test_the_order_of_cores_does_not_matter(self, tmp_path: Path) -> None:
        root = tree(tmp_path, {0: BIG, 7: LITTLE})
        assert told("files", root, "8") == (32 * K, 1, 128 * K, 1, 4 * M, 8, 128 * K, True)

    def test_four_cores_share_l2(self, tmp_path: Path) -> None:
        root = tree(tmp_path, {0: [("1", "Data", "32K", "1"), ("2", "Unified", "512K", "f")]})
        assert told("files", root, "1") == (32 * K, 1, 512 * K, 4, 0, 0, 128 * K, True)

    def test_threads_of_a_core_count_once(self, tmp_path: Path) -> None:
        root = tree(
            tmp_path, {0: [("1", "Data", "32K", "00000000,00010001"), ("2", "Unified", "512K", "00000000,00010001")]}
        )
        assert told("files", root, "1") == (32 * K, 2, 512 * K, 2, 0, 0, 512 * K, True)

    def test_nothing_there(self, tmp_path: Path) -> None:
        assert told("files", tmp_path, "4") == NOTHING

    @pytest.mark.parametrize(
        "size", ["", "K", "-1K", "0", "1K", "99999999999999999999999999M", "9223372036854775807K", "x" * 5000]
    )
    def test_sizes_that_no_cache_has(self, tmp_path: Path, size: str) -> None:
        root = tree(
            tmp_path, {0: [("1", "Data", size, "1"), ("2", "Unified", size, "f" * 3000), ("9", "Data", "1M", "1")]}
        )
        assert told("files", root, "1")[:7] == NOTHING[:7]


def leaf(level: int, kind: int, ways: int, line: int, sets: int, sharers: int) -> str:
    return f"{(sharers - 1) << 14 | level << 5 | kind:x},{(ways - 1) << 22 | line - 1:x},{sets - 1:x},0"


@pytest.mark.skipif(not X86, reason="an x86 processor's own words")
class TestCpuid:
    CACHES = (
        leaf(1, 1, 8, 64, 64, 2),
        leaf(1, 2, 8, 64, 64, 2),
        leaf(2, 3, 8, 64, 2048, 2),
        leaf(3, 3, 16, 64, 32768, 16),
    )

    def described(self, at: str) -> list[str]:
        return [f"{at}.{i}={words}" for i, words in enumerate(self.CACHES)]

    def test_intel(self) -> None:
        said = told("cpuid", "0.0=1f,0,0,0", *self.described("4"))
        assert said == (32 * K, 2, M, 2, 32 * M, 16, M, True)

    def test_amd(self) -> None:
        words = [
            "0.0=10,0,0,0",
            "80000000.0=80000028,0,0,0",
            f"80000001.0=0,0,{1 << 22:x},0",
            *self.described("8000001d"),
        ]
        assert told("cpuid", *words) == (32 * K, 2, M, 2, 32 * M, 16, M, True)

    def test_amd_before_topology(self) -> None:
        words = [
            "0.0=1,0,0,0",
            "80000000.0=80000008,0,0,0",
            f"80000005.0=0,0,{64 << 24:x},0",
            f"80000006.0=0,0,{512 << 16:x},{4 << 18:x}",
        ]
        assert told("cpuid", *words) == (64 * K, 1, 512 * K, 1, 2 * M, 0, 512 * K, True)

    def test_nothing(self) -> None:
        assert told("cpuid") == NOTHING

    def test_any_bits(self) -> None:
        """A hypervisor may say anything: sizes stay sane, and a list that does not end is left."""
        words = [f"{at}.{i}=ffffff23,ffffffff,ffffffff,ffffffff" for at in ("4", "8000001d") for i in range(20)]
        said = told("cpuid", "0.0=ffffffff,0,0,0", "80000000.0=ffffffff,0,0,0", *words)
        assert 64 * K <= said[6] <= M


class TestWords:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("l1=48k,l2=1m/2,l3=32M/16", (48 * K, 1, M, 2, 32 * M, 16, 512 * K, True)),
            ("l2=2m", (32 * K, 0, 2 * M, 1, 0, 0, M, True)),
            ("l1=32k,l2=256k,l3=0", (32 * K, 1, 256 * K, 1, 0, 0, 256 * K, True)),
            ("l2=64k/8", (32 * K, 0, 64 * K, 8, 0, 0, 64 * K, True)),
            ("l2=262144", (32 * K, 0, 256 * K, 1, 0, 0, 256 * K, True)),
        ],
    )
    def test_meaning(self, words: str, expected: tuple[int | bool, ...]) -> None:
        assert told("text", words) == expected

    @pytest.mark.parametrize(
        "words",
        ["l4=1m", "l0=1", "l2", "l2=", "l2=k", "l2=-1", "l2=1m/", "l2=1m/0", "l2=1g", "l2=1m;", "l2=1m,", "L2=1m"],
    )
    def test_no_meaning(self, words: str) -> None:
        assert not told("text", words)[-1]

    def test_error(self, tmp_path: Path) -> None:
        """In words, from whatever runs models; doctor tells it too."""
        penlight.optimize(nn.ReLU(), (torch.ones(4),)).save(tmp_path / "relu.pen")
        message = "PENLIGHT_PROCESSOR: expected sizes of caches as in l1=32k,l2=1m/2,l3=0, got l2=lots"
        assert message in python(FAILS, "l2=lots", tmp_path / "relu.pen")
        assert message in python(
            "from penlight.tools.doctor import doctor_command; doctor_command()", "l2=lots"
        ).replace("\n", " ")


FAILS = """
import sys
import numpy as np
import penlight
try:
    penlight.load(sys.argv[1])(np.ones(4, np.float32))
except penlight.RunError as e:
    print(e)
"""


def python(code: str, words: str, *args: str | Path) -> str:
    environment = {**os.environ, "PENLIGHT_PROCESSOR": words}
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_blocking_follows() -> None:
    """What was measured on processors with 1 MB of L2, in proportion below and the same above; never by L1 or L3."""
    code = "import json; from penlight import _runtime; print(json.dumps(_runtime.processor()[1]))"

    def blocking(words: str) -> dict[str, int]:
        found = json.loads(python(code, words))
        assert found["source"] == "PENLIGHT_PROCESSOR"
        return dict(found["blocking"])

    measured = {"near_bytes": M, "part_of_k": 1024, "near_weights": 256 * K, "strip_bytes": 256 * K, "expanded_bytes": 128 * K,
                "expand_input_bytes": 512 * K, "turn_bytes": 4096 * K}  # fmt: skip
    assert blocking("l1=48k,l2=1m,l3=32m/16") == blocking("l1=32k,l2=16m/4") == measured
    for size in (64, 256, 512):
        assert blocking(f"l2={size}k") == {name: number * size // 1024 for name, number in measured.items()}


def test_what_this_machine_says() -> None:
    problem, found = _runtime.processor()
    assert problem is None
    assert 4 * K <= found["l1_bytes"] <= M
    assert 32 * K <= found["l2_bytes"] <= 256 * M
    assert 64 * K <= found["blocking"]["near_bytes"] <= M
    if sys.platform == "linux":
        assert found["cores"] == os.cpu_count()


class Small(nn.Module):
    """Direct convolution, expand_depthwise, deep products (K above every part), a matrix product and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, 2, 1)
        self.expand = nn.Conv2d(24, 144, 1)
        self.depthwise = nn.Conv2d(144, 144, 3, 1, 1, groups=144)
        self.project = nn.Conv2d(144, 24, 1)
        self.deep = nn.Conv2d(24, 200, 7, 4, 3)
        self.wide = nn.Conv2d(200, 1500, 3, 2, 1)
        self.head = nn.Linear(1500, 70)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.relu(self.stem(image))
        x = x + self.project(nn.functional.relu6(self.depthwise(nn.functional.relu6(self.expand(x)))))
        y = torch.nn.functional.silu(self.wide(torch.relu(self.deep(x))))
        rows = y.flatten(2).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(rows, rows, rows)
        return x, y, mixed @ rows.transpose(1, 2), self.head(mixed)


RUN = """
import hashlib, sys
import numpy as np
import penlight
file, given, isa = sys.argv[1:]
for threads in (1, 2):
    outputs = penlight.load(file, threads=threads, isa=isa or None)(np.load(given))
    print(hashlib.sha256(b"".join(np.asarray(o).tobytes() for o in outputs)).hexdigest())
"""


DESCRIPTIONS = ("", "l1=4k,l2=32k/8", "l1=32k,l2=256k", "l1=48k,l2=1m,l3=32m", "l1=1m,l2=256m,l3=1024m")


@pytest.mark.parametrize("isa", ["", "base"])
def test_same_bits(isa: str, tmp_path: Path) -> None:
    """Whatever caches there are, at one thread and two."""
    torch.manual_seed(3)
    image = torch.randn(1, 3, 160, 160)
    image[:, :, :40] *= 1e-38
    penlight.optimize(Small().eval(), (image,)).save(tmp_path / "small.pen")
    np.save(tmp_path / "image.npy", image.numpy())
    found = {words: python(RUN, words, tmp_path / "small.pen", tmp_path / "image.npy", isa) for words in DESCRIPTIONS}
    assert len(set(" ".join(found.values()).split())) == 1, found


@pytest.mark.parametrize("isa", _runtime.isas())
def test_parts_of_k_hand_on_a_negative_zero(isa: str) -> None:
    """-0 - 0 - 0 ... is -0 in one chain; a part that started from 0 would lose the sign."""
    layer = nn.Linear(3000, 40)
    with torch.no_grad():
        layer.weight.fill_(-1.0)
        layer.bias.fill_(-0.0)
    model = penlight.optimize(layer.eval(), (torch.zeros(7, 3000),))
    data = model._bytes
    assert data is not None
    for threads in (1, 2):
        assert torch.signbit(penlight.Model(data, threads=threads, isa=isa)(torch.zeros(7, 3000))).all()
