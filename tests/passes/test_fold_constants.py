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


def test_numbers_that_no_input_gives_fold_where_something_is_computed_with_them() -> None:
    before = """
    graph g(%x: f32[2, 2]) {
      %alone: f32[2, 2] = full(shape=[2, 2], value=2.0, dtype="f32")
      %sum: f32[2, 2] = add(%x, %alone)
      %table: f32[3] = full(shape=[3], value=1.0, dtype="f32")
      %places: i64[2] = arange(start=0, end=4, step=2, dtype="i64")
      %rows: f32[2] = index_select(%table, %places, dim=0)
      %y: f32[2, 2] = mul(%sum, %rows)
      return %y
    }"""
    after = """
    graph g(%x: f32[2, 2]) {
      @full: f32[3] = [1.0, 1.0, 1.0]
      @arange: i64[2] = [0, 2]
      @index_select: f32[2] = [1.0, 1.0]
      %alone: f32[2, 2] = full(shape=[2, 2], value=2.0, dtype="f32")
      %sum: f32[2, 2] = add(%x, %alone)
      %y: f32[2, 2] = mul(%sum, @index_select)
      return %y
    }"""
    assert rewritten(fold_constants.run, before) == canonical(after)
