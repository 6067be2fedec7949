"""Straight-line tensor code inside a script → planned methods: the costly parts run as plans, the rest is interpreted.

The script was run once on example inputs (observe.py), to see which tensors reach which action. Stretches of operators that take
tensors only are captured like any model (torch.export, every size free), and a `planned` action is put before each. The runtime takes
it where the tensors fit the plan (dtype, rank, sizes), and else goes on with the operators one by one: a plan changes the speed, never
a result. A stretch may contain branches on ranks and sizes: tensors for which they would go another way do not fit the plan.

    r5 = op(r1, #w) aten::conv2d                     planned ~forward.0 (r1) -> r7, on to 4
    r6 = op(r5) aten::relu               becomes     r5 = op(r1, #w) aten::conv2d
    r7 = op(r6, #v) aten::conv2d                     …
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from penlight.capture.script.capture_run import capture_run
from penlight.capture.script.dataflow import JUMPS, data_decisions, gives_view, leaders, live_before, reads, written
from penlight.capture.script.machine import ScriptMachine
from penlight.capture.script.observe import Observation
from penlight.capture.script.quantized import OPERATORS
from penlight.errors import CaptureError, PlanWarning
from penlight.ir.graph import Method, Unplanned
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import ScriptObject

_HOT = ("conv", "linear", "matmul", "mm", "lstm", "gru", "attention", "bmm")
_FEW, _FEW_HOT = 8, 3  # least number of operators, without and with a hot one: planning fewer does not pay


@dataclass
class Run:
    """A stretch of a function: the actions on `path`, in the order in which they run (jumps are followed), up to `end`."""

    function: ScriptFunction
    path: list[int]
    end: int
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    examples: list[torch.Tensor] = field(default_factory=list)

    @property
    def actions(self) -> list[Action]:
        return [self.function.code[i] for i in self.path]

    @property
    def operators(self) -> list[str]:
        return [a.target for a in self.actions if a.op == "op"]

    @property
    def source(self) -> str:
        return next((a.source for a in self.actions if a.source), "")


def plan_parts(
    script: Script, seen: Observation, say: Callable[[str], None]
) -> tuple[dict[str, Method], list[Unplanned]]:
    """Plans what can be planned of the code that was seen running, in place: the planned methods, by name, and what could not be."""
    planned: dict[str, Method] = {}
    unplanned: list[Unplanned] = []
    aliases_matter = any(True for f in script.functions.values() for a in f.code for _ in written(a))
    for function in [f for f in script.functions.values() if seen.ran(f)]:
        inserts: list[tuple[Run, str]] = []
        for run in _runs(script, function, seen):
            try:
                method = _capture(script, run, seen, aliases_matter)
            except CaptureError as e:
                unplanned.append(Unplanned(function.name, len(run.operators), run.source, str(e)))
                continue
            name = f"~{function.method or function.name.rpartition('.')[2]}.{len(planned)}"
            planned[name] = method
            inserts.append((run, name))
            say(f"planned {len(run.operators)} operators of {function.name.rpartition('.')[2]}")
        _insert(function, inserts)
    return planned, unplanned


def _runs(script: Script, function: ScriptFunction, seen: Observation) -> Iterator[Run]:
    """Stretches that are worth a plan, in order, each as long as possible."""
    live = live_before(function)
    changed = _changed_attributes(script)
    on_data = data_decisions(function)
    i = 0
    while i < len(function.code):
        path, end = [], i
        while (way := _goes_on(function, end, seen, changed, on_data)) is not None:
            path.append(end)
            end = way
        start = 0
        while start < len(path):
            run, stop = _longest(function, path[start:], end, seen, live)
            if run is not None and _worth_it(run):
                yield run
            start += max(stop, 1)
        i = max(end, i + 1)


def _goes_on(
    function: ScriptFunction, i: int, seen: Observation, changed: set[int] | None, on_data: set[int]
) -> int | None:
    """Where the run goes on after action i; None where it cannot contain it."""
    a = function.code[i] if i < len(function.code) else None
    if a is None or (function.name, i) not in seen.before:
        return None
    if a.op == "jump":
        return a.target if a.target > i else None
    if a.op == "branch":
        ways = seen.ways.get((function.name, i), set())
        return next(iter(ways)) if len(ways) == 1 and i not in on_data and min(ways) > i else None
    return i + 1 if _plannable(a, changed) else None


def _changed_attributes(script: Script) -> set[int] | None:
    """Numbers of the attributes that some code sets. None: code writes in place into what may be any attribute."""
    for function in script.functions.values():
        starts = leaders(function)
        for i, a in enumerate(function.code):
            if any(not _is_fresh(function, starts, i, r) for r in written(a)):
                return None
    return {a.target for f in script.functions.values() for a in f.code if a.op == "set_attr"}


def _is_fresh(function: ScriptFunction, starts: set[int], at: int, value: int | Const) -> bool:
    """Whether a value was computed in this block, by an operator that gives memory of its own, before action `at`."""
    i = at
    while i > 0 and i not in starts:
        i -= 1
        a = function.code[i]
        if value not in a.results:
            continue
        if a.op == "move" or (a.op == "op" and gives_view(a.target)):
            value = a.args[0] if a.args else Const(0)
            continue
        return a.op == "op"
    return False


def _plannable(a: Action, changed: set[int] | None) -> bool:
    if a.op in ("move", "drop", "list", "unpack") or (a.op == "tuple" and a.target is None):
        return True
    if a.op == "get_attr":
        return changed is not None and a.target not in changed
    if a.op != "op" or not a.results:
        return False
    name = a.target
    if name.startswith(("aten::rand", "aten::normal", "aten::dropout_", "upgrade::")):
        return False
    if name.startswith("quantized::"):
        return name.partition(".")[0] in OPERATORS
    return name.startswith(("aten::", "torchvision::", "prepacked::", "vulkan_prepack::", "metal", "prim::"))


def _longest(
    function: ScriptFunction, path: list[int], end: int, seen: Observation, live: list[int]
) -> tuple[Run | None, int]:
    """The longest run along the path that takes tensors only and gives tensors only; and how far along to look for the next."""
    inputs: dict[int, torch.Tensor] = {}
    made: set[int] = set()
    stop = len(path)
    for k, i in enumerate(path):
        a = function.code[i]
        values = seen.before[(function.name, i)]
        outside = [r for r in reads(a) if r not in made and r not in inputs] if a.op != "drop" else []
        if any(not _is_input(values.get(r)) for r in outside):
            stop = k
            break
        inputs.update({r: values[r] for r in outside if isinstance(values[r], torch.Tensor)})
        made |= {r for r in outside if isinstance(values[r], ScriptObject)}  # the model's own: known to the plan
        made.update(a.results)
    while stop > 0:
        run = Run(function, path[:stop], path[stop] if stop < len(path) else end)
        run.outputs = _outputs(run, live[run.end])
        bad = [r for r in run.outputs if not _gives_tensor(run, r, seen)]
        if not bad:
            used = {r for a in run.actions for r in reads(a)}
            chosen = {r: t for r, t in inputs.items() if r in used}
            run.inputs, run.examples = list(chosen), list(chosen.values())
            return run, stop
        stop = min(_writer(run, r) for r in bad)
    return None, 1


def _is_input(value: Any) -> bool:
    return (isinstance(value, torch.Tensor) and not value.is_quantized and not value.is_complex()) or isinstance(
        value, ScriptObject
    )


def _outputs(run: Run, live: int) -> list[int]:
    written: list[int] = []
    for a in run.actions:
        if a.op == "drop":
            written = [r for r in written if r not in a.args]
        written += [r for r in a.results if r not in written]
    return [r for r in written if live >> r & 1]


def _writer(run: Run, register: int) -> int:
    """The last action of a run that writes a register, as a place on its path."""
    return max(k for k, a in enumerate(run.actions) if register in a.results)


def _gives_tensor(run: Run, register: int, seen: Observation) -> bool:
    """Whether a register holds a tensor after the run."""
    made = seen.after.get((run.function.name, run.path[_writer(run, register)]), {}).get(register)
    return isinstance(made, torch.Tensor) and not made.is_complex()


def _worth_it(run: Run) -> bool:
    hot = any(word in name for name in run.operators for word in _HOT)
    return bool(run.inputs) and bool(run.outputs) and len(run.operators) >= (_FEW_HOT if hot else _FEW)


def _capture(script: Script, run: Run, seen: Observation, aliases_matter: bool) -> Method:
    """The run as a planned method: tensors in, tensors out. CaptureError where it cannot be planned."""
    state = {
        r: v for i in run.path for r, v in seen.before[(run.function.name, i)].items() if isinstance(v, ScriptObject)
    }
    constants = [script.constants[x.index] for a in run.actions for x in a.args if isinstance(x, Const)]
    machine = ScriptMachine(script, roots=[*constants, *state.values()])

    def compute(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        registers: dict[int, Any] = {**state, **dict(zip(run.inputs, tensors, strict=True))}
        machine.run(run.function, registers, run.path[0], run.end)
        return tuple(registers[r] for r in run.outputs)

    examples = tuple(t.clone() for t in run.examples)
    try:
        with torch.no_grad():
            if aliases_matter and _shares_memory(machine, compute, examples):
                raise CaptureError("its results share memory with its arguments, or with each other: code could tell")
            return capture_run(machine, [f"t{i}" for i in range(len(examples))], examples, "auto", compute)
    except CaptureError:
        raise
    except Exception as e:
        problem = f"{type(e).__name__} in Penlight while planning {len(run.operators)} operators: {e}"
        warnings.warn(
            PlanWarning(f"{problem}; they are interpreted. Please report this.\n  {run.source}"), stacklevel=2
        )
        raise CaptureError(problem) from e


def _shares_memory(machine: ScriptMachine, compute: Callable[..., Any], examples: tuple[torch.Tensor, ...]) -> bool:
    """Whether a result shares memory with an argument, a weight or another result, or an argument is written: a plan would copy."""
    before = [t.clone() for t in examples]
    given = [t.untyped_storage().data_ptr() for t in examples]
    made = [t.untyped_storage().data_ptr() for t in compute(*examples)]
    weights = {b.untyped_storage().data_ptr() for b in machine.buffers()}
    changed = any(not torch.equal(a, b) for a, b in zip(before, examples, strict=True))
    return changed or len(set(made)) < len(made) or bool(set(made) & (set(given) | weights))


def _insert(function: ScriptFunction, inserts: list[tuple[Run, str]]) -> None:
    """Puts the `planned` actions in, and moves all targets along."""
    places = {run.path[0]: (run, name) for run, name in inserts}
    moved: dict[int, int] = {}
    code: list[Action] = []
    for i, a in enumerate(function.code):
        moved[i] = len(code)
        if i in places:
            run, name = places[i]
            code.append(Action("planned", list(run.inputs), list(run.outputs), name, run.end, run.source))
        code.append(a)
    for a in code:
        if a.op in JUMPS:
            a.target = moved[a.target]
        elif a.op == "planned":
            a.extra = moved[a.extra]
    function.code = code
