"""Programs for the fuzz tests, written as IR text: together they use every family of operators, each operator with
attributes that matter. Small, so that thousands of mutations run in seconds: a few channels, a little more than a panel where panels
are what differs. No torch needed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from penlight.file.writer import write_file
from penlight.ir.parse import parse_program
from penlight.ir.types import numpy_dtype
from penlight.lower import lower
from penlight.passes.pipeline import optimize

_HEAD = 'program {{"name": "{name}"}}\n\nmethod forward\n{symbols}inputs {inputs}\noutputs {outputs}\n{states}graph forward({given}) {{\n{body}}}\n'

# name -> what the program keeps from run to run: its last inputs and outputs
STATES = {"state": ("@cache: f32[40, 32]", "@calls: i64[] = [3]", "@seen: bool[4] = [true, false, false, true]")}

ZOO: dict[str, tuple[str, str, str, int]] = {  # name -> symbols, inputs, body, number of outputs
    "convolutions": (
        "n: 1..2, h: 5..40",
        "%x: f32[n, 6, h, 9]",
        """
  @a: f32[20, 6, 3, 3]
  @b: f32[20]
  @c: f32[40, 1, 5, 3]
  @d: f32[12, 10, 1, 1]
  @e: f32[36, 6, 2, 2]
  %1: f32[n, 20, h, 9] = conv2d(%x, @a, @b, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="", act_args=[])
  %2: f32[n, 20, h, 9] = silu(%1)
  %3: f32[n, 40, h - 4, 9] = conv2d(%2, @c, none, none, stride=[1, 1], padding=[0, 1, 0, 1], dilation=[1, 1], groups=20, act="", act_args=[])
  %4: f32[n, 40, h - 4, 9] = clamp(%3, lo=0.0, hi=6.0)
  %5: f32[n, 12, h - 4, 9] = conv2d(%4, @d, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=4, act="leaky_relu", act_args=[0.1])
  %6: f32[n, 36, h - 6, 7] = conv2d(%5, @e, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[2, 2], groups=2, act="elu", act_args=[1.0, 1.0, 1.0])
  return %6, %2
""",
        2,
    ),
    "winograd": (
        "n: 1..2, h: 3..40",
        "%x: f32[n, 6, h, 9]",
        """
  @a: f32[17, 6, 3, 3]
  @b: f32[17]
  @c: f32[6, 6, 3, 3]
  @d: f32[18, 6, 3, 3]
  %1: f32[n, 17, h, 9] = conv2d(%x, @a, @b, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="silu", act_args=[]) using conv2d.f32.winograd2
  %2: f32[n, 6, h, 9] = conv2d(%x, @c, none, %x, stride=[1, 1], padding=[2, 2, 2, 2], dilation=[2, 2], groups=1, act="clamp", act_args=[0.0, 6.0]) using conv2d.f32.winograd4
  %3: f32[n, 18, h - 2, 7] = conv2d(%2, @d, none, none, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[]) using conv2d.f32.winograd6
  return %3, %1
""",
        2,
    ),
    "recurrent": (
        "t: 1..9, n: 1..4",
        "%x: f32[t, n, 7], %h: f32[n, 5]",
        """
  @i: i8[20, 7] q(0.1, 0)
  @w: i8[20, 5] q(0.1, 0)
  @b: f32[20]
  @v: i8[15, 5] q(0.2, 0)
  @f: f32[20, 5]
  %s: u8[t, n, 7] q(1.0, 0), %t: f32[2] = quantize_dynamic(%x, high=255, rule="torch", eps=0.0)
  %a: f32[t, n, 7] = dequantize_dynamic(%s, %t)
  %d: f32[20, 7] = dequantize(@i)
  %g: f32[t, n, 20] = linear(%a, %d, @b, none, act="", act_args=[])
  %y: f32[t, n, 5], %l: f32[n, 5], %c: f32[n, 5] = lstm_dynamic(%g, @w, %h, %h, @b, reverse=false, high=255, rule="torch")
  %p: f32[t, n, 15] = slice(%g, dim=2, start=0, end=15, step=1)
  %z: f32[t, n, 5], %m: f32[n, 5] = gru_dynamic(%p, @v, %l, none, reverse=true, high=127, rule="pt2e")
  %q: f32[t, n, 5], %k: f32[n, 5], %e: f32[n, 5] = lstm(%g, @f, %m, %c, none, reverse=true)
  return %y, %z, %q, %e
""",
        4,
    ),
    "integers": (
        "n: 1..2, h: 5..20",
        "%x: f32[n, 6, h, 9]",
        """
  @a: i8[20, 6, 3, 3] q(axis=0)
  @b: f32[20]
  @c: i8[20, 1, 3, 3] q(0.01, 0)
  @d: i8[20, 20, 1, 1] q(axis=0)
  @e: i8[7, 20] q(0.01, 0)
  @f: f32[7]
  @g: i8[9, 7] q(axis=0)
  %q: u8[n, 6, h, 9] q(0.02, 120) = quantize(%x, low=0, high=255)
  %1: f32[n, 6, h, 9] = dequantize(%q)
  %wa: f32[20, 6, 3, 3] = dequantize(@a)
  %2: f32[n, 20, h, 9] = conv2d(%1, %wa, @b, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=1, act="clamp", act_args=[0.0, 6.0])
  %3: u8[n, 20, h, 9] q(0.03, 0) = quantize(%2, low=0, high=255)
  %4: f32[n, 20, h, 9] = dequantize(%3)
  %wc: f32[20, 1, 3, 3] = dequantize(@c)
  %5: f32[n, 20, h, 9] = conv2d(%4, %wc, none, none, stride=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1], groups=20, act="", act_args=[])
  %6: u8[n, 20, h, 9] q(0.02, 100) = quantize(%5, low=0, high=255)
  %7: f32[n, 20, h, 9] = dequantize(%6)
  %8: f32[n, 20, h, 9] = hardswish(%7)
  %9: u8[n, 20, h, 9] q(0.01, 80) = quantize(%8, low=0, high=255)
  %10: f32[n, 20, h, 9] = dequantize(%9)
  %wd: f32[20, 20, 1, 1] = dequantize(@d)
  %11: f32[n, 20, h, 9] = conv2d(%10, %wd, none, %4, stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, act="", act_args=[])
  %12: u8[n, 20, h, 9] q(0.04, 90) = quantize(%11, low=0, high=255)
  %13: f32[n, 20, h, 9] = dequantize(%12)
  %14: f32[n, 20, h, 9] = add(%13, %10)
  %15: u8[n, 20, h, 9] q(0.05, 90) = quantize(%14, low=0, high=255)
  %16: f32[n, 20, h, 9] = dequantize(%15)
  %17: f32[n, 20, h, 9] = mul(%16, %4)
  %18: u8[n, 20, h, 9] q(0.06, 70) = quantize(%17, low=0, high=255)
  %19: f32[n, 20, h, 9] = dequantize(%18)
  %20: f32[n, 20, h - 1, 8] = max_pool2d(%19, kernel=[2, 2], stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], ceil_mode=false)
  %21: f32[n, 20, 3, 5] = adaptive_avg_pool2d(%20, size=[3, 5])
  %22: u8[n, 20, 3, 5] q(0.06, 70) = quantize(%21, low=0, high=255)
  %23: f32[n, 20, 3, 5] = dequantize(%22)
  %24: f32[n, 20, 6, 7] = resize(%23, size=[6, 7], mode="linear", align_corners=false, antialias=false, scales=[])
  %25: u8[n, 20, 6, 7] q(0.05, 60) = quantize(%24, low=0, high=255)
  %26: f32[n, 20, 6, 7] = dequantize(%25)
  %27: f32[n, 20] = mean(%26, dims=[2, 3], keepdim=false)
  %28: u8[n, 20] q(0.05, 60) = quantize(%27, low=0, high=255)
  %29: f32[n, 20] = dequantize(%28)
  %we: f32[7, 20] = dequantize(@e)
  %30: f32[n, 7] = linear(%29, %we, @f, none, act="", act_args=[])
  %31: u8[n, 7] q(1.0, 0), %32: f32[2] = quantize_dynamic(%30, high=255, rule="pt2e", eps=0.0)
  %33: f32[n, 7] = dequantize_dynamic(%31, %32)
  %wg: f32[9, 7] = dequantize(@g)
  %34: f32[n, 9] = linear(%33, %wg, none, none, act="", act_args=[])
  return %34
""",
        1,
    ),
    "pools": (
        "",
        "%x: f32[2, 5, 11, 10]",
        """
  %1: f32[2, 5, 6, 5] = max_pool2d(%x, kernel=[3, 2], stride=[2, 2], padding=[1, 0, 1, 0], dilation=[1, 1], ceil_mode=false)
  %2: f32[2, 5, 4, 4] = avg_pool2d(%x, kernel=[3, 3], stride=[3, 3], padding=[1, 1, 1, 1], ceil_mode=true, count_include_pad=false, divisor=none)
  %3: f32[2, 5, 3, 7] = adaptive_avg_pool2d(%x, size=[3, 7])
  %4: f32[2, 5, 7, 2] = adaptive_max_pool2d(%x, size=[7, 2])
  %5: f32[2, 5, 6, 4] = resize(%1, size=[6, 4], mode="linear", align_corners=true, antialias=false, scales=[])
  %6: f32[2, 5, 9, 9] = resize(%2, size=[9, 9], mode="linear", align_corners=false, antialias=false, scales=[2.25, 2.25])
  %7: f32[2, 5, 6, 4] = resize_nearest(%3, size=[6, 4], scales=[], exact=false)
  %8: f32[2, 5, 12, 8] = resize_nearest(%5, size=[12, 8], scales=[2.0, 2.0], exact=true)
  %9: f32[2, 10, 6, 4] = cat(%5, %7, dim=1)
  return %9, %6, %8, %4
""",
        4,
    ),
    "matrices": (
        "s: 1..40",
        "%q: f32[2, 3, s, 8], %m: f32[s, s], %v: f32[2, s, 24]",
        """
  @w: f32[40, 24]
  @b: f32[40]
  @g: f32[40]
  %1: f32[2, 3, s, 8] = attention(%q, %q, %q, %m, scale=0.5, causal=false)
  %2: f32[2, 3, s, 8] = attention(%1, %q, %1, none, scale=0.25, causal=true)
  %3: f32[2, s, 3, 8] = permute(%2, dims=[0, 2, 1, 3])
  %4: f32[2, s, 24] = reshape(%3, shape=[2, s, 24])
  %5: f32[2, s, 40] = linear(%4, @w, @b, none, act="gelu", act_args=[])
  %6: f32[2, s, 40] = layer_norm(%5, @g, @b, dims=1, eps=1e-05)
  %7: f32[2, 40, s] = permute(%6, dims=[0, 2, 1])
  %8: f32[2, 40, 24] = matmul(%7, %v)
  %9: f32[2, 40, 24] = softmax(%8, dim=1)
  %10: f32[2, 40, 24] = log_softmax(%8, dim=2)
  return %9, %10, %6
""",
        3,
    ),
    "shapes": (
        "w: 3..30",
        "%x: f32[2, 6, w], %k: i64[4], %f: bool[2, 1, w]",
        """
  @t: f32[9, 5]
  %1: f32[2, w, 6] = permute(%x, dims=[0, 2, 1])
  %2: f32[2, 6 * w] = reshape(%1, shape=[2, 6 * w])
  %3: f32[2, 3, w] = slice(%x, dim=1, start=0, end=6, step=2)
  %4: f32[6, w] = select(%x, dim=0, index=-1)
  %5: f32[2, 6, w] = expand(%4, shape=[2, 6, w])
  %6: f32[2, 9, w] = cat(%3, %5, dim=1)
  %7: f32[2, 10, w + 3] = pad(%6, padding=[1, 2, -1, 2], value=0.5, mode="constant")
  %8: f32[4, 5] = embedding(@t, %k)
  %9: f32[2, 4, w + 3] = index_select(%7, %k, dim=1)
  %10: f32[2, w] = full(shape=[2, w], value=2.5, dtype="f32")
  %11: i64[w] = arange(start=1, end=w + 1, step=1, dtype="i64")
  %12: f32[2, 9, w] = copy(%6, force=true)
  %13: f32[2, 6, w] = where(%f, %x, %5)
  %14: bool[2, 6, w] = lt(%13, %x)
  %15: bool[2, 2, w] = cat(%f, %f, dim=1)
  %16: i32[w] = cast(%11, to="i32")
  return %2, %8, %9, %10, %11, %12, %13, %14, %15, %16
""",
        10,
    ),
    "data": (
        "w: 3..30",
        "%x: f32[w, 4], %k: i64[]",
        """
  @zero: f32[] = [0.0]
  @six: i64[] = [6]
  %1: bool[w, 4] = lt(%x, @zero)
  %2: i64[u0, 2] = nonzero(%1)
  %3: f32[u1] = masked_select(%x, %1)
  %4: i64[] = remainder(%k, @six)
  %5: i64[] = item(%4, symbol="u2")
  %6: f32[w] = select(%x, dim=1, index=0)
  %7: f32[w], %8: i64[w] = sort(%6, dim=0, descending=true)
  %9: i64[u3] = nms(%x, %8, threshold=0.5)
  %10: f32[w, 4] = exp(%x)
  %11: f32[min(u2, w), 4] = slice(%10, dim=0, start=0, end=u2, step=1)
  %12: f32[u3, 4] = index_select(%10, %9, dim=0)
  %13: i64[u0 * 2] = reshape(%2, shape=[u0 * 2])
  %14: i64[u4], %15: i64[u0 * 2], %16: i64[u4] = unique_consecutive(%13, none)
  %17: i64[u4 + u0] = arange(start=0, end=u4 + u0, step=1, dtype="i64")
  %18: i64[u4] = add(%14, %16)
  %19: i64[w] = lexsort(%x)
  return %3, %11, %12, %15, %17, %18, %19, %10
""",
        8,
    ),
    "reductions": (
        "",
        "%x: f32[3, 17, 4, 5], %n: i64[3, 17]",
        """
  %1: f32[3, 1, 4, 1] = sum(%x, dims=[1, 3], keepdim=true)
  %2: f32[17] = mean(%x, dims=[0, 2, 3], keepdim=false)
  %3: f32[3, 17, 5] = amax(%x, dims=[2], keepdim=false)
  %4: f32[3, 17, 4] = amin(%x, dims=[3], keepdim=false)
  %5: f32[] = prod(%x, dims=[0, 1, 2, 3], keepdim=false)
  %6: i64[3, 4, 5] = argmax(%x, dim=1, keepdim=false)
  %7: i64[3, 17, 4, 1] = argmin(%x, dim=3, keepdim=true)
  %8: i64[3] = sum(%n, dims=[1], keepdim=false)
  %9: i64[17] = amax(%n, dims=[0], keepdim=false)
  %10: i64[1, 17] = prod(%n, dims=[0], keepdim=true)
  return %1, %2, %3, %4, %5, %6, %7, %8, %9, %10
""",
        10,
    ),
    "elementwise": (
        "",
        "%x: f32[2, 5, 3, 4], %y: f32[5, 1, 4], %i: i64[7, 3], %j: i64[3], %k: i32[7, 1], %b: bool[7, 3]",
        """
  %1: f32[2, 5, 3, 4] = add(%x, %y)
  %2: f32[2, 5, 3, 4] = div(%1, %x)
  %3: f32[2, 5, 3, 4] = pow(%2, %y)
  %4: f32[2, 5, 3, 4] = softplus(%3, beta=1.0, threshold=20.0)
  %5: f32[2, 5, 3, 4] = atan2(%4, %y)
  %6: i64[7, 3] = floor_divide(%i, %j)
  %7: i64[7, 3] = remainder(%6, %i)
  %8: i64[7, 3] = pow(%7, %j)
  %9: i32[7, 1] = fmod(%k, %k)
  %10: i32[7, 1] = trunc_divide(%9, %k)
  %11: bool[7, 3] = logical_xor(%b, %b)
  %12: f32[7, 3] = cast(%8, to="f32")
  %13: f32[7, 3] = exp(%12)
  %14: i64[7, 3] = cast(%13, to="i64")
  %15: i64[7, 3] = mul(%14, %i)
  %16: i64[7, 3] = neg(%15)
  %17: i64[7, 3] = abs(%16)
  %18: f32[2, 5, 3, 4] = remainder(%5, %x)
  return %18, %10, %11, %17
""",
        4,
    ),
    "state": (
        "n: 1..8",
        "%x: f32[n, 32], %i: i64[n], %cache: f32[40, 32], %calls: i64[], %seen: bool[4]",
        """
  @one: i64[] = [1]
  @eight: i64[] = [8]
  @row: f32[32]
  %1: i64[n] = remainder(%i, @eight)
  %2: f32[40, 32] = index_put(%cache, %x, %1, at=0, reduce="")
  %3: f32[1, 32] = reshape(@row, shape=[1, 32])
  %4: f32[40, 32] = as_strided_scatter(%2, %3, stride=[32, 1], offset=64)
  %5: i64[] = add(%calls, @one)
  %6: i64[] = item(%5, symbol="u0")
  %7: f32[32] = sum(%4, dims=[0], keepdim=false)
  %8: i64[u0] = arange(start=0, end=u0, step=1, dtype="i64")
  %9: bool[4] = logical_not(%seen)
  return %7, %8, %4, %5, %9
""",
        2,
    ),
}


def write_zoo(folder: Path) -> list[Path]:
    """Every program as a file, the same bytes each time."""
    paths = []
    for name, (symbols, given, body, outputs) in ZOO.items():
        states = STATES.get(name, ())
        count = given.count("%") - len(states)
        text = _HEAD.format(
            name=name, symbols=f"symbols {symbols}\n" if symbols else "", given=given, body=body.lstrip("\n"),
            inputs=json.dumps({"args": list(range(count)), "kwargs": {}, "names": [str(i) for i in range(count)]}),
            outputs=json.dumps({"tuple": list(range(outputs))}), states="".join(f"state {s}\n" for s in states),
        )  # fmt: skip
        rng = np.random.default_rng(5)
        constants = {}
        for line in (*states, *body.splitlines()):
            if line.strip().startswith("@") and " = " not in line:
                constant, _, kind = line.strip()[1:].partition(": ")
                shape = tuple(int(d) for d in kind[kind.index("[") + 1 : kind.index("]")].split(","))
                size = 60 if kind.startswith("i8") else 1
                constants[constant] = (size * rng.standard_normal(shape)).astype(numpy_dtype(kind[: kind.index("[")]))
        program = parse_program(text, constants)
        optimize(program)
        path = folder / f"{name}.pen"
        write_file(lower(program), path)
        paths.append(path)
    return paths
