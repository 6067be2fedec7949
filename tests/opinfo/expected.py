"""OpInfo samples that Penlight does not compute yet, each with its reason. The test fails when a sample that is not here fails, be it
of the same operator, and when one that is here passes.
"""

from __future__ import annotations

from collections.abc import Iterable

_STATE = "in training it changes running statistics, which are arguments: models with state are refused in words"
_SPARSE = "sparse tensors are refused in words (penlight/ops/refused.py)"
_CHUNKED = "an operator of torch.nn that is no aten operator and has no decomposition"
_SEGMENTS = "aten::segment_reduce is not implemented; scatter_reduce does the same"
# operator -> its dtypes, which samples of each (counted from 0 as OpInfo yields them), and why
FAILURES: dict[str, tuple[str, str, str]] = {
    "_batch_norm_with_update": ("f32", "0-8", _STATE),
    "_native_batch_norm_legit": ("f32", "0-8", _STATE),
    "native_batch_norm": ("f32", "0, 2-3, 5-6", _STATE),
    "nn.functional.batch_norm": ("f32", "0, 2, 5, 8", _STATE),
    "chalf": ("f32, i64, bool", "0-4", "complex numbers are complex64 here; complex32 is refused in words"),
    "cdouble": ("f32, i64, bool", "0-4", "complex numbers are complex64 here; complex128 is refused in words"),
    "to_sparse": ("f32, i64, bool", "0-1", _SPARSE),
    "sparse.mm.reduce": ("f32", "0-15", _SPARSE),
    "sparse.sampled_addmm": ("f32", "0-7", _SPARSE),
    "nn.functional.linear_cross_entropy.chunked": (
        "f32",
        "0-1, 3-4, 14-15, 17-18, 28-29, 31-32, 42-43, 45-46, 56-57, 59-60, 70-71, 73-74, 84-85, 87-88, 91-92, 94-95, 98-99, 101-102, "
        "112-113, 115-116, 126-127, 129-130",
        _CHUNKED,
    ),
    "nn.functional.linear_cross_entropy.chunked_none": (
        "f32",
        "0-1, 3-4, 14-15, 17-18, 28-29, 31-32, 42-43, 45-46, 56-57, 59-60, 70-71, 73-74",
        _CHUNKED,
    ),
    "hash_tensor": ("f32, i64, bool", "0-19", "aten::hash_tensor is not implemented; no model here uses it"),
    "_segment_reduce.lengths": ("f32", "0-89", _SEGMENTS),
    "_segment_reduce.offsets": ("f32", "0-89", _SEGMENTS),
    "as_strided.partial_views": (
        "f32, i64, bool",
        "1",
        "it reads outside of its tensor, in memory that it is a part of",
    ),
    "item": ("bool", "0-3", "a bool as the result of a model: only integers and floats are returned as numbers"),
    "unique_consecutive": (
        "f32, i64, bool",
        "15-17, 24-26, 33-35, 42-44, 54-56, 69-71, 84-86, 99-101, 114-116, 132-134, 150-152, 168-170, 186-188, 204-206, 222-224, 240-242",
        "with dim=-1 torch's own stand-in gives a wrong shape; with dim=2 it works",
    ),
    "argsort": (
        "bool",
        "0",
        "without stable=True torch leaves the order of equal numbers open; here it is the stable one",
    ),
}


def of(name: str, dtype: str) -> tuple[set[int], str]:
    """The samples that are expected to fail, and why."""
    dtypes, samples, why = FAILURES.get(name, ("", "", ""))
    return (numbers(samples), why) if dtype in dtypes else (set(), "")


def numbers(spans: str) -> set[int]:
    """ "0-3, 7" -> {0, 1, 2, 3, 7}."""
    pairs = [span.split("-") for span in spans.split(", ") if span]
    return {n for pair in pairs for n in range(int(pair[0]), int(pair[-1]) + 1)}


def spans(numbers: Iterable[int]) -> str:
    """{0, 1, 2, 3, 7} -> "0-3, 7"."""
    found: list[list[int]] = []
    for n in sorted(numbers):
        if found and n == found[-1][-1] + 1:
            found[-1][1:] = [n]
        else:
            found.append([n])
    return ", ".join("-".join(map(str, span)) for span in found)
