"""The passes in order, with the reason for each place. The verifier runs after each that changed something.

In: a captured Program. Out: the same Program, changed in place, as lowering wants it. The order is fixed and every pass
is deterministic, so the same program gives the same file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penlight.ir.graph import Graph, Program
from penlight.ir.rewrite import reserve_names
from penlight.ir.verify import VerifyError, verify, verify_states
from penlight.ops.devices import CPU, Device
from penlight.passes import (
    common_subexpressions,
    dead_code,
    decompose_batch_norm,
    drop_indices,
    dynamic,
    flatten_linear,
    fold_affine,
    fold_batch_norm,
    fold_constants,
    fold_pad,
    fuse_activation,
    fuse_attention,
    fuse_depthwise,
    fuse_residual,
    integer,
    layout,
    matmul_to_linear,
    merge_views,
    move_integers,
    move_views,
    recognize_activations,
    remove_identity,
    sink_reshape,
    tables,
    unsigned,
)

Pass = Callable[[Graph], int]


@dataclass(frozen=True)
class Stage:
    """Passes that run in turn; `repeat`: again and again, until none of them changes anything."""

    reason: str
    passes: tuple[Pass, ...]
    repeat: bool = False
    only_cpu: bool = False


CLEAN_UP = Stage(
    "each of these makes work for the others",
    (
        fold_constants.run,
        remove_identity.run,
        merge_views.run,
        common_subexpressions.run,
        dead_code.run,
        drop_indices.run,
    ),
    repeat=True,
)

FUSE = (
    Stage("first: all that follows on quantized values knows one kind", (unsigned.run,)),
    CLEAN_UP,
    Stage(
        "whole idioms, before fusing takes them apart",
        (recognize_activations.run, fuse_attention.run, matmul_to_linear.run, move_views.run),
    ),
    CLEAN_UP,
    Stage(
        "into the weights, while every convolution still ends in its sum; padding first, since a batch_norm before a "
        "convolution folds only where nothing is padded",
        (sink_reshape.run, fold_pad.run, fold_batch_norm.run, fold_affine.run),
        repeat=True,
    ),
    Stage("what found no convolution; its products may still meet one", (decompose_batch_norm.run, fold_affine.run)),
    Stage("sums before activations: act(conv + bias + residual)", (fuse_residual.run, fuse_activation.run)),
)
"""Up to here operators are what they compute, and no more: what penlight/quant works on."""

FINISH = (
    Stage(
        "when operators are what they will be, and before f32's own kernels are made of them: first what only moves, so that the others meet "
        "their quantize; functions of one number before operators that take any",
        (move_integers.run, tables.run, integer.run, dynamic.run, dead_code.run),
    ),
    Stage(
        "whole convolutions, when they have all that belongs to them; what a CPU keeps in its cache, a GPU computes at once",
        (fuse_depthwise.run,),
        only_cpu=True,
    ),
    CLEAN_UP,
    Stage("needs to know what will be nhwc, and leaves a reshape without users", (flatten_linear.run, dead_code.run)),
    Stage("last: no rewrite knows of layouts", (layout.run, dead_code.run)),
)

STAGES = (*FUSE, *FINISH)

MAX_ROUNDS = 50  # of a repeated stage; real graphs take two to four


@dataclass(frozen=True)
class PassReport:
    """What one pass did to one method."""

    method: str
    name: str
    changes: int
    nodes_before: int
    nodes_after: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.method}: {self.name}: {self.changes} changes, {self.nodes_before} -> {self.nodes_after} nodes"


Progress = Callable[[PassReport], None]


def optimize(
    program: Program, progress: Progress | None = None, device: Device = CPU, stages: Sequence[Stage] | None = None
) -> list[PassReport]:
    """Runs all passes on every method, in place. `progress` is called with each pass's report, as it is done."""
    reports: list[PassReport] = []
    stages = STAGES if stages is None else stages
    for name, method in program.methods.items():
        verify(method.graph)
        reserve_names(method.graph)
        for stage in stages:
            if stage.only_cpu and not device.is_cpu:
                continue
            for _ in range(MAX_ROUNDS if stage.repeat else 1):
                done = [_run(run, name, method.graph) for run in stage.passes]
                reports += done
                if progress is not None:
                    for report in done:
                        progress(report)
                if not any(report.changes for report in done):
                    break
        verify(method.graph, laid_out=stages[-1] is STAGES[-1])
        verify_states(name, method)
    return reports


def _run(run: Pass, method: str, graph: Graph) -> PassReport:
    name = run.__module__.rpartition(".")[2]
    before, start = sum(1 for _ in graph.walk()), time.perf_counter()
    changes = run(graph)
    if not changes:  # most runs; verifying all the same took up to a third of the time to compile
        return PassReport(method, name, 0, before, before, time.perf_counter() - start)
    try:
        verify(graph)
    except VerifyError as e:
        raise VerifyError(f"after pass {name}: {e}") from e
    return PassReport(method, name, changes, before, sum(1 for _ in graph.walk()), time.perf_counter() - start)
