"""Compiles a model in integers: penlight.quantize and `penlight quantize` call quantize_model.

    compile.py up to fused floats → calibrate → scales, pairs (penlight/quant) → layers kept for the budget → the rest of compile.py → measured

penlight/quant decides; what it runs to do so is compiled here. Everything is measured on the calibration data.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penlight.compile import compile_model
from penlight.errors import ExampleError, InputError, QuantizationError
from penlight.file.writer import to_array
from penlight.ir.graph import Graph, Program
from penlight.lower import BUDGET, lower
from penlight.model import Model
from penlight.passes.pipeline import FINISH, optimize
from penlight.quant import unfuse
from penlight.quant.batches import Call, count_examples, flat_batches, labels_hint, read_calls
from penlight.quant.correct import correct_biases
from penlight.quant.equalize import equalize as equalize_pairs
from penlight.quant.equalize import pairs
from penlight.quant.execute import Leaves, Runnable
from penlight.quant.insert import Scheme, choose, insert
from penlight.quant.observe import Observed, Step, observe
from penlight.quant.place import (
    QUANTIZED,
    data,
    integers,
    is_kept,
    is_quantized,
    layer_name,
    moves,
    place,
    share_near,
    weight_of,
)
from penlight.quant.report import KEY, LayerReport, Report
from penlight.quant.scheme import METHODS
from penlight.quant.sensitivity import Error, costs, fewest_kept, layer_errors, layers

MOST_MEASURED = 16  # batches for what each layer costs, which need fewer than ranges do
SECONDS = 20.0  # for what each layer alone costs
SAME = 1e-3  # relative error that is nothing beside that of integers
TIMED = 0.5  # seconds of runs, for each of before and after


@dataclass(frozen=True)
class Options:
    """The arguments of penlight.quantize that say how."""

    method: str = "histogram"
    per_channel: bool = True
    budget: float | Mapping[str, float] | None = None
    keep: Collection[str] = ()
    equalize: bool = True
    correct_bias: bool = True
    sensitivity: bool = True
    speed: bool = True

    def check(self) -> None:
        if self.method not in METHODS:
            raise QuantizationError(f"method: expected one of {', '.join(METHODS)}, got {self.method!r}")
        if isinstance(self.keep, str):
            raise QuantizationError(
                f"keep: expected a list of names or patterns, got the text {self.keep!r}: [{self.keep!r}]"
            )
        if strange := [name for name in self.keep if not isinstance(name, str)]:
            raise QuantizationError(f"keep: expected names or patterns, which are text, got {strange[0]!r}")
        budget = self.budget
        is_share = isinstance(budget, Mapping) and list(budget) == ["top1"]
        number = budget["top1"] if isinstance(budget, Mapping) and is_share else budget
        good = (
            isinstance(number, (int, float))
            and not isinstance(number, bool)
            and 0 < number <= (1 if is_share else np.inf)
        )
        if budget is not None and not good:
            raise QuantizationError(
                f"budget: expected a relative error above 0, such as 0.05, or {{'top1': 0.99}}, got {budget!r}"
            )


def quantize_model(
    source: Any, batches: Iterable[Any], options: Options, *, weights: str | None = None, example_inputs: Any = None,
    progress: Callable[[str], None] | None = None, step: Step | None = None, threads: int | None = None, **compiling: Any,
) -> Model:  # fmt: skip
    """The model, ready to run and to save, with its report. `compiling`: what compile_model takes."""
    options.check()
    say = progress or (lambda text: None)
    calls = read_calls(batches, *((1,) if weights is not None else ()))
    first = calls[0] if calls and example_inputs is None else None
    given, kwargs = (example_inputs, {}) if first is None else (first.args, first.kwargs)

    def compiled(**how: Any) -> Program:
        try:
            return compile_model(source, given, kwargs=kwargs or None, progress=progress, **how, **compiling)
        except (ExampleError, InputError) as e:  # not others, which are about the model or its file
            if first is None:
                raise
            hint = labels_hint(first.args, 1) if "do not fit" in str(e) or isinstance(e, InputError) else ""
            raise QuantizationError(f"calibration batch {first.number}, which is the example: {e}{hint}") from e

    if weights is not None:
        for name in ("budget", "keep"):
            if getattr(options, name):
                raise QuantizationError(
                    f"{name}= is for layers that compute in integers; weights={weights!r} changes all weights alike"
                )
        return Model(to_array(compiled(weights=weights)), threads=threads)
    if not calls:
        raise QuantizationError(
            "batches: expected calibration data, got none at all: give 16 to 200 inputs like those that the model will see"
        )
    work = Quantizer(options, calls, say, step or (lambda done, total, what: None))
    program = compiled(rewrite=work.rewrite)
    model = Model(to_array(program), threads=threads)
    say("comparing the result with the floats")
    return model.with_metadata({KEY: work.report(model, str(program.metadata.get("name", ""))).to_metadata()})


@dataclass
class Quantizer:
    """One model's way; `rewrite` is called by compile_model with the fused program, `report` when it is compiled."""

    options: Options
    calls: Sequence[Call]
    say: Callable[[str], None]
    step: Step
    kept: dict[str, str] = field(default_factory=dict)  # output name of a layer -> why it is in floats
    errors: dict[str, Error] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    how: str = ""
    told: str = ""  # of the budget
    equalized: int = 0

    def rewrite(self, program: Program) -> None:
        if program.script is not None or list(program.methods) != ["forward"]:
            why = program.metadata.get("interpreted", "") or f"its methods are {', '.join(program.public_methods)}"
            raise QuantizationError(f"only a model that is planned as one method, forward, can be quantized: {why}")
        self.method = program.methods["forward"]
        if self.method.states:
            raise QuantizationError(
                f"a model that keeps state ({', '.join(s.name for s in self.method.states)}) cannot be calibrated: what a layer sees depends on"
                ' the calls before. Expected weights="i8" or weights="f16", which need no data, or a model without state'
            )
        self.batches = flat_batches(self.calls, self.method)
        self.few = self.batches[:: -(-len(self.batches) // MOST_MEASURED)]
        self.float_graph = self.method.graph.copy()
        self.graph = self.method.graph.copy()
        unfuse.run(self.graph)
        if not place(self.graph).integer:
            if is_quantized(self.graph):
                raise QuantizationError(QUANTIZED)
            raise QuantizationError(
                "nothing in this model can compute in integers: there is no convolution, linear or recurrent layer with "
                "constant f32 weights"
                " (transposed convolutions and f64 stay in floats)"
            )
        self._check_keep()
        self._observe()
        scheme = self._scheme()
        if not scheme.placement.integer:
            raise QuantizationError(f"keep={list(self.options.keep)!r} leaves nothing to quantize")
        self.expected = self._outputs(self.float_graph, self.batches)
        scheme = self._within_budget(scheme)
        self.scheme = scheme
        self.say("putting integers into the graph")
        program.methods["forward"] = replace(self.method, graph=insert(self.graph, scheme, simulate=False))

    def _check_keep(self) -> None:
        nodes = [node for node in self.graph.nodes if node.outputs]
        for pattern in self.options.keep:
            if not any(is_kept(node, [pattern]) for node in nodes):
                names = sorted(layer_name(node) for node in integers(self.graph, place(self.graph)))
                near = difflib.get_close_matches(pattern, names, 3, 0.4) or names[:3]
                raise QuantizationError(
                    f"keep: there is no layer {pattern!r}; expected names as the report has them, such as {', '.join(near)}"
                )

    # What is compiled and run on the way

    def execute(self, graph: Graph, winograd_budget: float = 0.0) -> Runnable:
        """A graph of flat tensors, compiled in memory."""
        model = Model(to_array(self._compiled(graph, winograd_budget)))

        def run(leaves: Leaves) -> list[np.ndarray]:
            results: list[np.ndarray] = model.run_method("forward", *leaves)
            return results

        return run

    def _compiled(self, graph: Graph, winograd_budget: float) -> Program:
        copy = graph.copy()
        spec = {"args": list(range(len(graph.inputs))), "kwargs": {}, "names": [v.name for v in graph.inputs]}
        flat = replace(self.method, graph=copy, input_spec=spec, output_spec={"list": list(range(len(graph.outputs)))})
        program = Program({"forward": flat})
        optimize(program, stages=FINISH)
        return lower(program, winograd_budget)

    def _outputs(self, graph: Graph, batches: Sequence[Leaves], winograd_budget: float = 0.0) -> list[list[np.ndarray]]:
        run = self.execute(graph, winograd_budget)
        return [run(batch) for batch in batches]

    # Scales

    def _observe(self) -> None:
        """Statistics of all that could be stored, after equalizing, which changes them."""
        self.say(f"calibrating on {len(self.batches)} batches")
        found = place(self.graph, self.options.keep)
        names = sorted(found.stored | {v.name for node in integers(self.graph, found) for v in data(node)})
        if self.options.equalize and pairs(self.graph):
            self._equalize(observe(self.graph, names, self.batches, self.execute, False, self.step))
        histogram = self.options.method != "minmax"
        self.observed: dict[str, Observed] = observe(
            self.graph, names, self.batches, self.execute, histogram, self.step
        )
        self.known: dict[Any, Any] = {}

    def _equalize(self, ranges: dict[str, Observed]) -> None:
        """Unless it changes what comes out in floats: calibration data beyond what was taken for safe."""
        changed = self.graph.copy()
        count = equalize_pairs(changed, ranges, self.options.per_channel)
        error = Error()
        for got, expected in zip(self._outputs(changed, self.few), self._outputs(self.graph, self.few), strict=True):
            for a, b in zip(got, expected, strict=True):
                error.take(a, b)
        if error.relative < SAME:
            self.graph, self.equalized = changed, count

    def _scheme(self, kept: Collection[str] = ()) -> Scheme:
        """`kept`: output names of layers in floats, besides those that the user wants so."""
        placement = place(self.graph, self.options.keep, kept)
        share_near(self.graph, placement, {n: o.high - min(o.low, 0.0) for n, o in self.observed.items()})
        scheme = choose(self.graph, placement, self.observed, self.options.method, self.options.per_channel, self.known)
        if self.options.correct_bias:
            correct_biases(self.graph, scheme, self.observed)
        return scheme

    # What it costs

    def _within_budget(self, scheme: Scheme) -> Scheme:
        options = self.options
        self.say("measuring every layer")
        self.errors = layer_errors(self.graph, scheme, self.few, self.execute, self.step)
        if options.sensitivity or options.budget is not None:
            self.say("measuring what each layer alone costs")
            self.costs, self.how = costs(self.graph, scheme, self.few, self.errors, self.execute, SECONDS, self.step)
        if options.budget is None:
            return scheme
        ranked = sorted(self.costs, key=lambda name: -self.costs[name])
        self.say("looking for the layers to keep in floats")
        trials: list[str] = []

        def meets(kept: Sequence[str]) -> bool:
            self.step(len(trials), int(np.ceil(np.log2(max(len(ranked), 2)))) + 2, "trials")
            error, top1 = self._accuracy(self._outputs_of(self._scheme(kept)))
            trials.append(f"{len(kept)} kept: {error.relative:.2g}")
            return _meets(options.budget, error, top1)

        kept = fewest_kept(ranked, meets)
        if kept is None or not self._scheme(kept).placement.integer:
            raise QuantizationError(
                f"budget={options.budget!r} cannot be met with any layer in integers ({'; '.join(trials)}): expected a larger one"
            )
        self.kept = {name: f"budget: alone it costs {self.costs[name]:.2g}" for name in kept}
        self.told = f"budget {_budget_text(options.budget)}: {len(kept)} of {len(ranked)} layers kept in floats"
        return self._scheme(kept)

    def _outputs_of(self, scheme: Scheme) -> list[list[np.ndarray]]:
        """As the file would give them, to the bit: agreement of scores can hang on one."""
        if not scheme.placement.integer:
            return self.expected
        return self._outputs(insert(self.graph, scheme, simulate=False), self.batches, BUDGET)

    def _accuracy(self, got: Sequence[Sequence[np.ndarray]]) -> tuple[Error, float | None]:
        """Over all outputs; and how often the greatest score is the same one, where the first output is scores."""
        error, same, total = Error(), 0, 0
        for ours, theirs in zip(got, self.expected, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                error.take(a, b)
            if ours and theirs[0].dtype.kind == "f" and theirs[0].ndim == 2 and theirs[0].shape[1] > 1:
                same += int((ours[0].argmax(axis=1) == theirs[0].argmax(axis=1)).sum())
                total += theirs[0].shape[0]
        return error, same / total if total else None

    # What came out

    def report(self, model: Model, name: str) -> Report:
        got = [model._run("forward", batch) for batch in self.batches]
        error, top1 = self._accuracy(got)
        floats = self._compiled(self.float_graph, 0.0)
        size = to_array(floats).size
        before = after = None
        if self.options.speed:
            self.say("timing it before and after")
            fast = Model(to_array(self._compiled(self.float_graph, BUDGET)), threads=1)
            before, after = _times([fast, Model(model._image(), threads=1)], self.batches[0])
        examples = count_examples(self.batches)
        return Report(
            name, self.options.method, examples, tuple(self._layers()), error.sqnr, error.relative, top1, size, int(model._image().size), before,
            after, 1, self.equalized, len(self.scheme.biases), self.how, self.told,
        )  # fmt: skip

    def _layers(self) -> Iterable[LayerReport]:
        used = {node.outputs[0].name for node in layers(self.graph, self.scheme)}
        everything = place(self.graph).integer
        for node in self.graph.nodes:
            output = node.outputs[0].name if node.outputs else ""
            if output not in everything or moves(node):
                continue
            weight = weight_of(node)
            size = weight.constant.nbytes if weight is not None and weight.constant is not None else 0
            stored = "i8" if output in used else "f32"
            measured = self.errors.get(output)
            cost = self.costs.get(output)
            yield LayerReport(
                layer_name(node),
                node.op,
                f"[{', '.join(map(str, node.outputs[0].shape))}]",
                stored,
                "" if stored == "i8" else self._why(node, output),
                sqnr=None if measured is None else round(measured.sqnr, 2),
                cost=None if cost is None else float(f"{cost:.3g}"),
                bytes_before=size,
                bytes_after=size // 4 if stored == "i8" else size,
            )

    def _why(self, node: Any, output: str) -> str:
        if output in self.kept:
            return self.kept[output]
        return "keep=" if is_kept(node, self.options.keep) else "between layers in floats"


def _meets(budget: float | Mapping[str, float] | None, error: Error, top1: float | None) -> bool:
    if isinstance(budget, Mapping):
        if top1 is None:
            raise QuantizationError(
                "budget={'top1': …}: expected scores [N, classes] as the first output; give a relative error instead"
            )
        return top1 >= budget["top1"]
    return budget is None or error.relative <= budget


def _budget_text(budget: float | Mapping[str, float] | None) -> str:
    return f"top 1 agreement {budget['top1']:g}" if isinstance(budget, Mapping) else f"relative error {budget:g}"


def _times(models: Sequence[Model], leaves: Leaves) -> list[float]:
    """The best run of each, taken in turns, so that a machine that slows down slows both."""
    best = [np.inf] * len(models)
    for model in models:
        model._run("forward", leaves)
    end = time.perf_counter() + TIMED * len(models)
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        for i, model in enumerate(models):
            start = time.perf_counter()
            model._run("forward", leaves)
            best[i] = min(best[i], time.perf_counter() - start)
        rounds += 1
    return best
