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
