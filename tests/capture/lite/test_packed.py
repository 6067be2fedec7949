"""Packed parameters: the attributes compute what the original runtime computed, or hold what was packed."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from penlight.capture.lite import read
from penlight.capture.lite.packed import PREFIX, unpack
from penlight.errors import CaptureError
from penlight.ir.values import Quantizer, ScriptObject, ScriptTensor, Storage, TypedList
from tests.capture.lite import legacy, make_legacy


def lite(array: np.ndarray, dtype: str = "f32", quantizer: Quantizer | None = None) -> ScriptTensor:
    array = np.ascontiguousarray(array)
    strides = tuple(s // array.itemsize for s in array.strides)
    return ScriptTensor(Storage(array.reshape(-1).view(np.uint8)), dtype, 0, array.shape, strides, quantizer)


def packed(name: str, state: object) -> dict[str, object]:
    value = ScriptObject(PREFIX + name, state=state, has_state=True)
    unpack(value, "test")
    assert not value.has_state
    assert value.state is None
    return value.attributes


def contexts(program, name: str) -> list[dict]:
    """Attributes of the packed parameters of a class, in no particular order."""
    found, left = [], [program.module, *(c for f in program.functions.values() for c in f.constants)]
    while left:
        value = left.pop(0)
        if isinstance(value, ScriptObject):
            if value.type_name == PREFIX + name:
                found.append(value.attributes)
            left += value.attributes.values()
    return found


def real(t: ScriptTensor) -> torch.Tensor:
    """As torch floats, dequantized."""
    array = torch.tensor(np.array(t.array())).float()
    if t.quantizer is None:
        return array
    if t.quantizer.axis is None:
        return (array - t.quantizer.zero_point) * t.quantizer.scale
    shape = [-1 if i == t.quantizer.axis else 1 for i in range(array.dim())]
    zero, scale = (torch.tensor(v).view(shape) for v in (t.quantizer.zero_point, t.quantizer.scale))
    return (array - zero) * scale


@pytest.mark.parametrize("version", [8, 9])
def test_xnnpack_contexts_compute_what_the_original_did(version):
    (case,) = legacy.cases(only=f"net_xnnpack.v{version}")
    program = read(case.path)
    stem, depthwise = sorted(contexts(program, "xnnpack.Conv2dOpContext"), key=lambda c: c["groups"])
    (up,) = contexts(program, "xnnpack.TransposeConv2dOpContext")
    (head,) = contexts(program, "xnnpack.LinearOpContext")
    assert (stem["stride"], stem["padding"], stem["output_min"], stem["output_max"]) == ([2, 2], [1, 1], 0.0, None)
    assert (depthwise["groups"], depthwise["padding"], depthwise["dilation"]) == (8, [2, 1], [2, 1])
    assert (depthwise["output_min"], depthwise["output_max"]) == (0.0, 6.0)
    assert (up["transposed"], up["output_padding"]) == (True, [1, 1])

    def conv(x, c):
        if c["transposed"]:
            order = ("stride", "padding", "output_padding", "groups", "dilation")
            x = F.conv_transpose2d(x, real(c["weight"]), real(c["bias"]), *(c[k] for k in order))
        else:
            order = ("stride", "padding", "dilation", "groups")
            x = F.conv2d(x, real(c["weight"]), real(c["bias"]), *(c[k] for k in order))
        low, high = c["output_min"], c["output_max"]
        return x if low is None and high is None else x.clamp(low, high)

    for call in case.calls:
        x = torch.tensor(call.args[0])
        x = conv(conv(conv(x, stem), depthwise), up) + 0.5
        x = F.linear(F.max_pool2d(x, 3, 2).mean([2, 3]), real(head["weight"]), real(head["bias"]))
        np.testing.assert_allclose(x.numpy(), call.expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["tables_8bit.v8", "tables_4bit.v8", "tables_4bit.v9"])
def test_embedding_tables_compute_what_the_original_did(name):
    (case,) = legacy.cases(only=name)
    bag, table = contexts(read(case.path), "quantized.EmbeddingPackedParamsBase")
    assert (bag["bit_rate"], table["bit_rate"]) == (int(name[7]), 8)
    indices, offsets = map(np.array, case.args)  # copies: torch warns of arrays that cannot be written
    ends = [*offsets[1:], len(indices)]
    halves = lambda x: x.half().float() if bag["bit_rate"] == 4 else x  # noqa: E731  # four bits: parameters in fp16
    scale, zero = halves(real(bag["scales"])), halves(-real(bag["scales"]) * real(bag["zero_points"]))
    numbers = bag["weight"].array()
    if bag["bit_rate"] == 4:
        numbers = np.stack([numbers & 15, numbers >> 4], 2).reshape(len(numbers), -1)
    rows = torch.tensor(np.array(numbers)).float() * scale[:, None] + zero[:, None]
    sums = [rows[indices[a:b]].sum(0) for a, b in zip(offsets, ends, strict=True)]
    words = (real(table["weight"]) - real(table["zero_points"])[:, None]) * real(table["scales"])[:, None]
    found = torch.stack(sums) + words[indices[: len(offsets)]]
    np.testing.assert_allclose(found.numpy(), case.expected, rtol=1e-5, atol=1e-5)


def test_quantized_parameters_are_those_that_torch_unpacks(tmp_path):
    """Linear (int8 and fp16), recurrent cells, convolutions: against torch's own unpack()."""
    engine = torch.backends.quantized.engine
    try:
        make_legacy.make(str(tmp_path), ["dynamic_fbgemm", "dynamic_fp16", "static_fbgemm"])
        torch.backends.quantized.engine = "fbgemm"
        count = 0
        for name in ("dynamic_fbgemm", "dynamic_fp16", "static_fbgemm"):
            for version in (8, 9):
                count += _compare(tmp_path / f"{name}.v8.ptl", tmp_path / f"{name}.v{version}.ptl")
        assert count == 2 * (2 + 2 + 5)
    finally:
        torch.backends.quantized.engine = engine


def _compare(reference, path) -> int:
    """Compares every packed parameter of two files with the same module; how many there are."""
    count = 0

    def visit(a, b):
        nonlocal count
        for key, value in b.attributes.items():
            if not isinstance(value, ScriptObject):
                continue
            other = getattr(
                a, "_packed_params" if key.isdigit() and value.is_custom else key
            )  # made by __setstate__: slots have no names
            assert not value.has_state
            if value.is_custom and hasattr(other, "unpack"):
                count += 1
                weight, bias = other.unpack()
                expected = weight.dequantize() if weight.is_quantized else weight
                np.testing.assert_allclose(
                    real(value.attributes["weight"]).numpy(), expected.detach().numpy(), rtol=1e-6
                )
                assert (value.attributes["bias"] is None) == (bias is None)
                if bias is not None:
                    np.testing.assert_array_equal(real(value.attributes["bias"]).numpy(), bias.detach().numpy())
                for field in ("stride", "padding", "dilation", "output_padding", "groups"):
                    if field in value.attributes:
                        expected = getattr(other, field)()
                        assert value.attributes[field] == (expected if isinstance(expected, int) else list(expected))
            elif not value.is_custom:
                visit(other, value)

    visit(torch.jit.load(str(reference)), read(path).module)
    return count


def test_recurrent_cells():
    cells = contexts(read(legacy.FIXTURES / "dynamic_qnnpack.v8.ptl"), "rnn.CellParamsBase")
    cells.sort(key=lambda c: -c["weight_ih"].shape[0])
    shapes = [(c["kind"], c["weight_ih"].shape, c["weight_hh"].shape, c["bias_ih"].shape) for c in cells]
    assert shapes == [("quantized_dynamic", (16, 7), (16, 4), (16,)), ("quantized_dynamic", (9, 4), (9, 3), (9,))]
    assert all(c["weight_ih"].dtype == "i8" and c["weight_ih"].quantizer and c["reduce_range"] for c in cells)


W, B = lite(np.zeros((4, 2, 3, 3), np.float32)), lite(np.zeros(4, np.float32))
QW = lite(np.zeros((4, 2, 3, 3), np.int8), "i8", Quantizer(0.5, 0))


ROWS = Quantizer((1.0, 1.0), (0.5, 0.5), 0)
TABLE = ScriptTensor(Storage(np.zeros(1, np.uint8)), "u8", 0, (2, 1000), (0, 0), ROWS)
ODD = ScriptTensor(Storage(np.zeros(3, np.uint8)), "u4x2", 0, (2, 3), (3, 1), ROWS)


def ints(*values):
    return TypedList(values, "List[int]")


def test_layouts_of_the_quantized_convolution():
    """Three of them, of torch 1.4 to now."""
    number = lambda n: lite(np.array([n], np.int16), "i16")  # noqa: E731
    numbers = [2, 2, 1, 1, 0, 3, 3, 0, 0, 4, 0]
    states = [
        (QW, B, [number(2), number(1)], [number(1), number(0)], [number(3), number(3)], number(4)),
        ("2", [lite(np.array(numbers, np.int16), "i16"), QW], [B]),
        (3, ints(*numbers), [None, QW, B]),
    ]
    for state in states:
        made = packed("quantized.Conv2dPackedParamsBase", state)
        assert (made["stride"], made["padding"], made["dilation"], made["output_padding"]) == (
            [2, 1],
            [1, 0],
            [3, 3],
            [0, 0],
        )
        assert (made["groups"], made["transposed"], made["weight"], made["bias"]) == (4, False, QW, B)
    transposed = packed("quantized.Conv2dPackedParamsBase", (3, ints(*numbers[:-1], 1), [None, QW, None]))
    assert (transposed["transposed"], transposed["bias"]) == (True, None)


def test_vulkan_and_metal_contexts():
    two = ints(2, 1), ints(1, 0), ints(1, 1)
    for name in ("metal.Conv2dOpContext", "vulkan.Conv2dOpContext"):
        made = packed(name, (W, B, *two, 1, None, 6))
        assert (made["stride"], made["padding"], made["output_max"], made["transposed"]) == ([2, 1], [1, 0], 6.0, False)
    made = packed("vulkan.Conv2dPackedContext", [W, None, *two, True, False, ints(1, 1), 2, 0.0, None])
    assert (made["bias"], made["transposed"], made["output_padding"], made["groups"]) == (None, True, [1, 1], 2)
    made = packed(
        "vulkan.Conv1dPackedContext", [lite(np.zeros((4, 2, 3), np.float32)), B, ints(2), ints(1), ints(1), 1]
    )
    assert (made["stride"], made["output_padding"]) == ([2], [0])
    made = packed("metal.LinearOpContext", (lite(np.zeros((4, 3), np.float32)), B, None, None))
    assert made["weight"].shape == (4, 3)
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)  # [in, out]
    made = packed("vulkan.LinearPackedContext", [lite(weight), B])
    np.testing.assert_array_equal(made["weight"].array(), weight.T)
    made = packed("vulkan.BatchNormPackedContext", [B, B, B, B, 1e-5])
    assert (made["running_var"], made["eps"]) == (B, 1e-5)
    made = packed("vulkan.LayernormPackedContext", [B, None, 1e-5])
    assert made["bias"] is None
    made = packed("vulkan.LstmPackedContext", [[B, B], True, 1, 0.0, False, False, True])
    assert (made["num_layers"], made["batch_first"]) == (1, True)


def test_cells_of_the_oldest_kind():
    weight = lite(np.zeros((8, 2), np.int8), "i8")
    state = ("quantized", [weight, weight, B, B, B, B], [0.5, 0.25], ints(3, 4), [])
    made = packed("rnn.CellParamsBase", state)
    assert (made["weight_ih"].quantizer, made["weight_hh"].quantizer) == (Quantizer(0.5, 3), Quantizer(0.25, 4))


def test_unknown_classes_keep_their_state():
    value = ScriptObject(PREFIX + "mine.Thing", state=(1, 2), has_state=True)
    unpack(value, "test")
    assert (value.has_state, value.state) == (True, (1, 2))


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("xnnpack.Conv2dOpContext", None),
        ("xnnpack.Conv2dOpContext", ()),
        ("xnnpack.Conv2dOpContext", (W, B, ints(1, 1), ints(0, 0), ints(1, 1), 1, None)),
        ("xnnpack.Conv2dOpContext", (W, B, ints(1, 1), ints(0, 0), ints(1, 1), 1, None, "high")),
        ("xnnpack.Conv2dOpContext", (W, B, ints(0, 1), ints(0, 0), ints(1, 1), 1, None, None)),
        ("xnnpack.Conv2dOpContext", (W, B, ints(1, 1, 1), ints(0, 0), ints(1, 1), 1, None, None)),
        ("xnnpack.Conv2dOpContext", (W, B, ints(1, 1), ints(0, 0), ints(1, 1), 0, None, None)),
        ("xnnpack.Conv2dOpContext", (B, B, ints(), ints(), ints(), 1, None, None)),
        ("xnnpack.Conv2dOpContext", (W, B, "1", ints(0, 0), ints(1, 1), 1, None, None)),
        ("quantized.LinearPackedParamsBase", (1, None)),
        ("quantized.LinearPackedParamsBase", (W, B, B)),
        ("quantized.Conv2dPackedParamsBase", ("2", [W], [])),
        ("quantized.Conv2dPackedParamsBase", ("4", [W], [])),
        ("quantized.Conv2dPackedParamsBase", (3, ints(2, 1), [None, QW, None])),
        ("quantized.Conv2dPackedParamsBase", (3, ints(9), 7)),
        ("quantized.EmbeddingPackedParamsBase", (1, [W], [], ints(8))),
        ("quantized.EmbeddingPackedParamsBase", (2, [W], [], ints(8))),
        ("quantized.EmbeddingPackedParamsBase", (1, [TABLE], [], ints(8))),
        ("quantized.EmbeddingPackedParamsBase", (1, [ODD], [], ints(4))),
        ("rnn.CellParamsBase", ("other", [], [], [], [])),
        (
            "rnn.CellParamsBase",
            ("quantized_dynamic", [], [], [], [ScriptObject("__torch__.M"), ScriptObject("__torch__.M")]),
        ),
    ],
)
def test_states_that_do_not_fit_are_errors(name, state):
    with pytest.raises(CaptureError, match=name):
        packed(name, state)
