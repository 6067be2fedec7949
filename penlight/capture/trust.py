"""What a model file may do before its user says that it is trusted: compute, and nothing else.

Files name operators of torch, and torch has some that reach outside of a computation: they write files, map them, talk to other
machines, or call Python. Whoever is about to let torch run what a file names asks here first; `trust=True` (`--trust`) is the user's word
that the file may do what a program may.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from penlight.errors import CaptureError, UntrustedError

# By operator, without namespace and overload: what it does besides computing.
_REACHES = {
    "save": "writes a file", "from_file": "maps a file, which it may create", "load_tensor": "reads a file",
    "rpc_async": "calls another machine", "rpc_sync": "calls another machine", "rpc_remote": "calls another machine",
    "PythonOp": "calls Python", "IgnoredPythonOp": "calls Python",
    "_print": "prints", "_cufft_set_plan_cache_max_size": "changes a setting of torch", "_cufft_clear_plan_cache": "changes a setting of torch",
}  # fmt: skip
_NAMESPACES = {
    "debugprims": "reads files", "c10d": "talks to other machines", "_c10d_functional": "talks to other machines",
    "_c10d_functional_autograd": "talks to other machines", "symm_mem": "reads memory of other processes", "_dtensor": "talks to other machines",
}  # fmt: skip
# Of TorchScript, whose text torch compiles: namespaces all of whose operators compute, of those of torch itself. Others, which extensions
# register, may do anything.
_COMPUTE = {
    "aten", "quantized", "_quantized", "quantized_decomposed", "prepacked", "sparse", "mkl", "mkldnn", "mkldnn_prepacked", "onednn", "xnnpack",
    "metal", "metal_prepack", "vulkan", "vulkan_prepack",
}  # fmt: skip
_PRIMS = {
    "EnumName", "EnumValue", "ModuleContainerIndex", "NumToTensor", "Print", "RaiseException", "StringIndex", "TimePoint", "TupleIndex", "TupleUnpack",
    "Uninitialized", "VarConcat", "VarStack", "ConstantChunk", "BroadcastSizes", "ReductionSizes", "IfThenElse", "abs", "awaitable_nowait",
    "awaitable_wait", "data", "device", "dtype", "grad", "id", "index", "is_cpu", "is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps",
    "is_mtia", "is_nested", "is_ort", "is_quantized", "is_sparse", "is_sparse_bsc", "is_sparse_bsr", "is_sparse_csc", "is_sparse_csr", "is_vulkan",
    "is_xla", "is_xpu", "isinstance", "itemsize", "layout", "max", "min", "name", "names", "nbytes", "rangelist", "requires_grad", "shape", "tolist",
    "type", "unchecked_cast", "unchecked_unwrap_optional", "retain_grad", "ListUnpack", "TupleSlice", "unsqueeze", "ListConstruct",
}  # fmt: skip
PACKED_CLASSES = {"quantized", "rnn", "xnnpack", "vulkan", "metal", "sparse"}
# Operators that take as many steps, or give as many views, as their second argument says. torch counts none of them, and Ctrl-C does not end it.
_COUNTS = re.compile(r"(?:aten::)?(?:special_\w+_polynomial_\w+|_sobol_engine_ff_|tensor_split)")
_MOST = 1 << 16
# Others, by how large that number may be: none of these is of use with more. The VM counts them where it has them, so text may name them.
_COUNTS_TOO = {
    "chunk": _MOST, "unsafe_chunk": _MOST, "hsplit": _MOST, "vsplit": _MOST, "dsplit": _MOST, "combinations": 1 << 8, "mvlgamma": 1 << 8,
    "mvlgamma_": 1 << 8, "special_multigammaln": 1 << 8,
}  # fmt: skip
_CLASS = re.compile(r"__torch__\.torch\.classes\.(\w+)")


def reaches_outside(operator: str) -> str:
    """What an operator ("aten::save", "aten::add.Tensor") does besides computing; "" for nearly all."""
    namespace, _, rest = operator.rpartition("::")
    return _NAMESPACES.get(namespace) or _REACHES.get(rest.partition(".")[0], "")


def untrusted(what: str) -> UntrustedError:
    return UntrustedError(
        f"{what}. That can do whatever a program can: if you know where the file comes from and trust it, say so with trust=True (--trust)"
    )


def check_operator(operator: str) -> None:
    """Raises where an operator that a file names is not run while a model is compiled, trusted or not: nobody needs it for that."""
    does = reaches_outside(operator)
    if does:
        raise UntrustedError(f"the model calls {operator}, which {does}: that is not run while a model is compiled")


def may_count(operator: str) -> bool:
    """Whether it is an operator that takes as many steps as a number says."""
    return _COUNTS.fullmatch(operator.partition(".")[0]) is not None


def check_count(operator: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> None:
    """Raises before an operator takes as many steps as a file says."""
    name = operator.partition(".")[0].removeprefix("aten::")
    most = _MOST if may_count(name) else _COUNTS_TOO.get(name)
    if most is None:
        return
    for count in [*args[1:2], *(value for key, value in (kwargs or {}).items() if key not in ("self", "x"))]:
        if hasattr(count, "numel"):
            if (
                type(count).__name__ not in ("Tensor", "Parameter") or not count.numel()
            ):  # one of torch.export's, which nobody computes with
                continue
            count = count.max().item()
        elif hasattr(count, "node"):  # a size, which is as large as a file says that it is in its example
            count = getattr(count.node, "hint", None)
        if isinstance(count, (int, float)) and not count <= most:
            raise CaptureError(f"{operator}: expected at most {most} steps for each element, got {count}")


def only_computes(operator: str) -> bool:
    """Whether an operator ("aten::add") that TorchScript names is known to do nothing but compute."""
    namespace, _, name = operator.partition("::")
    if name == "autograd":  # to torch, a name for all of aten
        return False
    if namespace == "prim":
        return name in _PRIMS
    return namespace in _COMPUTE and not reaches_outside(operator)


def is_packed_class(type_name: str) -> bool:
    """Whether an object of a class in C++ ("__torch__.torch.classes.quantized.…") is packed weights. Others of torch's open files or
    connections when they are made."""
    found = _CLASS.match(type_name)
    return not type_name.startswith("__torch__.torch.classes") or (found is not None and found[1] in PACKED_CLASSES)
