"""Methods of several regions in one stage: any program, cut in two anywhere, gives the same bits. The writer makes one region
a stage; the format, the loader and the planner promise more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penlight
from penlight.file import format as f
from penlight.ir.types import DTYPES
from tests.file.edit import Edit
from tests.file.zoo import ZOO, write_zoo
from tests.runtime import native

HERE = Path(__file__).parent


def cut(file: bytes, at: int) -> bytes:
    """The method's only region becomes two: nodes before `at`, and the rest. Values of the first that the second reads
    go through registers."""
    edit = Edit(file)
    region, method = edit.tables["REGN"][0], edit.tables["METH"][0]
    index = edit.arrays["INDX"]
    nodes = edit.tables["NODE"][region["nodes"] : region["nodes"] + region["node_count"]]
    inputs = index[region["inputs"] : region["inputs"] + region["input_count"]]
    outputs = index[region["outputs"] : region["outputs"] + region["output_count"]]

    def reads(node: dict[str, int]) -> list[int]:
        return [v for v in index[node["inputs"] : node["inputs"] + node["input_count"]] if v != f.NONE]

    def makes(node: dict[str, int]) -> list[int]:
        return index[node["outputs"] : node["outputs"] + node["output_count"]]

    made = [v for n in nodes[:at] for v in makes(n)]
    needed = {v for n in nodes[at:] for v in reads(n)}
    returned = [v for v in outputs if v in made]  # straight from the first region
    crossing = [v for v in made if v in needed or v in returned]
    later = [v for v in outputs if v not in made]
    second_inputs = inputs + [v for v in crossing if v in needed]
    register = {v: len(inputs) + i for i, v in enumerate(crossing + later)} | {v: i for i, v in enumerate(inputs)}
    second = dict(region, nodes=region["nodes"] + at, node_count=len(nodes) - at)
    second.update(inputs=edit.append("INDX", *second_inputs), input_count=len(second_inputs))
    second.update(outputs=edit.append("INDX", *later), output_count=len(later))
    region.update(node_count=at, outputs=edit.append("INDX", *crossing), output_count=len(crossing))
    edit.tables["REGN"].append(second)
    method.update(code=len(edit.tables["CODE"]), code_count=3, registers=len(register))

    def instruction(op: str, target: int, args: list[int], results: list[int]) -> dict[str, int]:
        return {
            "op": f.INSTRUCTIONS[op], "target": target, "args": edit.append("INDX", *(register[v] for v in args)), "arg_count": len(args),
            "results": edit.append("INDX", *(register[v] for v in results)), "result_count": len(results),
        }  # fmt: skip

    edit.tables["CODE"] += [
        instruction("region", 0, inputs, crossing),
        instruction("region", 1, second_inputs, later),
        instruction("return", 0, outputs, []),
    ]
    return edit.bytes()


def result(file: bytes | Path) -> list[bytes]:
    model = penlight.load(file, threads=2)
    rng = np.random.default_rng(4)
    arrays = []
    for info in model.inputs():
        shape = tuple(9 if size is None else size for size in info.shape)
        shape = tuple(min(s, high or s) for s, (_, high) in zip(shape, info.limits, strict=True))
        arrays.append(
            (rng.integers(0, 2, shape) if info.dtype != "f32" else rng.standard_normal(shape)).astype(
                DTYPES[info.dtype][1]
            )
        )
    return [np.asarray(a).tobytes() for a in model(*arrays)]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {p.stem: p for p in write_zoo(tmp_path_factory.mktemp("zoo"))}


ONE_REGION = [name for name in ZOO if name not in ("data", "state")]


@pytest.mark.parametrize("name", ONE_REGION)
def test_cut_anywhere(name: str, zoo: dict[str, Path]) -> None:
    whole = result(zoo[name])
    file = zoo[name].read_bytes()
    for at in range(1, Edit(file).tables["REGN"][0]["node_count"]):
        assert result(cut(file, at)) == whole, f"cut before node {at}"


@pytest.mark.slow
def test_under_sanitizers(zoo: dict[str, Path], tmp_path: Path) -> None:
    paths = []
    for name in ONE_REGION:
        file = zoo[name].read_bytes()
        for at in range(1, Edit(file).tables["REGN"][0]["node_count"]):
            paths.append(tmp_path / f"{name}-{at}.pen")
            paths[-1].write_bytes(cut(file, at))
    done = native.run(
        [native.fuzzer(HERE / "fuzz_runner.cc"), "--file", *paths],
        timeout=300,
        environment={"PENLIGHT_GUARD": "weights"},
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 8 * len(paths)
    assert sum(": ran" in line for line in lines) > len(lines) // 3  # others had sizes that do not fit each other
