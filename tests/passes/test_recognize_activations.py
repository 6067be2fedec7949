import pytest
import torch

from penlight.passes import dead_code, recognize_activations
from tests.passes.reference import assert_same_numbers, canonical, rewritten

CONSTANTS = """
      @half: f32[] = [0.5]
      @one: f32[] = [1.0]
      @two: f32[] = [2.0]
      @three: f32[1] = [3.0]
      @six: f32[] = [6.0]
      @sixth: f32[] = [0.16666667]
      @root2: f32[] = [1.4142135]
      @root2pi: f32[] = [0.79788456]
      @cubic: f32[] = [0.044715]"""

SHIFTED = "%a = add(%x, @three); %b = clamp(%a, lo=0.0, hi=6.0)"
TANH = "%i = mul(@cubic, %p); %j = add(%x, %i); %k = mul(%j, @root2pi); %t = tanh(%k); %f = add(@one, %t)"
SPELLED = {
    "silu": "%s = sigmoid(%x); %y = mul(%x, %s)",
    "silu, turned": "%s = sigmoid(%x); %y = mul(%s, %x)",
    "hardsigmoid": f"{SHIFTED}; %y = div(%b, @six)",
    "hardsigmoid, by a sixth": f"{SHIFTED}; %y = mul(@sixth, %b)",
    "hardsigmoid, clamped last": "%a = mul(%x, @sixth); %b = add(%a, @half); %y = clamp(%b, lo=0.0, hi=1.0)",
    "hardswish": f"{SHIFTED}; %m = mul(%x, %b); %y = div(%m, @six)",
    "hardswish, of hardsigmoid": f"{SHIFTED}; %h = div(%b, @six); %y = mul(%h, %x)",
    "hardswish, of the operator": "%h = hardsigmoid(%x); %y = mul(%x, %h)",
    "hardswish, divided first": f"{SHIFTED}; %d = div(%x, @six); %y = mul(%d, %b)",
    "gelu": "%d = div(%x, @root2); %e = erf(%d); %f = add(%e, @one); %h = mul(%x, @half); %y = mul(%h, %f)",
    "gelu, half last": "%d = div(%x, @root2); %e = erf(%d); %f = add(@one, %e); %m = mul(%x, %f); %y = mul(%m, @half)",
    "gelu_tanh": f"%p = pow(%x, @three); {TANH}; %h = mul(@half, %x); %y = mul(%h, %f)",
    "gelu_tanh, cube by hand": f"%q = mul(%x, %x); %p = mul(%q, %x); {TANH}; %m = mul(%x, %f); %y = div(%m, @two)",
    "mish": "%s = softplus(%x, beta=1.0, threshold=20.0); %t = tanh(%s); %y = mul(%x, %t)",
}
OTHERS = {
    "sigmoid of something else": "%n = neg(%x); %s = sigmoid(%n); %y = mul(%x, %s)",
    "another shift": f"{SHIFTED}; %y = div(%b, @three)".replace("add(%x, @three)", "add(%x, @two)"),
    "another clamp": "%a = add(%x, @three); %b = clamp(%a, lo=0.0, hi=5.0); %y = div(%b, @six)",
}


def graph(body: str) -> str:
    lines = "\n".join("      " + step.strip().replace(" =", ": f32[2, 9] =", 1) for step in body.split(";"))
    return f"graph g(%x: f32[2, 9]) {{{CONSTANTS}\n{lines}\n      return %y\n    }}"


def clean(g):  # type: ignore[no-untyped-def]
    return recognize_activations.run(g) + dead_code.run(g)


@pytest.mark.parametrize("name", SPELLED)
def test_spelled_out_activations(name: str) -> None:
    x = torch.linspace(-9, 9, 18).reshape(2, 9)
    after = assert_same_numbers(clean, graph(SPELLED[name]), [x], 1e-6)
    assert [n.op for n in after.nodes] == [name.split(",")[0]]


@pytest.mark.parametrize("name", OTHERS)
def test_lookalikes_stay(name: str) -> None:
    assert rewritten(recognize_activations.run, graph(OTHERS[name])) == canonical(graph(OTHERS[name]))


def test_text() -> None:
    before = (
        "graph g(%x: f32[4]) {\n  %s: f32[4] = sigmoid(%x)\n  %y: f32[4] = mul(%x, %s)  # m.py:7\n  return %y, %s\n}"
    )
    after = "graph g(%x: f32[4]) {\n  %s: f32[4] = sigmoid(%x)\n  %silu_1: f32[4] = silu(%x)  # m.py:7\n  return %silu_1, %s\n}"
    assert rewritten(recognize_activations.run, before) == canonical(after)
