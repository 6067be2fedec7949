from penlight.passes import dead_code
from tests.passes.reference import canonical, rewritten


def test_unused_nodes_and_constants_go_and_inputs_stay() -> None:
    before = """
    graph g(%x: f32[4], %unused: f32[4]) {
      @a: f32[] = [1.0]
      @b: f32[] = [2.0]
      @c: f32[] = [3.0]
      %p: f32[4] = exp(%x)
      %q: f32[4] = add(%p, @a)
      %r: f32[4] = add(%x, @b)
      return %r, @c
    }"""
    after = """
    graph g(%x: f32[4], %unused: f32[4]) {
      @b: f32[] = [2.0]
      @c: f32[] = [3.0]
      %r: f32[4] = add(%x, @b)
      return %r, @c
    }"""
    assert rewritten(dead_code.run, before) == canonical(after)


def test_nested_blocks() -> None:
    before = """
    graph g(%x: f32[4], %c: bool[]) {
      @k: f32[] = [1.0]
      %kept: f32[4] = exp(%x)
      %only_inside: f32[4] = neg(%x)
      %dead: f32[4] = if(%c) () {
        %z: f32[4] = add(%only_inside, @k)
        return %z
      } () {
        return %x
      }
      %y: f32[4] = if(%c) () {
        %i: f32[4] = sin(%x)
        return %kept
      } () {
        %j: f32[4] = neg(%x)
        return %j
      }
      return %y
    }"""
    after = """
    graph g(%x: f32[4], %c: bool[]) {
      %kept: f32[4] = exp(%x)
      %y: f32[4] = if(%c) () {
        return %kept
      } () {
        %j: f32[4] = neg(%x)
        return %j
      }
      return %y
    }"""
    assert rewritten(dead_code.run, before) == canonical(after)


def test_what_gives_a_symbol_its_value_stays_while_it_is_used() -> None:
    before = """
    graph g(%x: bool[4], %k: i64[]) {
      %a: i64[u0, 1] = nonzero(%x)
      %b: i64[u1, 1] = nonzero(%x)
      %c: i64[] = item(%k, symbol="u2")
      %d: i64[u1] = arange(start=0, end=u1, step=1, dtype="i64")
      %e: i64[u0] = arange(start=0, end=u0, step=1, dtype="i64")
      return %e
    }"""
    after = """
    graph g(%x: bool[4], %k: i64[]) {
      %a: i64[u0, 1] = nonzero(%x)
      %e: i64[u0] = arange(start=0, end=u0, step=1, dtype="i64")
      return %e
    }"""
    assert rewritten(dead_code.run, before) == canonical(after)
