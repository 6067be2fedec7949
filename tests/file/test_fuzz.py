"""Mutations of real files, thousands of them, under AddressSanitizer and UBSan: no crash, no hang, no report.

Each shard has so many seconds (PENLIGHT_FUZZ_SECONDS, 8 by default) and always begins with the same mutations. What
crashes is in the failure's text by number and stays in build/asan; to look at it again:
    build/asan/tests/fuzz_runner --file build/asan/crash-0.pen
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from pathlib import Path

import pytest

from penlight.file import format as f
from tests.file.small import small_file
from tests.file.zoo import write_zoo
from tests.runtime import native

HERE = Path(__file__).parent
SHARDS = 4


def seconds(default: int) -> int:
    return int(os.environ.get("PENLIGHT_FUZZ_SECONDS", default))


def write_seeds(folder: Path) -> list[Path]:
    small = folder / "small.pen"
    small.write_bytes(small_file())
    golden = [HERE / "golden" / name for name in ("v1.pen", "v2.pen", "v2.pen", "v2_packed.pen", "v3.pen")]
    return [*write_zoo(folder), small, *golden]


def write_fields(path: Path) -> Path:
    """The format's fields, for a program that cannot read format.py."""
    lines = []
    for record in f.RECORDS:
        offset = 0
        for field in record.fields:
            if record.section:
                lines.append(f"{record.section} {record.size} {field.name} {field.type} {offset}")
            offset += struct.calcsize("<" + field.code)
    lines += [
        f"{name} {struct.calcsize('<' + f._SIZES[kind])} item {kind} 0"
        for name, (kind, _) in f.ARRAYS.items()
        if name != "DATA"
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutations(shard: int, tmp_path: Path) -> None:
    program = native.fuzzer(HERE / "fuzz_runner.cc")
    fields, seeds = write_fields(tmp_path / "fields.txt"), write_seeds(tmp_path)
    crash = program.parent.parent / f"crash-{shard}.pen"
    done = native.run(
        [program, fields, str(seconds(8)), str(shard * 1_000_000_000), crash, *seeds],
        timeout=seconds(8) + 90, environment={"PENLIGHT_GUARD": "weights"},
    )  # fmt: skip
    counts = dict(
        zip(
            ("mutations", "files", "loaded", "prepared", "ran", "keys", "modules", "runs", "results"),
            map(int, re.findall(r"\d+", done.stdout)),
            strict=True,
        )
    )
    # It must reach deep, or it proves nothing: half load, a good part runs, most kernels are among them.
    assert counts["mutations"] >= 1000
    assert counts["loaded"] >= counts["files"] // 3
    assert counts["ran"] >= counts["files"] // 8
    assert counts["keys"] >= 80
    assert counts["results"] >= counts["runs"] // 50 > 0


@pytest.mark.slow
@pytest.mark.skipif("PENLIGHT_FUZZ_SECONDS" not in os.environ, reason="set PENLIGHT_FUZZ_SECONDS to run libFuzzer")
@pytest.mark.skipif(shutil.which("clang++-14") is None, reason="clang++-14 is not installed")
def test_libfuzzer(tmp_path: Path) -> None:
    program = native.program("fuzz", HERE / "libfuzzer_load.cc")
    corpus = program.parent.parent / "corpus"
    corpus.mkdir(exist_ok=True)
    write_seeds(tmp_path)
    for golden in (HERE / "golden").glob("*.pen"):
        shutil.copy(golden, tmp_path)
    native.run(
        [program, f"-max_total_time={seconds(60)}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=40000",
         f"-artifact_prefix={program.parent.parent}/", corpus, tmp_path],
        timeout=seconds(60) + 120, environment={"PENLIGHT_GUARD": "weights"},
    )  # fmt: skip
