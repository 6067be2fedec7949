"""OpInfo operators that Penlight does not compute yet, singly, each with its reason. The test fails when one that is not
here fails, and when one that is here passes.
"""

from __future__ import annotations

# "operator" (all dtypes) or "operator:dtype" -> why
_STATE = "in training it changes running statistics, which are arguments: models with state are refused in words"
_SPARSE = "sparse tensors are refused in words (penlight/ops/refused.py)"
_CHUNKED = "an operator of torch.nn that is no aten operator and has no decomposition"
FAILURES: dict[str, str] = {
    "_batch_norm_with_update:f32": _STATE,
    "_native_batch_norm_legit:f32": _STATE,
    "native_batch_norm:f32": _STATE,
    "nn.functional.batch_norm:f32": _STATE,
    "chalf": "complex numbers are complex64 here; complex32 is refused in words",
    "cdouble": "complex numbers are complex64 here; complex128 is refused in words",
    "to_sparse": _SPARSE,
    "sparse.mm.reduce:f32": _SPARSE,
    "sparse.sampled_addmm:f32": _SPARSE,
    "nn.functional.linear_cross_entropy.chunked:f32": _CHUNKED,
    "nn.functional.linear_cross_entropy.chunked_none:f32": _CHUNKED,
    "hash_tensor": "aten::hash_tensor is not implemented; no model here uses it",
    "_segment_reduce.lengths:f32": "aten::segment_reduce is not implemented; scatter_reduce does the same",
    "_segment_reduce.offsets:f32": "aten::segment_reduce is not implemented; scatter_reduce does the same",
    "item:bool": "a bool as the result of a model: only integers and floats are returned as numbers",
    "unique_consecutive": "with dim=-1 torch's own stand-in gives a wrong shape; with dim=2 it works",
    "as_strided.partial_views": "reads memory outside of the tensor that it is given: refused in words",
    "argsort:bool": "without stable=True torch leaves the order of equal numbers open; here it is the stable one",
}


def reason(name: str, dtype: str) -> str:
    return FAILURES.get(f"{name}:{dtype}") or FAILURES.get(name, "")
