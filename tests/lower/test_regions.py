"""Code is cut into stages where sizes come out of data, and nowhere else."""

from __future__ import annotations

from penlight.ir.parse import parse_graph
from penlight.ir.text import print_graph
from penlight.ir.verify import verify
from penlight.lower.regions import wrap_regions
from penlight.lower.select import select_kernels


def wrapped(text: str) -> str:
    graph = parse_graph(text)
    select_kernels(graph)
    wrap_regions(graph)
    verify(graph)
    return print_graph(graph)


def heads(text: str) -> list[str]:
    return [line.strip() for line in wrapped(text).splitlines() if "region(" in line]


def test_one_region_where_sizes_follow_from_inputs() -> None:
    found = heads("""
    graph forward(%x: f32[n, 4], %y: f32[n, 4]) {
      %a: f32[n, 4] = exp(%x)
      %b: f32[4 * n] = reshape(%a, shape=[4 * n])
      %c: f32[4 * n] = neg(%b)
      return %c, %a
    }""")
    assert found == [
        "%out0: f32[4 * n], %out1: f32[n, 4] = region(%x, %y) (%x: f32[n, 4], %y: f32[n, 4]) {",
    ]


def test_what_needs_a_size_comes_a_stage_later() -> None:
    found = heads("""
    graph forward(%x: bool[9], %k: i64[]) {
      %a: i64[u0, 1] = nonzero(%x)
      %b: i64[u0, 1] = neg(%a)
      %c: i64[] = item(%k, symbol="u1")
      %d: i64[u1] = arange(start=0, end=u1, step=1, dtype="i64")
      %e: i64[] = neg(%k)
      return %b, %d, %e
    }""")
    # %e needs no size, so it is in the first stage; one register holds the places, one the number
    assert found == [
        "%out2: i64[], %a: i64[u0, 1], %c: i64[] = region(%x, %k) (%x: bool[9], %k: i64[]) {",
        "%out0: i64[u0, 1], %out1: i64[u1] = region(%a) (%a: i64[u0, 1]) {",
    ]


def test_views_are_made_anew_where_they_are_used() -> None:
    text = wrapped("""
    graph forward(%x: f32[3, 4], %m: bool[3, 4]) {
      %a: f32[3, 4] = exp(%x)
      %v: f32[4, 3] = permute(%a, dims=[1, 0])
      %f: f32[u0] = masked_select(%x, %m)
      %s: f32[u0] = slice(%f, dim=0, start=0, end=u0, step=1)
      %n: f32[u0] = neg(%s)
      %w: f32[12] = reshape(%v, shape=[12])
      %z: f32[12 - u0] = slice(%w, dim=0, start=u0, end=12, step=1)
      %y: f32[12 - u0] = neg(%z)
      return %n, %y
    }""")
    first, second = text.split("region(")[1:]
    assert "permute(" not in first and "reshape(" not in first  # noqa: PT018
    assert second.count("permute(") == second.count("reshape(") == 1
    assert "return %a, %f" in first or "return %f, %a" in first
