"""Mutated model files through everything that reads them: all that may come out is a result or a PenlightError.

    python -m tests.hostile.mutations --kind pen --count 100000 --seed 1

Bytes are flipped, numbers set to ones that often hurt, parts cut, moved and doubled; of zip files also the content of records, with a
directory that fits. The tests run a few hundred of a fixed seed. What is found is printed with the number that makes it again.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import random
import re
import signal
import struct
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import penlight
from penlight.capture.quiet import quiet
from penlight.errors import PenlightError
from penlight.file_kinds import file_kind

INTERESTING = (
    0,
    1,
    2,
    3,
    7,
    8,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
)
TEXTS = (
    b"null",
    b"{}",
    b"[]",
    b'""',
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b"[" * 2000,
    b"\xff\xfe",
    b"\\ud800",
    b"\0",
    b"true",
    b'{"a":',
)
_TEXT = re.compile(rb"[\x20-\x7e\n]{8,}")
_IN_TEXT = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\",
    b"-",
    b"9",
    b"0",
    b"1",
    b"e",
    b".",
    b" ",
    b"null",
    b"true",
    b"[],",
    b"{},",
    b"-1",
    b"999999",
    b"\xff",
    b"\\ud800",
    b"//0",
    b"\0",
)
SECONDS = 20  # for one file


class TooSlowError(Exception):
    pass


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(2, 3, 3)
        self.b = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(self.a(x)).mean((2, 3))
        return {"y": self.b(y), "s": y.sum(1)}


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.calls = 0
        self.names = {"a": 1, "b": 2}

    def forward(self, x: torch.Tensor, times: int = 2) -> tuple[torch.Tensor, dict[str, int]]:
        self.calls += 1
        for i in range(times):
            if bool(x.sum() > i):
                x = torch.relu(self.layer(x))
        return x, self.names

    @torch.jit.export
    def words(self, prefix: str) -> list[str]:
        return [prefix + "a", "b"]


@functools.cache
def seeds() -> dict[str, list[bytes]]:
    """Whole files of each kind, small ones."""
    torch.manual_seed(0)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(Scripted().eval())
        small, x = Small().eval(), torch.rand(3, 2, 6, 6)
        exported = torch.export.export(small, (x,), dynamic_shapes={"x": {0: torch.export.Dim("n", max=9)}})
        streams = {name: io.BytesIO() for name in ("pt2", "pt")}
        torch.export.save(exported, streams["pt2"])
        torch.jit.save(script, streams["pt"])
        zipped = script._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
        flat = script._save_to_buffer_for_lite_interpreter(_use_flatbuffer=True)
        interpreted = penlight.optimize(
            script, (torch.rand(2, 3),), methods=["forward", "words"], bundled_inputs={"forward": [(torch.rand(2, 3),)]}
        )
        planned = penlight.optimize(exported, metadata={"labels": ["a", "b"], "name": "small"})
    return {
        "pen": [planned.to_bytes(), interpreted.to_bytes()], "ptl": [bytes(zipped), bytes(flat)], "pt": [streams["pt"].getvalue()],
        "pt2": [streams["pt2"].getvalue()],
    }  # fmt: skip


def mutated(data: bytes, random_: random.Random) -> bytes:
    """A few changes of one kind or another; half of those of zip files are inside of records."""
    if data[:2] == b"PK" and random_.random() < 0.7:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            records = {name: archive.read(name) for name in archive.namelist()}
        for _ in range(random_.choice((1, 1, 1, 2))):
            name = random_.choice(list(records))
            what = random_.random()
            if what < 0.05:
                del records[name]
            elif what < 0.1:
                records[name] = records[random_.choice(list(records))]
            else:
                records[name] = changed(records[name], random_)
            if not records:
                break
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", random_.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as target:
            for name, content in records.items():
                target.writestr(name, content)
        return stream.getvalue()
    return changed(data, random_)


def changed(data: bytes, random_: random.Random) -> bytes:
    made = bytearray(data)
    # tables come first, and are a small part of a file: most changes should be there
    end = len(made) if random_.random() < 0.5 else min(len(made), 4096)
    for _ in range(random_.choice((1, 1, 1, 2, 3, 8))):
        if not made:
            return bytes(made)
        at = random_.randrange(max(1, min(end, len(made))))
        match random_.randrange(12):
            case 0 | 1:
                made[at] ^= 1 << random_.randrange(8)
            case 2:
                made[at] = random_.randrange(256)
            case 3:
                form = random_.choice(("<H", "<I", "<Q"))
                at -= at % struct.calcsize(form)
                value = random_.choice(INTERESTING) & ((1 << 8 * struct.calcsize(form)) - 1)
                if at + struct.calcsize(form) <= len(made):
                    struct.pack_into(form, made, at, value)
            case 4:
                del made[at : at + random_.choice((1, 2, 4, 8, 64, 4096))]
            case 5:
                other, size = random_.randrange(len(made)), random_.choice((1, 4, 8, 32, 256))
                made[at : at + size] = made[other : other + size]
            case 6:
                other, size = random_.randrange(len(made)), random_.choice((1, 4, 8, 32, 256))
                made[at:at] = made[other : other + size]
            case 7:
                made[at : at + random_.randrange(5)] = random_.choice(TEXTS)
            case 8:
                del made[random_.randrange(len(made)) :]
            case _:  # in texts (JSON, names, expressions), without moving what follows
                found = _TEXT.search(made, at) or _TEXT.search(made)
                if found is not None:
                    at, new = random_.randrange(found.start(), found.end()), random_.choice(_IN_TEXT)
                    new = new[: found.end() - at]
                    made[at : at + len(new)] = new
    return bytes(made)


# ---- what reads them ----
def _arrays(model: penlight.Model, method: str) -> list[Any]:
    return [
        np.zeros([2 if d is None else min(d, 64) for d in info.shape], _numpy(info.dtype))
        for info in model.inputs(method)
    ]


def _numpy(dtype: str) -> Any:
    from penlight.ir.types import numpy_dtype

    return np.uint16 if dtype == "bf16" else numpy_dtype(dtype)


def read_pen(data: bytes, folder: Path) -> None:
    """load, repr, metadata, bundles, run."""
    model = penlight.load(data, threads=1, max_steps=100_000)
    repr(model)
    dir(model)
    for about in (
        lambda: model.metadata,
        lambda: model.extra_files,
        lambda: model.missing_operators,
        lambda: model.planned_parts,
    ):
        about()
    for method in model.methods:
        with contextlib.suppress(PenlightError):
            model.bundled_inputs(method)
        with contextlib.suppress(PenlightError):
            if method in model.planned_methods:
                model.outputs(method)
                model.run_method(method, *_arrays(model, method))
            elif method == "words":
                model.run_method(method, "x")
            else:
                model.run_method(method, np.ones((2, 3), np.float32))


def inspect(data: bytes, folder: Path) -> None:
    from penlight.file.reader import read
    from penlight.tools import inspect_lite
    from penlight.tools.inspect import describe

    file = folder / "file"
    file.write_bytes(data)
    kind = file_kind(file)
    if kind in ("zip", "flatbuffer", "torchscript"):
        program = inspect_lite.read_program(file, kind)
        facts = inspect_lite.describe_lite(program, file, kind)
        inspect_lite.listing(program)
    else:
        pen = read(file)
        str(pen)
        facts = describe(pen, file)
    import json

    json.dumps(facts).encode()


def lint(data: bytes, folder: Path) -> None:
    from penlight.lint.lints import lint_file

    file = folder / "file"
    file.write_bytes(data)
    lint_file(file, ("cpu", "vulkan"))


def optimize(data: bytes, folder: Path) -> None:
    with quiet():
        penlight.optimize(data, plan=False, allow_missing=True)


def compile_and_plan(data: bytes, folder: Path) -> None:
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        penlight.optimize(data, (torch.rand(2, 3),), allow_missing=True)


READERS: dict[str, list[Callable[[bytes, Path], None]]] = {
    "pen": [read_pen, inspect, lint], "ptl": [inspect, lint, optimize], "pt": [inspect, lint, optimize], "pt2": [optimize],
}  # fmt: skip


def problem(reader: Callable[[bytes, Path], None], data: bytes, folder: Path) -> tuple[str, str]:
    """What comes out besides a result or an error of ours: the kind of exception and where, and its text; ("", "") where nothing does."""

    def alarm(*_: Any) -> None:
        raise TooSlowError(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, alarm)
    signal.alarm(SECONDS)
    try:
        reader(data, folder)
    except PenlightError:
        pass
    except Exception as e:
        frames = [f for f in traceback.extract_tb(e.__traceback__) if "/penlight/" in f.filename]
        at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"{reader.__name__}: {type(e).__name__} at {at}", "".join(traceback.format_exception(e)[-12:])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return "", ""


def run(kind: str, count: int, seed: int, folder: Path) -> tuple[Counter[str], dict[str, tuple[int, str]]]:
    """What was found, by its place, and of each the first file's number and the traceback."""
    found: Counter[str] = Counter()
    first: dict[str, tuple[int, str]] = {}
    readers = READERS[kind]
    for number in range(seed, seed + count):
        random_ = random.Random(number)
        data = mutated(random_.choice(seeds()[kind]), random_)
        for reader in readers:
            what, told = problem(reader, data, folder)
            if what:
                found[what] += 1
                first.setdefault(what, (number, told))
    return found, first


def main() -> None:
    import resource
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=[*READERS], default="pen")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    seeds()
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    with tempfile.TemporaryDirectory() as folder:
        found, first = run(given.kind, given.count, given.seed, Path(folder))
    for what, times in found.most_common():
        print(f"{times} × {what}, first with {first[what][0]}\n{first[what][1]}")
    print(f"{given.kind}: {given.count} files, {sum(found.values())} findings of {len(found)} kinds")


if __name__ == "__main__":
    main()
