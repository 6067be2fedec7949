import pytest
import torch

from penlight.passes import dead_code, fuse_attention
from tests.passes.reference import assert_same_numbers, canonical, rewritten

HEAD = """
    graph g(%q: f32[2, 4, 9, 8], %k: f32[2, 4, 7, 8], %v: f32[2, 4, 7, 5], %mask: f32[2, 1, 9, 7]) {
      @scale: f32[] = [0.35]
      @size: f32[] = [2.5]
      @half: f32[1, 1] = [0.6]"""
K_T = "%kt: f32[2, 4, 8, 7] = permute(%k, dims=[0, 1, 3, 2])"
TAIL = "%p: f32[2, 4, 9, 7] = softmax({}, dim=3)", "%y: f32[2, 4, 9, 5] = matmul(%p, %v)", "return %y"
SCORES = "f32[2, 4, 9, 7]"

FORMS = {
    "scale at the query": ["%a: f32[2, 4, 9, 8] = mul(%q, @scale)", K_T, f"%s: {SCORES} = matmul(%a, %kt)", TAIL[0].format("%s")],
    "no scale": [K_T, f"%s: {SCORES} = matmul(%q, %kt)", TAIL[0].format("%s").replace("dim=3", "dim=-1")],
    "scores divided, with mask": [K_T, f"%t: {SCORES} = matmul(%q, %kt)", f"%d: {SCORES} = div(%t, @size)", f"%s: {SCORES} = add(%d, %mask)", TAIL[0].format("%s")],
    "mask first": [K_T, f"%t: {SCORES} = matmul(%q, %kt)", f"%s: {SCORES} = add(%mask, %t)", TAIL[0].format("%s")],
    "half at each": ["%a: f32[2, 4, 9, 8] = mul(%q, @half)", "%b: f32[2, 4, 7, 8] = mul(%k, @half)", K_T.replace("%k,", "%b,"),
                     f"%s: {SCORES} = matmul(%a, %kt)", TAIL[0].format("%s")],
    "half at the transposed key": [K_T, "%b: f32[2, 4, 8, 7] = mul(@half, %kt)", f"%s: {SCORES} = matmul(%q, %b)", TAIL[0].format("%s")],
}  # fmt: skip


def graph(lines: list[str]) -> str:
    return HEAD + "".join(f"\n      {line}" for line in [*lines, *TAIL[1:]]) + "\n    }"


def inputs() -> list[torch.Tensor]:
    return [torch.randn(2, 4, 9, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 5), torch.randn(2, 1, 9, 7)]


def clean(g):  # type: ignore[no-untyped-def]
    return fuse_attention.run(g) and 1 + dead_code.run(g)


@pytest.mark.parametrize("name", FORMS)
def test_spelled_out_attention(name: str) -> None:
    after = assert_same_numbers(clean, graph(FORMS[name]), inputs())
    assert [n.op for n in after.nodes] == ["attention"]
    assert (after.nodes[0].inputs[3] is not None) == ("mask" in name)


def test_a_key_that_comes_transposed_is_turned_back() -> None:
    text = graph([f"%s: {SCORES} = matmul(%q, %k)", TAIL[0].format("%s")]).replace(
        "%k: f32[2, 4, 7, 8]", "%k: f32[2, 4, 8, 7]"
    )
    given = inputs()
    given[1] = given[1].transpose(2, 3)
    assert [n.op for n in assert_same_numbers(clean, text, given).nodes] == ["permute", "attention"]


def test_text() -> None:
    before = graph(FORMS["scale at the query"])
    after = (
        HEAD
        + """
      %a: f32[2, 4, 9, 8] = mul(%q, @scale)
      %kt: f32[2, 4, 8, 7] = permute(%k, dims=[0, 1, 3, 2])
      %s: f32[2, 4, 9, 7] = matmul(%a, %kt)
      %p: f32[2, 4, 9, 7] = softmax(%s, dim=3)
      %attention_1: f32[2, 4, 9, 5] = attention(%q, %k, %v, none, scale=0.3499999940395355, causal=false)
      return %attention_1
    }"""
    )
    assert rewritten(fuse_attention.run, before) == canonical(after)


def test_what_does_not_fuse() -> None:
    rows = graph([*FORMS["no scale"][:2], TAIL[0].format("%s").replace("dim=3", "dim=2")])
    assert rewritten(fuse_attention.run, rows) == canonical(rows)
    shared = graph(FORMS["no scale"]).replace("return %y", "return %y, %p")
    assert rewritten(fuse_attention.run, shared) == canonical(shared)
    wide = (
        graph(FORMS["no scale"])
        .replace("%k: f32[2, 4, 7, 8]", "%k: f32[1, 4, 7, 8]")
        .replace("%kt: f32[2, 4", "%kt: f32[1, 4")
    )
    assert rewritten(fuse_attention.run, wide) == canonical(wide)
