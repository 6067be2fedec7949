from penlight.passes import fold_constants
from tests.passes.reference import canonical, rewritten


def test_nodes_of_constants_become_constants() -> None:
    before = """
    graph g(%x: f32[2, 2]) {
      @w: f32[2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
      @half: f32[] = [0.5]
      %p: f32[3, 2] = permute(@w, dims=[1, 0])
      %m: f32[3, 2] = mul(%p, @half)
      %n: f32[3, 2] = neg(%m)
      %y: f32[2, 3] = linear(%x, %n, none, none, act="", act_args=[])
      return %y
    }"""
    after = """
    graph g(%x: f32[2, 2]) {
      @w: f32[2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
      @half: f32[] = [0.5]
      @permute: f32[3, 2] = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
      @mul: f32[3, 2] = [0.5, 2.0, 1.0, 2.5, 1.5, 3.0]
      @neg: f32[3, 2] = [-0.5, -2.0, -1.0, -2.5, -1.5, -3.0]
      %y: f32[2, 3] = linear(%x, @neg, none, none, act="", act_args=[])
      return %y
    }"""
    assert rewritten(fold_constants.run, before) == canonical(after)


def test_what_would_make_the_file_grow_stays() -> None:
    before = """
    graph g() {
      @c: f32[1, 512] 
      %small: f32[4, 512] = expand(@c, shape=[4, 512])
      %large: f32[600, 512] = expand(@c, shape=[600, 512])
      return %small, %large
    }"""
    after = """
    graph g() {
      @c: f32[1, 512]
      @expand: f32[4, 512]
      %large: f32[600, 512] = expand(@c, shape=[600, 512])
      return @expand, %large
    }"""
    assert rewritten(fold_constants.run, before) == canonical(after)


def test_symbolic_shapes_stay() -> None:
    text = """
    graph g(%x: f32[n]) {
      @c: f32[1] = [1.0]
      %e: f32[n] = expand(@c, shape=[n])
      %y: f32[n] = add(%x, %e)
      return %y
    }"""
    assert rewritten(fold_constants.run, text) == canonical(text)
