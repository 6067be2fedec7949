"""PyTorch Mobile's names on Penlight: optimize_for_mobile, bundled inputs, the lite interpreter's loader, lints.

>>> import penlight.compat
>>> penlight.compat.install()   # puts them where torch had them
>>> from torch.utils.mobile_optimizer import optimize_for_mobile
>>> optimize_for_mobile(torch.jit.script(model))._save_for_lite_interpreter("model.ptl")

Or call them from here: `penlight.compat.optimize_for_mobile(…)`. Importing this package changes nothing in torch, nor imports it.
"""

from __future__ import annotations

import importlib
from typing import Any

from penlight.compat.patch import install, uninstall

_PLACES = {
    "mobile_optimizer": ("LintCode", "MobileOptimizerType", "generate_mobile_module_lints", "optimize_for_mobile"),
    "mobile_module": ("MobileModule",),
    "bundled_inputs": (
        "InflatableArg", "augment_many_model_functions_with_bundled_inputs", "augment_model_with_bundled_inputs", "bundle_inputs",
        "bundle_large_tensor", "bundle_randn",
    ),
    "lite": (
        "LiteScriptModule", "_export_operator_list", "_get_mobile_model_contained_types", "_get_model_bytecode_version",
        "_get_model_ops_and_info", "_load_for_lite_interpreter",
    ),
}  # fmt: skip
_HOME = {name: place for place, names in _PLACES.items() for name in names}
__all__ = ["install", "uninstall", *sorted(name for name in _HOME if not name.startswith("_"))]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"penlight.compat.{_HOME[name]}"), name)
    raise AttributeError(f"module 'penlight.compat' has no attribute {name!r}")
