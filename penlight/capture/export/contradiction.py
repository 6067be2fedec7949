"""What an exported program says of its values that torch would not: sizes and dtypes in a file are whatever somebody wrote there.

Capture takes them as they are, and the runtime proves the result; where a step between fails on them, this says why. It is only asked then, as
it takes as long as tracing the model again.
"""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from penlight.capture.export.counts import Counts
from penlight.capture.export.tensors import described
from penlight.capture.quiet import quiet


def contradiction(program: ExportedProgram) -> str:
    """The first call whose result is not what the program says; "": there is none, as far as torch can tell."""
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        given = pytree.tree_map_only(torch.fx.Node, lambda n: n.meta.get("val"), (node.args, node.kwargs))
        fakes = [t for t in pytree.tree_leaves(given) if isinstance(t, FakeTensor)]
        mode = fakes[0].fake_mode if fakes else FakeTensorMode()
        may_run, mode.allow_fallback_kernels = (
            mode.allow_fallback_kernels,
            False,
        )  # a kernel would take the memory that sizes ask for
        try:
            with quiet(), torch.no_grad(), mode, Counts():
                made = node.target(*given[0], **given[1])
        except Exception as e:  # of arguments that do not fit, any
            return f"{node.name} = {node.target}: {type(e).__name__}: {str(e)[:300]}"
        finally:
            mode.allow_fallback_kernels = may_run
        got, said = pytree.tree_leaves(made), pytree.tree_leaves(node.meta.get("val"))
        for a, b in zip(got, said, strict=False):
            if isinstance(a, torch.Tensor) and not _same(a, b):
                return f"{node.name} = {node.target}: expected {described(b)}, as the exported program says, got {described(a)}"
        if len(got) != len(said):
            return f"{node.name} = {node.target}: expected {len(said)} results, as the exported program says, got {len(got)}"
    return ""


def _same(a: torch.Tensor, b: object) -> bool:
    """As far as their sizes are known."""
    if not isinstance(b, torch.Tensor) or a.dtype != b.dtype or a.dim() != b.dim():
        return False
    return all(m == n for m, n in zip(a.shape, b.shape, strict=True) if isinstance(m, int) and isinstance(n, int))
