"""torch.utils.mobile_optimizer: optimize_for_mobile and the lints, with PyTorch's signatures, exceptions and texts.

The result is a compiled model (mobile_module.py); it needs no XNNPACK, Vulkan or Metal in the torch that makes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any

import torch

from penlight.compat.mobile_module import FLAGS, MobileModule
from penlight.compat.rewrite import clone, optimized_module
from penlight.compile import compile_model
from penlight.errors import ArgumentError

__all__ = ["LintCode", "MobileOptimizerType", "generate_mobile_module_lints", "optimize_for_mobile"]

try:
    from torch._C import _MobileOptimizerType as MobileOptimizerType
except ImportError:  # a torch that has dropped it

    class MobileOptimizerType(Enum):  # type: ignore[no-redef]
        CONV_BN_FUSION = 0
        INSERT_FOLD_PREPACK_OPS = 1
        REMOVE_DROPOUT = 2
        FUSE_ADD_RELU = 3
        HOIST_CONV_PACKED_PARAMS = 4
        CONV_1D_TO_2D = 5
        VULKAN_AUTOMATIC_GPU_TRANSFER = 6


class LintCode(Enum):
    BUNDLED_INPUT = 1
    REQUIRES_GRAD = 2
    DROPOUT = 3
    BATCHNORM = 4


def optimize_for_mobile(
    script_module: torch.jit.ScriptModule,
    optimization_blocklist: Collection[MobileOptimizerType | str] | None = None,
    preserved_methods: Sequence[str | bytes] | None = None,
    backend: str = "CPU",
    *,
    winograd_budget: float = 0.5,
) -> MobileModule:
    """Compiles a ScriptModule for phones.

    optimization_blocklist: changes not to make. It decides what export_opnames shows; the compiled model computes the same.
    preserved_methods: methods besides forward to keep. Those with bundled inputs stay by themselves.
    backend: "CPU", "Vulkan" or "Metal". The file records it.
    winograd_budget: as penlight.optimize takes it; PyTorch's own has no such argument.
    """
    if not isinstance(script_module, torch.jit.ScriptModule):
        raise TypeError(f"Got {type(script_module)}, but ScriptModule is expected.")
    kept = [name.decode() if isinstance(name, bytes) else str(name) for name in preserved_methods or ()]
    missing = [name for name in kept if not hasattr(script_module, name)]
    if missing:
        raise AttributeError(f"The following methods to preserve do not exist in script_module: {', '.join(missing)}")
    backend = backend.lower()
    if backend not in FLAGS:
        raise TypeError("Unknown backend, must be one of 'CPU', 'Vulkan' or 'Metal'")
    kept_methods = [name for name in kept if script_module._c._has_method(name)]
    program = compile_model(
        script_module, methods=kept_methods, backend=backend, fallback="cpu", winograd_budget=winograd_budget
    )
    script = clone(script_module)
    script.eval()
    methods = tuple(program.public_methods)
    attributes = {name: getattr(script, name) for name in kept if name not in methods}
    blocked = frozenset(_blocked_name(kind) for kind in optimization_blocklist or ())
    optimized = optimized_module(script, backend, blocked, [*methods, *attributes])
    return MobileModule(script, optimized, program, methods, attributes, backend, blocked)


def _blocked_name(kind: Any) -> str:
    """Of a MobileOptimizerType, or of its name."""
    name = kind if isinstance(kind, str) else getattr(kind, "name", None)
    known = list(MobileOptimizerType.__members__)  # type: ignore[attr-defined]
    if name not in known:
        raise ArgumentError(
            f"optimization_blocklist: expected members of MobileOptimizerType or their names, {', '.join(known)}; got {kind!r}"
        )
    return str(name)


def generate_mobile_module_lints(script_module: torch.jit.ScriptModule) -> list[dict[str, str]]:
    """What should be mended before a module goes to a phone, as PyTorch says it. `penlight lint` says more."""
    if not isinstance(script_module, torch.jit.ScriptModule | MobileModule):
        raise TypeError(f"Got {type(script_module)}, but ScriptModule is expected.")
    found = []

    def lint(code: LintCode, message: str) -> None:
        found.append({"name": code.name, "message": message})

    bundled = ("_generate_bundled_inputs_for_forward", "get_all_bundled_inputs_for_forward")
    if not any(hasattr(script_module, name) for name in bundled):
        lint(
            LintCode.BUNDLED_INPUT,
            "No bundled input for forward, please add bundled inputs before saving the module using "
            "torch.utils.bundled_inputs.augment_model_with_bundled_inputs.",
        )
    parameters: Any = () if isinstance(script_module, MobileModule) else script_module.named_parameters()
    for name, parameter in parameters:
        if parameter.requires_grad:
            lint(
                LintCode.REQUIRES_GRAD,
                f"Param {name} requires grad, please set torch.no_grad() to reduce memory usage and improve computation "
                "speed during inference phase.",
            )
    for op in torch.jit.export_opnames(script_module):
        if "dropout" in op:
            lint(
                LintCode.DROPOUT,
                f"Operator {op} exists, remember to call eval() before saving the module.and call "
                "torch.utils.mobile_optimizer.optimize_for_mobile to drop dropout operator.",
            )
        if "batch_norm" in op:
            lint(
                LintCode.BATCHNORM,
                f"Operator {op} exists, remember to call eval() before saving the module and call "
                "torch.utils.mobile_optimizer.optimize_for_mobile to drop batch_norm operator.",
            )
    return found
