import pytest

from penlight.passes import remove_identity
from tests.passes.reference import canonical, rewritten

TEMPLATE = """
graph g(%x: f32[2, 3, n]) {{
  @one: f32[] = [1.0]
  @ones: f32[3, 1] = [1.0, 1.0, 1.0]
  @zero: f32[] = [0.0]
  @minus: f32[] = [-0.0]
  @larger: f32[4, 1, 1, 1] = [1.0, 1.0, 1.0, 1.0]
  %y: {type} = {call}
  %z: {type} = relu(%y)
  return %z
}}"""

GONE = [
    "copy(%x, force=false)",
    'cast(%x, to="f32")',
    "reshape(%x, shape=[2, 3, n])",
    "permute(%x, dims=[0, 1, 2])",
    "permute(%x, dims=[0, -2, 2])",
    "expand(%x, shape=[2, -1, n])",
    "slice(%x, dim=1, start=0, end=9223372036854775807, step=1)",
    'pad(%x, padding=[0, 0, 0, 0], value=1.0, mode="constant")',
    "cat(%x, dim=1)",
    "clamp(%x, lo=-inf, hi=inf)",
    "mul(%x, @one)",
    "mul(@ones, %x)",
    "div(%x, @one)",
    "sub(%x, @zero)",
    "add(%x, @minus)",
]
STAYS = [
    ("copy(%x, force=true)", "f32[2, 3, n]"),
    ('cast(%x, to="f64")', "f64[2, 3, n]"),
    ("reshape(%x, shape=[3, 2, n])", "f32[3, 2, n]"),
    ("slice(%x, dim=1, start=0, end=2, step=1)", "f32[2, 2, n]"),
    ('pad(%x, padding=[1, -1], value=0.0, mode="constant")', "f32[2, 3, n]"),
    ("add(%x, @zero)", "f32[2, 3, n]"),
    ("sub(%x, @minus)", "f32[2, 3, n]"),
    ("div(@one, %x)", "f32[2, 3, n]"),
    ("mul(%x, @larger)", "f32[4, 2, 3, n]"),
    ("clamp(%x, lo=0.0, hi=inf)", "f32[2, 3, n]"),
]


@pytest.mark.parametrize("call", GONE)
def test_identities_go(call: str) -> None:
    before = TEMPLATE.format(call=call, type="f32[2, 3, n]")
    kept = "\n".join(line for line in before.split("\n") if "%y:" not in line).replace("%y", "%x")
    assert rewritten(remove_identity.run, before) == canonical(kept)


@pytest.mark.parametrize(("call", "type"), STAYS)
def test_what_changes_something_stays(call: str, type: str) -> None:
    text = TEMPLATE.format(call=call, type=type).replace(
        "%z: f64[2, 3, n] = relu(%y)", "%z: f64[2, 3, n] = copy(%y, force=true)"
    )
    assert rewritten(remove_identity.run, text) == canonical(text)


def test_a_permute_of_equal_dims_is_no_identity() -> None:
    text = "graph g(%x: f32[3, 3]) {\n  %y: f32[3, 3] = permute(%x, dims=[1, 0])\n  return %y\n}"
    assert rewritten(remove_identity.run, text) == canonical(text)


def test_a_copy_into_another_layout_stays() -> None:
    text = "graph g(%x: f32[1, 3, 4, 4]) {\n  %y: f32[1, 3, 4, 4] nhwc = copy(%x, force=false)\n  return %y\n}"
    assert rewritten(remove_identity.run, text) == canonical(text)
