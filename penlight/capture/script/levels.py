"""Which levels dynamically quantized code uses: 256, or 128 where it asks for reduce_range and torch's engine listens.

    quantized::linear_dynamic(x, packed, reduce_range=True)   ->   reduce_range=False

torch.ao.quantization.quantize_dynamic always asks for it. fbgemm, x86 and onednn do as they are told; qnnpack, the engine of phones, does not
(torch says so in a warning). The engine is no part of a model. So a module in memory gives what torch gives here, by the
engine that is set; files were written for phones, and give what PyTorch Mobile gave: the flag is taken out of them. Single cells
(nn.LSTMCell) have no flag, and take 128 levels where the engine listens: their weights are marked with it.
"""

from __future__ import annotations

import re

from penlight.capture.lite.read import objects_in
from penlight.ir.script import Const, Script

FLAGS = {
    "quantized::linear_dynamic": 2,
    "quantized::linear_relu_dynamic": 2,
    "_quantized::linear_dynamic": 2,
    "aten::quantize_per_tensor_dynamic": 2,
    "aten::_choose_qparams_per_tensor": 1,
    "quantized::make_quantized_cell_params_dynamic": 4,
}
"""By operator: which argument is reduce_range."""

_CELLS = re.compile(r"quantized::quantized_\w+_cell_dynamic")


def use_engine_levels(script: Script) -> None:
    """Those of torch's engine, as it is set."""
    import torch

    if torch.backends.quantized.engine == "qnnpack":
        use_all_levels(script)
    elif any(a.op == "op" and _CELLS.fullmatch(a.target) for f in script.functions.values() for a in f.code):
        for each in objects_in([script.module, *script.constants]):
            if each.type_name.endswith(".quantized.LinearPackedParamsBase"):
                each.attributes["reduce_range"] = True


def use_all_levels(script: Script) -> None:
    for function in script.functions.values():
        for action in function.code:
            at = FLAGS.get(action.target) if action.op == "op" else None
            if at is not None and at < len(action.args) and isinstance(action.args[at], Const):
                action.args[at] = script.constant(False)
    for each in objects_in([script.module, *script.constants]):
        if each.attributes.get("reduce_range") is True:
            each.attributes["reduce_range"] = False
