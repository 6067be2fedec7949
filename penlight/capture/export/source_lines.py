"""Where in the user's code a call came from: `net.py:12, in forward: x = self.conv(x)  [features.3.conv]`.

torch records Python's stack for each node. The innermost frame outside of torch is the line that its author knows; the
name of the layer, from the stack of modules, tells apart the many layers that share one line.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any

import torch
import torch.fx

# Under this key, capture of TorchScript leaves its own line (torch.fx.traceback.annotate).
ANNOTATION = "penlight_source"
_TORCH = os.path.dirname(torch.__file__) + os.sep
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n?\s*(?P<code>[^\n]*)')


def source_of(node: torch.fx.Node) -> str:
    """The line for a node of an exported graph; "" where torch recorded none."""
    annotated: str = (node.meta.get("custom") or {}).get(ANNOTATION, "")
    if annotated:
        return annotated + (f"  [{_layer(node)}]" if _layer(node) else "")
    return _user_line(node.meta.get("stack_trace") or "", _layer(node))


def describe(file: str, line: int | str, function: str, code: str, layer: str = "") -> str:
    text = f"{os.path.basename(file)}:{line}, in {function}" + (f": {code.strip()}" if code.strip() else "")
    return f"{text}  [{layer}]" if layer else text


def is_torch(file: str) -> bool:
    return file.startswith((_TORCH, "torch" + os.sep)) or file.startswith("<")


@lru_cache(maxsize=4096)
def _user_line(stack: str, layer: str) -> str:
    frames = list(_FRAME.finditer(stack))
    outside = [f for f in frames if not is_torch(f["file"])]
    chosen = (outside or frames)[-1:]
    return (
        describe(chosen[0]["file"], chosen[0]["line"], chosen[0]["function"], chosen[0]["code"], layer)
        if chosen
        else ""
    )


def _layer(node: torch.fx.Node) -> str:
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    return paths[-1] if paths else ""
