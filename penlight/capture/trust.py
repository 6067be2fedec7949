"""What a model file may do before its user says that it is trusted: compute, and nothing else.

Files name operators of torch, and torch has some that reach outside of a computation: they write files, map them, talk to other
machines, or call Python. Whoever is about to let torch run what a file names asks here first; `trust=True` (`--trust`) is the user's word
that the file may do what a program may.
"""

from __future__ import annotations

import re

from penlight.errors import UntrustedError

# By operator, without namespace and overload: what it does besides computing.
_REACHES = {
    "save": "writes a file", "from_file": "maps a file, which it may create", "load_tensor": "reads a file",
    "rpc_async": "calls another machine", "rpc_sync": "calls another machine", "rpc_remote": "calls another machine",
    "PythonOp": "calls Python", "IgnoredPythonOp": "calls Python",
}  # fmt: skip
_NAMESPACES = {
    "debugprims": "reads files", "c10d": "talks to other machines", "_c10d_functional": "talks to other machines",
    "_c10d_functional_autograd": "talks to other machines", "symm_mem": "reads memory of other processes", "_dtensor": "talks to other machines",
}  # fmt: skip
PACKED_CLASSES = {"quantized", "rnn", "xnnpack", "vulkan", "metal", "sparse"}
_CLASSES = re.compile(r"\bclasses\s*\.\s*(\w+)")
_WORDS = re.compile(rf"\b(?:{'|'.join(_REACHES)}|{'|'.join(_NAMESPACES)})\b")


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


def suspicious_word(code: str) -> str:
    """The first word of TorchScript source text that may name such an operator, in whatever way, or a class of torch's that is more than packed
    weights; "" where there is none."""
    found = _WORDS.search(code) or next((m for m in _CLASSES.finditer(code) if m[1] not in PACKED_CLASSES), None)
    return found.group() if found else ""


def is_packed_class(type_name: str) -> bool:
    """Whether an object of a class in C++ ("__torch__.torch.classes.quantized.…") is packed weights. Others of torch's open files or
    connections when they are made."""
    found = _CLASSES.search(type_name)
    return found is None or found[1] in PACKED_CLASSES
