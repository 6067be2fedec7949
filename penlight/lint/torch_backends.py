"""Which operators PyTorch's GPU backends had, and which of TorchScript's need no device at all."""

from __future__ import annotations

_VULKAN = """_log_softmax _softmax _adaptive_avg_pool2d _empty_affine_quantized _local_scalar_dense _reshape_alias abs abs_ add.Scalar
add.Tensor add_.Scalar add_.Tensor addmm avg_pool2d baddbmm batch_norm bmm cat clamp clamp_ clone conv1d cumsum dequantize.self div.Scalar
div.Tensor div_.Scalar div_.Tensor empty.memory_format empty_strided exp exp_ expand expand_as flip floor_divide floor_divide.Scalar
floor_divide_.Scalar floor_divide_.Tensor gelu gelu_ glu gru.input hardshrink hardshrink_ hardsigmoid hardsigmoid_ hardswish hardswish_
hardtanh hardtanh_ layer_norm leaky_relu leaky_relu_ lerp.Scalar lerp.Tensor lerp_.Scalar lerp_.Tensor log log_ lstm.input
masked_fill.Scalar masked_fill.Tensor max_pool2d mean.dim mm mul.Scalar mul.Tensor mul_.Scalar mul_.Tensor native_layer_norm normal_ permute
pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor pow_.Scalar pow_.Tensor q_scale q_zero_point quantize_per_tensor
quantize_per_tensor.tensor_qparams rand_like randn_like reflection_pad2d relu relu_ repeat replication_pad2d select.int sigmoid sigmoid_
slice.Tensor sqrt sqrt_ stack sub.Scalar sub.Tensor sub_.Scalar sub_.Tensor sum sum.dim_IntList t tanh tanh_ threshold tile transpose.int
uniform_ unsqueeze upsample_bilinear2d upsample_nearest2d var.dim view zero_ zeros convolution_overrideable"""
# Taken apart by torch before the backend sees them.
_VULKAN_COMPOSED = """conv2d conv_transpose2d linear softmax.int log_softmax.int reshape flatten.using_ints adaptive_avg_pool2d relu6 relu6_
dropout dropout_ contiguous chunk split.Tensor narrow matmul upsample_nearest2d.vec upsample_bilinear2d.vec square rsub.Scalar rsub.Tensor
to.dtype to.device to.prim_Device detach squeeze.dim"""
_METAL = """adaptive_avg_pool2d add.Tensor add_.Tensor addmm cat chunk clamp detach div.Tensor div_.Tensor empty.memory_format empty_strided
flatten.using_ints hardshrink hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_ leaky_relu leaky_relu_ log_softmax.int max_pool2d
mean.dim mul.Tensor mul_.Tensor reflection_pad2d relu relu_ reshape sigmoid softmax.int sub.Tensor sub_.Tensor t tanh transpose.int
upsample_nearest2d.vec view"""
_METAL_COMPOSED = "conv2d linear dropout dropout_ contiguous relu6 relu6_"
_PREPACKED = {"vulkan": ("vulkan_prepack::", "vulkan_quantized::"), "metal": ("metal_prepack::", "metal::")}
_OPERATORS = {
    "vulkan": frozenset(f"aten::{name}" for name in f"{_VULKAN} {_VULKAN_COMPOSED}".split()),
    "metal": frozenset(f"aten::{name}" for name in f"{_METAL} {_METAL_COMPOSED}".split()),
}
GPUS = tuple(_OPERATORS)

# On numbers, strings, lists and shapes: these run in the interpreter, on any backend.
_ALWAYS = "size dim stride numel Int Float Bool item ScalarImplicit IntImplicit FloatImplicit is_nonzero"
_NAMES = """len is_floating_point is_complex is_quantized __getitem__ _set_item append extend insert pop clear reverse keys values items get
__contains__ format join split strip lower upper startswith endswith replace list dict copy warn __isnot__ __is__ __not__ __and__ __or__
__xor__ floordiv mathremainder range_length ceil floor neg round str ord chr hash is_autocast_enabled is_autocast_cpu_enabled
is_grad_enabled is_scripting Delete update setdefault popitem index count all any is_contiguous storage_offset"""
_OVERLOADS = """int float str bool t int_list str_list float_list bool_list int_int int_float float_int self_int self_float device Device
enum str_int"""
_HOST_ALWAYS, _HOST_NAMES, _HOST_OVERLOADS = (frozenset(text.split()) for text in (_ALWAYS, _NAMES, _OVERLOADS))


def runs_on(backend: str, operator: str) -> bool:
    """Whether PyTorch's Vulkan or Metal backend could run an operator ("aten::add.Tensor")."""
    if is_host(operator) or operator.startswith(_PREPACKED[backend]):
        return True
    return operator in _OPERATORS[backend]


def is_host(operator: str) -> bool:
    """Whether it is about numbers, containers or shapes, not tensors' elements."""
    namespace, _, rest = operator.partition("::")
    short, _, overload = rest.partition(".")
    if namespace == "prim":
        return True
    if short in _HOST_ALWAYS:
        return True
    return overload in _HOST_OVERLOADS if short not in _HOST_NAMES else overload not in ("Tensor", "dim", "dims", "out")
