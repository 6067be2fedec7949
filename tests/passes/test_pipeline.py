"""All passes together, on a small network that has something for each of them."""

import itertools

import pytest
import torch

from penlight.ir import Graph, Method, Program, VerifyError, parse_graph, print_program
from penlight.passes import PassReport, optimize, pipeline
from tests.passes.reference import assert_same_numbers, run_graph

CONV = 'stride=[{s}, {s}], padding=[{p}, {p}, {p}, {p}], dilation=[1, 1], groups={g}, act="", act_args=[]'
NETWORK = f"""
graph forward(%x: f32[n, 3, 32, 32]) {{
  @stem: f32[8, 3, 3, 3]
  @depthwise: f32[8, 1, 3, 3]
  @project: f32[8, 8, 1, 1]
  @gamma: f32[8]
  @beta: f32[8]
  @mean: f32[8]
  @var: f32[8]
  @three: f32[] = [3.0]
  @six: f32[] = [6.0]
  @head: f32[10, 2048]
  @bias: f32[10]
  %pad: f32[n, 3, 33, 33] = pad(%x, padding=[0, 1, 0, 1], value=0.0, mode="constant")
  %a: f32[n, 8, 16, 16] = conv2d(%pad, @stem, none, none, {CONV.format(s=2, p=0, g=1)})
  %b: f32[n, 8, 16, 16] = batch_norm(%a, @gamma, @beta, @mean, @var, eps=1e-05)
  %c: f32[n, 8, 16, 16] = clamp(%b, lo=0.0, hi=6.0)
  %d: f32[n, 8, 16, 16] = conv2d(%c, @depthwise, none, none, {CONV.format(s=1, p=1, g=8)})
  %e: f32[n, 8, 16, 16] = batch_norm(%d, @gamma, @beta, @mean, @var, eps=1e-05)
  %f: f32[n, 8, 16, 16] = add(%e, @three)
  %g: f32[n, 8, 16, 16] = clamp(%f, lo=0.0, hi=6.0)
  %h: f32[n, 8, 16, 16] = div(%g, @six)
  %i: f32[n, 8, 16, 16] = mul(%e, %h)
  %j: f32[n, 8, 16, 16] = conv2d(%i, @project, none, none, {CONV.format(s=1, p=0, g=1)})
  %k: f32[n, 8, 16, 16] = batch_norm(%j, @gamma, @beta, @mean, @var, eps=1e-05)
  %l: f32[n, 8, 16, 16] = add(%c, %k)
  %m: f32[n, 8, 16, 16] = relu(%l)
  %o: f32[n, 2048] = reshape(%m, shape=[n, 2048])
  %p: f32[n, 2048] = copy(%o, force=false)
  %q: f32[n, 10] = linear(%p, @head, @bias, none, act="", act_args=[])
  %r: f32[n, 10] = softmax(%q, dim=1)
  return %r
}}
"""


def run(graph: Graph) -> list[PassReport]:
    return optimize(Program({"forward": Method(graph)}))


def test_a_network_becomes_a_few_operators() -> None:
    graph = assert_same_numbers(run, NETWORK, [torch.randn(2, 3, 32, 32)])
    assert [n.op for n in graph.nodes] == [
        "conv2d",
        "conv2d",
        "conv2d",
        "permute",
        "reshape",
        "linear",
        "softmax",
    ]
    stem, depthwise, project = graph.nodes[:3]
    assert (stem.attrs["act"], stem.attrs["act_args"], stem.attrs["padding"]) == ("clamp", (0.0, 6.0), (0, 0, 1, 1))
    assert depthwise.attrs["act"] == "hardswish"
    assert project.attrs["act"] == "clamp"
    assert project.inputs[3] is stem.output
    assert {o.layout for n in graph.nodes[:3] for o in n.outputs} == {"nhwc"}
    assert len(graph.constants) == 6  # three weights, one bias for all of them (as it happens), the head and its bias


def test_the_same_program_gives_the_same_result() -> None:
    first, second = (Program({"forward": Method(parse_graph(NETWORK))}) for _ in range(2))
    optimize(first)
    optimize(second)
    assert print_program(first) == print_program(second)


def test_reports() -> None:
    seen: list[PassReport] = []
    reports = optimize(Program({"forward": Method(parse_graph(NETWORK))}), seen.append)
    assert reports == seen
    changes = {name: sum(r.changes for r in reports if r.name == name) for name in {r.name for r in reports}}
    assert changes["fold_batch_norm"] == 3
    assert changes["fold_pad"] == 1
    assert changes["fuse_residual"] == 1
    assert changes["fuse_activation"] == 3
    assert changes["recognize_activations"] == 2
    assert changes["flatten_linear"] == 1
    assert all(a.nodes_after == b.nodes_before for a, b in itertools.pairwise(reports))
    assert "forward: fold_pad: 1 changes, " in "\n".join(map(str, reports))


def test_a_broken_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(graph: Graph) -> int:
        graph.nodes[0].op = "no_such_operator"
        return 1

    run.__module__ = "penlight.passes.careless"
    monkeypatch.setattr(pipeline, "STAGES", (pipeline.Stage("", (run,)),))
    with pytest.raises(VerifyError, match=r"after pass careless: .*no operator 'no_such_operator'"):
        optimize(Program({"forward": Method(parse_graph(NETWORK))}))


def test_names_of_the_model_do_not_meet_fresh_ones() -> None:
    text = "graph f(%copy_1: f32[2], %copy_2: f32[2]) {\n  return %copy_1, %copy_2\n}"
    graph = parse_graph(text)
    graph._next = 0
    run(graph)
    x, y = torch.ones(2), torch.zeros(2)
    assert [t.tolist() for t in run_graph(graph, [x, y])] == [[1, 1], [0, 0]]
