"""The module that PyTorch's mobile optimizer would leave: its graph with the operators of that backend, by their names.

torch's own passes do what they still do in a stock build (conv + batch norm folding, freezing, dropout, add + relu, conv1d as
conv2d). Those that need XNNPACK, Vulkan or Metal compiled in are done here, on the same TorchScript graph: a convolution becomes
`prepacked::conv2d_clamp_run`, its weights go into the context, a relu behind it goes into its limits. Operators that this
torch does not have are declared under their real names, without a kernel: enough for torch.jit.export_opnames to name them.
The result is for reading only; what runs is the compiled model (mobile_module.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch

jit: Any = torch._C  # torch's types leave out most of these functions

CONV_BN_FUSION, INSERT_FOLD_PREPACK_OPS, REMOVE_DROPOUT, FUSE_ADD_RELU = (
    "CONV_BN_FUSION", "INSERT_FOLD_PREPACK_OPS", "REMOVE_DROPOUT", "FUSE_ADD_RELU",
)  # fmt: skip
CONV_1D_TO_2D, VULKAN_AUTOMATIC_GPU_TRANSFER = "CONV_1D_TO_2D", "VULKAN_AUTOMATIC_GPU_TRANSFER"


@dataclass(frozen=True)
class Packing:
    """An operator whose parameters go into a context: `prepack` makes it, `run` takes it and the tensors in `data`."""

    prepack: str
    run: str
    data: tuple[int, ...] = (0,)  # arguments that stay with run
    takes_clamp: bool = False


_CPU = {
    "aten::linear": Packing("prepacked::linear_clamp_prepack", "prepacked::linear_clamp_run", takes_clamp=True),
    "aten::conv2d": Packing("prepacked::conv2d_clamp_prepack", "prepacked::conv2d_clamp_run", takes_clamp=True),
    "aten::conv_transpose2d": Packing("prepacked::conv2d_transpose_clamp_prepack", "prepacked::conv2d_transpose_clamp_run"),
}  # fmt: skip
_METAL = {
    "aten::linear": Packing("metal_prepack::linear_prepack", "metal_prepack::linear_run", takes_clamp=True),
    "aten::conv2d": Packing("metal_prepack::conv2d_prepack", "metal_prepack::conv2d_run", takes_clamp=True),
}


def _vulkan(name: str, data: tuple[int, ...] = (0,), takes_clamp: bool = False) -> Packing:
    return Packing(f"vulkan_prepack::create_{name}_context", f"vulkan_prepack::run_{name}_context", data, takes_clamp)


def _vulkan_quantized(name: str, run: str) -> Packing:
    return Packing(f"vulkan_quantized_prepack::convert_{name}_context", f"vulkan_prepack::run_{run}_context", (0, 2, 3))


_VULKAN = {
    "aten::batch_norm": _vulkan("batchnorm"),
    "aten::linear": _vulkan("linear"),
    "aten::layer_norm": _vulkan("layernorm", (0, 1)),
    "aten::conv1d": _vulkan("conv1d"),
    "aten::conv2d": _vulkan("conv2d", takes_clamp=True),
    "aten::conv_transpose2d": _vulkan("tconv2d"),
    "aten::gru": _vulkan("gru", (0, 1)),
    "aten::lstm": _vulkan("lstm", (0, 1)),
    "quantized::conv2d": _vulkan_quantized("qconv2d", "qconv2d"),
    "quantized::conv2d_relu": _vulkan_quantized("qconv2d", "qconv2d"),
    "quantized::conv_transpose2d": _vulkan_quantized("qtconv2d", "qconv2d"),
    "quantized::linear": _vulkan_quantized("linear", "qlinear"),
}
_VULKAN_RENAMED = {"quantized::add": "vulkan_quantized::add", "quantized::mul": "vulkan_quantized::mul"}
_PACKINGS = {"cpu": _CPU, "vulkan": _VULKAN, "metal": _METAL}
_CLAMPS = (("aten::relu", "aten::relu_"), ("aten::hardtanh", "aten::hardtanh_"))


def optimized_module(
    script: torch.jit.ScriptModule, backend: str, blocked: Collection[str] = (), preserved: Collection[str] = ()
) -> Any:
    """A torch._C.ScriptModule with the operators that optimize_for_mobile leaves. `blocked`: names of MobileOptimizerType."""
    module = clone(script)
    module.eval()
    c = module._c
    if backend == "cpu" and CONV_1D_TO_2D not in blocked:
        jit._jit_pass_transform_conv1d_to_conv2d(c)
    if backend != "cpu" or CONV_BN_FUSION not in blocked:
        c = jit._jit_pass_fold_convbn(c)
    kept = [name for name in preserved if name != "forward"]
    c = jit._freeze_module(c, kept, True, False)
    packs = backend != "cpu" or INSERT_FOLD_PREPACK_OPS not in blocked
    for name in _method_names(c):
        graph = c._get_method(name).graph
        if backend != "metal":  # which was written for addmm as it comes: what the 2020 tutorial lists
            jit._jit_pass_fuse_linear(graph)
        if packs:
            name_convolutions(graph)
            packed = _pack(graph, backend)
            if backend == "cpu" or name == "forward":
                _fuse_clamps(graph, packed)
    if (backend != "cpu" or REMOVE_DROPOUT not in blocked) and c._has_method("forward"):
        jit._jit_pass_remove_dropout(c)
    for name in _method_names(c):
        graph = c._get_method(name).graph
        if backend != "cpu" and name == "forward":
            jit._jit_pass_remove_mutation(graph)
        if backend == "vulkan" and name == "forward" and VULKAN_AUTOMATIC_GPU_TRANSFER not in blocked:
            _transfer(graph)
        if backend == "metal" and name == "forward":
            _assume_no_exception(graph)
            _index_sizes(graph)
            _copy_to_host(graph)
        _simplify(graph)
        if backend == "cpu" and FUSE_ADD_RELU not in blocked:
            jit._jit_pass_fuse_add_relu(graph)
    return c


def clone(script: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """Another module with the same tensors: passes and eval() on it leave the original alone."""
    return torch.jit._recursive.wrap_cpp_module(jit._hack_do_not_use_clone_module_with_class(script._c, [], []))  # type: ignore[no-any-return]


def _method_names(c: Any) -> list[str]:
    return list(c._method_names())


def nodes(block: Any) -> Iterator[Any]:
    """All nodes in order, those in blocks inside too. The caller may destroy the one that it was just given."""
    for node in list(block.nodes()):
        inside = list(node.blocks())
        yield node
        for inner in inside:
            yield from nodes(inner)


def constant(value: Any) -> bool:
    return bool(value.node().kind() == "prim::Constant")


# --- prepacking ---
def name_convolutions(graph: Any) -> None:
    """aten::_convolution, which tracing records, becomes the conv1d … conv_transpose3d that it stands for."""
    for node in nodes(graph):
        if node.kind() != "aten::_convolution":
            continue
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = list(node.inputs())[:9]
        if not constant(transposed) or not constant(stride) or not 1 <= len(stride.toIValue()) <= 3:
            continue
        rank = len(stride.toIValue())
        if transposed.toIValue():
            kind, inputs = "aten::conv_transpose", [x, weight, bias, stride, padding, output_padding, groups, dilation]
        else:
            kind, inputs = "aten::conv", [x, weight, bias, stride, padding, dilation, groups]
        _replace(graph, node, f"{kind}{rank}d", inputs)


def _pack(graph: Any, backend: str) -> dict[str, Any]:
    """Replaces what the backend packs; the run nodes that can take a clamp, by the name of their result."""
    packings, clampable = _PACKINGS[backend], {}
    sharing: dict[tuple[str, ...], list[str]] = {}  # contexts that are the same: with two readers, none takes a clamp
    for node in nodes(graph):
        if backend == "vulkan" and node.kind() in _VULKAN_RENAMED:
            _replace(graph, node, _VULKAN_RENAMED[node.kind()], list(node.inputs()))
        packing = packings.get(node.kind())
        if packing is None or not _packable(node):
            continue
        inputs = list(node.inputs())
        parameters = [v for i, v in enumerate(inputs) if i not in packing.data]
        fixed = all(constant(v) for v in parameters)
        kept = [inputs[i] for i in packing.data]
        if not fixed:  # weights that are computed: packed anew in every run
            made = _node(graph, packing.prepack, parameters, before=node)
            kept.append(made.output())
        run = _replace(graph, node, packing.run, kept)
        # torch folds a linear's constant weights before it looks for clamps, and then finds none; a convolution's later.
        if packing.takes_clamp and not (backend == "cpu" and fixed and packing is _CPU["aten::linear"]):
            result = run.output().debugName()
            clampable[result] = run
            sharing.setdefault((packing.prepack, *(v.debugName() for v in parameters)), []).append(result)
    if backend != "vulkan":  # there, equal contexts are not merged before
        for readers in sharing.values():
            for result in readers if len(readers) > 1 else ():
                del clampable[result]
    return clampable


def _packable(node: Any) -> bool:
    """aten::conv2d with padding="same" is another overload, aten::lstm and gru of packed sequences too."""
    schema = node.schema()
    return ".padding(" not in schema and ".data(" not in schema


def _fuse_clamps(graph: Any, clampable: dict[str, Any]) -> None:
    """relu and hardtanh behind a run node that nothing else reads become limits of its context; one for each."""
    for kinds in _CLAMPS:
        for node in nodes(graph):
            if node.kind() not in kinds or not all(constant(v) for v in list(node.inputs())[1:]):
                continue
            source = node.inputsAt(0)
            if source.debugName() in clampable and len(source.uses()) == 1:
                del clampable[source.debugName()]
                node.output().replaceAllUsesWith(source)
                node.destroy()


# --- GPU backends ---
def _transfer(graph: Any) -> None:
    """Inputs go to the GPU before their first use, results come back."""
    first = next(iter(graph.nodes()), None)
    for value in list(graph.inputs())[1:]:
        if value.type().kind() == "TensorType" and value.uses() and first is not None:
            moved = _node(graph, "aten::to", [value, *_to_device(graph, "vulkan", first)], before=first)
            moved.output().setType(value.type())
            value.replaceAllUsesAfterNodeWith(moved, moved.output())
    end = graph.return_node()
    for i, value in enumerate(list(graph.outputs())):
        if value.type().kind() == "TensorType":
            back = _node(graph, "aten::to", [value, *_to_device(graph, "cpu", end)], before=end)
            end.replaceInput(i, back.output())


def _to_device(graph: Any, device: str, before: Any) -> list[Any]:
    """The rest of aten::to.prim_Device's arguments: device, dtype, non_blocking, copy."""
    values = []
    for value in (torch.device(device), None, False, False):
        made = graph.insertConstant(value)
        made.node().moveBefore(before)
        values.append(made)
    return values


def _copy_to_host(graph: Any) -> None:
    end = graph.return_node()
    for i, value in enumerate(list(graph.outputs())):
        if value.type().kind() == "TensorType":
            end.replaceInput(i, _node(graph, "metal::copy_to_host", [value], before=end).output())


def _assume_no_exception(graph: Any) -> None:
    """Drops checks that do nothing but raise, with what only they read. torch.nn.functional has gained such checks since
    Metal models were first written (the rank in adaptive_avg_pool2d); there they are no part of the model's operators."""
    branches = [n for n in nodes(graph) if n.kind() == "prim::If" and not list(n.outputs())]
    for node in reversed(branches):  # inner ones first
        if all(_only_raises(b) for b in node.blocks()):
            node.destroy()
    jit._jit_pass_dce(graph)


def _only_raises(block: Any) -> bool:
    return all(n.kind() in ("prim::RaiseException", "aten::format", "prim::Constant") for n in block.nodes())


def _index_sizes(graph: Any) -> None:
    """x.size()[i] with a constant i is x.size(i), where the list has no other use."""
    for node in nodes(graph):
        if node.kind() != "aten::__getitem__" or not constant(node.inputsAt(1)):
            continue
        sizes = node.inputsAt(0)
        if sizes.node().kind() != "aten::size" or any(u.user.kind() != "aten::__getitem__" for u in sizes.uses()):
            continue
        made = _node(graph, "aten::size", [sizes.node().inputsAt(0), node.inputsAt(1)], before=node)
        made.output().setType(node.output().type())
        node.output().replaceAllUsesWith(made.output())
        node.destroy()


def _simplify(graph: Any) -> None:
    """What torch calls canonical optimisations."""
    jit._jit_pass_dce(graph)
    jit._jit_pass_cse(graph)
    jit._jit_pass_peephole(graph)
    jit._jit_pass_constant_propagation_immutable_types(graph)
    jit._jit_pass_constant_pooling(graph)
    jit._jit_pass_dce(graph)


# --- nodes of operators that may not exist here ---
def _replace(graph: Any, node: Any, kind: str, inputs: list[Any]) -> Any:
    made = _node(graph, kind, inputs, before=node, outputs=node.outputsSize())
    for old, new in zip(node.outputs(), made.outputs(), strict=True):
        new.setType(old.type())
        old.replaceAllUsesWith(new)
    node.destroy()
    return made


def _node(graph: Any, kind: str, inputs: list[Any], before: Any, outputs: int = 1) -> Any:
    if not kind.startswith("aten::"):
        _declare(kind, outputs)
    made = graph.create(kind, inputs, outputs)
    made.insertBefore(before)
    return made


_libraries: dict[str, torch.library.Library] = {}  # declarations last as long as their Library


def _declare(kind: str, outputs: int) -> None:
    """Makes an operator known to torch, without a kernel and with any arguments."""
    if jit._jit_get_schemas_for_operator(kind):
        return
    namespace, name = kind.split("::")
    if namespace not in _libraries:
        _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    returns = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    _libraries[namespace].define(f"{name}(...) -> {returns}")
