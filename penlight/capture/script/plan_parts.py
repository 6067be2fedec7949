"""Straight-line tensor code inside a script → planned methods: what is hot runs fused, laid out and planned; the rest is interpreted.

The script is run once on example inputs, to see which kinds of tensors come by where. Runs of operators without a jump between
them, on tensors alone, are captured like any model (torch.export, every size free), and a `planned` action is put before them:
the runtime takes it where the tensors at hand fit (dtype, rank, sizes) and else goes on with the operators one by one, so a
planned run never decides whether a result is right, only how fast it comes.

    r5 = op(r1, #w) aten::conv2d                     planned ~forward.0 (r1) -> r7, on to 4
    r6 = op(r5) aten::relu               becomes     r5 = op(r1, #w) aten::conv2d
    r7 = op(r6, #v) aten::conv2d                     …
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from penlight.capture.export import nn_module as modules
from penlight.capture.script.machine import ScriptMachine
from penlight.errors import CaptureError
from penlight.ir.graph import Method, Program
from penlight.ir.script import Action, Const, Script, ScriptFunction
from penlight.ir.values import ScriptObject
from penlight.ops.vm_operators import operators

_HOT = ("conv", "linear", "matmul", "mm", "lstm", "gru", "attention", "bmm")
_FEW, _FEW_HOT = 8, 3  # operators, without and with a hot one among them: planning fewer does not pay


@dataclass
class Run:
    """Actions begin … end - 1 of a function, without jumps into or out of them."""

    function: ScriptFunction
    begin: int
    end: int
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    examples: list[torch.Tensor] = field(default_factory=list)


def plan_runs(
    script: Script, method: str, args: tuple[Any, ...], say: Callable[[str], None] = lambda text: None
) -> dict[str, Method]:
    """Plans what can be planned of a method and of all that it calls, in place; the planned methods, by name."""
    function = next((f for f in script.functions.values() if f.method == method), None)
    if function is None:
        raise CaptureError(f"the script has no method {method!r}")
    seen = _Observation()
    machine = ScriptMachine(script, seen.watch)
    try:
        with torch.no_grad():
            machine.call(function.name, [script.module, *copy.deepcopy(args)])  # in-place operators write into them
    except (CaptureError, RuntimeError, NotImplementedError, TypeError, ValueError, LookupError):
        pass  # what was seen until then is good, and a run will say what is wrong
    planned: dict[str, Method] = {}
    aliases_matter = any(_is_in_place(a) for f in script.functions.values() for a in f.code)
    for called in [f for f in script.functions.values() if f.name in seen.functions]:
        inserts: list[tuple[Run, str]] = []
        for run in _runs(script, called, seen):
            made = _capture(script, run, seen, aliases_matter)
            if made is None:
                continue
            name = f"~{called.method or called.name.rpartition('.')[2]}.{len(planned)}"
            planned[name] = made
            inserts.append((run, name))
            say(f"planned {_tensor_operators(run)} operators of {called.name.rpartition('.')[2]}")
        _insert(called, inserts)
    return planned


class _Observation:
    """What was in the registers when an action was about to run, the first time that it did."""

    def __init__(self) -> None:
        self.before: dict[tuple[str, int], dict[int, Any]] = {}
        self.functions: set[str] = set()

    def watch(self, function: ScriptFunction, index: int, registers: dict[int, Any]) -> None:
        self.functions.add(function.name)
        key = (function.name, index)
        if key not in self.before:
            needed = set(_reads(function.code[index]))
            self.before[key] = {r: _light(registers.get(r)) for r in needed}


def _light(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _reads(a: Action) -> Iterator[int]:
    for x in a.args:
        if isinstance(x, int):
            yield x


def _is_in_place(a: Action) -> bool:
    if a.op != "op":
        return False
    known = operators().get(a.target)
    if known is not None and known.params and known.params[0].kind == "tensor":
        return any(p.written for p in known.params)
    base = a.target.partition(".")[0]
    return base.endswith("_") and not base.endswith("__")


def _tensor_operators(run: Run) -> int:
    return sum(a.op == "op" for a in run.function.code[run.begin : run.end])


def _leaders(function: ScriptFunction) -> set[int]:
    found = {0}
    for i, a in enumerate(function.code):
        if a.op in ("jump", "branch", "loop"):
            found |= {a.target, i + 1}
        elif a.op == "loop":
            found.add(i)
        elif a.op in ("return", "planned"):
            found.add(i + 1)
    found |= {i for i, a in enumerate(function.code) if a.op == "loop"}
    return found


def live_after(function: ScriptFunction) -> list[set[int]]:
    """For each action, the registers whose value may still be read after it."""
    code = function.code
    live: list[set[int]] = [set() for _ in code]  # before each
    changed = True
    while changed:
        changed = False
        for i in range(len(code) - 1, -1, -1):
            a = code[i]
            after: set[int] = set()
            if a.op not in ("return", "jump") and i + 1 < len(code):
                after |= live[i + 1]
            if a.op in ("jump", "branch", "loop"):
                after |= live[a.target]
            written = set(a.results) if a.op != "loop" else set()
            emptied = {x for x in a.args if isinstance(x, int)} if a.op == "drop" else set()
            before = (after - written - emptied) | (set() if a.op == "drop" else set(_reads(a)))
            if a.op == "loop":  # a loop's slots move down: all of them may be read
                before |= set(_reads(a))
            if before != live[i]:
                live[i], changed = before, True
    result = []
    for i, a in enumerate(code):
        after = set(live[i + 1]) if a.op not in ("return", "jump") and i + 1 < len(code) else set()
        if a.op in ("jump", "branch", "loop"):
            after |= live[a.target]
        result.append(after)
    return result


def _runs(script: Script, function: ScriptFunction, seen: _Observation) -> Iterator[Run]:
    """Candidates, in order: as long as possible, on tensors that were seen."""
    leaders = _leaders(function)
    live = live_after(function)
    written = _written_attributes(script)
    i = 0
    while i < len(function.code):
        j = i
        while j < len(function.code) and (j == i or j not in leaders) and _plannable(function, j, seen, written):
            j += 1
        if j > i:
            yield from _trimmed(function, i, j, seen, live)
        i = max(j, i + 1)


def _written_attributes(script: Script) -> set[int] | None:
    """Numbers of attributes that some code sets: their values are not constants. None: any may be changed, in place."""
    for function in script.functions.values():
        leaders = _leaders(function)
        for i, a in enumerate(function.code):
            if _is_in_place(a) and not _is_fresh(function, leaders, i, a.args[0]):
                return None
    return {a.target for f in script.functions.values() for a in f.code if a.op == "set_attr"}


def _is_fresh(function: ScriptFunction, leaders: set[int], at: int, value: int | Const) -> bool:
    """Whether a value was computed in this block, by an operator that gives memory of its own, before action `at`."""
    i = at
    while i > 0 and i not in leaders:
        i -= 1
        a = function.code[i]
        if value not in a.results:
            continue
        if a.op == "move" or (a.op == "op" and _gives_view(a.target)):
            value = a.args[0] if a.args else Const(0)
            continue
        return a.op == "op"
    return False


@lru_cache(maxsize=4096)
def _gives_view(operator: str) -> bool:
    """Whether an operator's result may share memory with its first argument."""
    name, _, overload = operator.partition(".")
    try:
        returns = torch._C._get_schema(name, overload).returns
    except RuntimeError:
        return True
    return bool(returns) and (returns[0].alias_info is not None or name in _SOMETIMES_VIEWS)


# Their schemas promise nothing, and they may return the argument itself or a view of it.
_SOMETIMES_VIEWS = {"aten::reshape", "aten::contiguous", "aten::to", "aten::flatten", "aten::dropout", "aten::feature_dropout",
                    "aten::type_as", "aten::reshape_as", "aten::ravel", "aten::unflatten", "aten::cpu", "aten::float"}  # fmt: skip


def _plannable(function: ScriptFunction, i: int, seen: _Observation, written: set[int] | None) -> bool:
    a = function.code[i]
    if (function.name, i) not in seen.before:
        return False
    if a.op in ("move", "drop", "list", "unpack") or (a.op == "tuple" and a.target is None):
        return True
    if a.op == "get_attr":
        return written is not None and a.target not in written
    if a.op != "op" or not a.results:
        return False
    name = a.target
    if name.startswith(("aten::rand", "aten::normal", "aten::dropout_", "quantized::", "upgrade::")):
        return False
    return name.startswith(("aten::", "torchvision::", "prepacked::", "vulkan_prepack::", "metal", "prim::"))


def _trimmed(function: ScriptFunction, begin: int, end: int, seen: _Observation, live: list[set[int]]) -> Iterator[Run]:
    """Cuts a run where it takes or gives something else than tensors."""
    start = begin
    while start < end:
        run, stop = _longest(function, start, end, seen, live)
        if run is not None and _worth_it(run):
            yield run
        start = max(stop, start + 1)


def _longest(
    function: ScriptFunction, begin: int, end: int, seen: _Observation, live: list[set[int]]
) -> tuple[Run | None, int]:
    """The longest run from `begin` on that takes tensors only and gives tensors only; and where to look for the next."""
    inputs: dict[int, torch.Tensor] = {}
    made: dict[int, int] = {}  # register -> the action that wrote it
    stop = end
    for i in range(begin, end):
        a = function.code[i]
        values = seen.before[(function.name, i)]
        outside = [r for r in _reads(a) if r not in made and r not in inputs] if a.op != "drop" else []
        if any(not _is_input(values.get(r)) for r in outside):
            stop = i
            break
        inputs.update({r: values[r] for r in outside if isinstance(values[r], torch.Tensor)})
        if any(isinstance(values[r], ScriptObject) for r in outside):
            made.update(
                {r: -1 for r in outside if isinstance(values[r], ScriptObject)}
            )  # state: known without a register
        made.update(dict.fromkeys(a.results, i))
    while stop > begin:
        outputs = _outputs(function, begin, stop, live[stop - 1])
        bad = [r for r in outputs if not _gives_tensor(function, r, begin, stop, seen)]
        if not bad:
            break
        stop = min(_writer(function, r, begin, stop) for r in bad)
    if stop <= begin:
        return None, begin + 1
    used = {r for i in range(begin, stop) for r in _reads(function.code[i])}
    chosen = {r: t for r, t in inputs.items() if r in used}
    run = Run(
        function, begin, stop, list(chosen), _outputs(function, begin, stop, live[stop - 1]), list(chosen.values())
    )
    return run, stop


def _is_input(value: Any) -> bool:
    return (isinstance(value, torch.Tensor) and not value.is_quantized and not value.is_complex()) or isinstance(
        value, ScriptObject
    )


def _outputs(function: ScriptFunction, begin: int, end: int, live: set[int]) -> list[int]:
    written: list[int] = []
    for a in function.code[begin:end]:
        if a.op == "drop":
            written = [r for r in written if r not in a.args]
        written += [r for r in a.results if r not in written]
    return [r for r in written if r in live]


def _writer(function: ScriptFunction, register: int, begin: int, end: int) -> int:
    return max(i for i in range(begin, end) if register in function.code[i].results)


def _gives_tensor(function: ScriptFunction, register: int, begin: int, end: int, seen: _Observation) -> bool:
    """Whether a register holds a tensor after the run: as the action that first reads it saw it, or by what wrote it."""
    for i in range(end, len(function.code)):
        values = seen.before.get((function.name, i), {})
        if register in values:
            return isinstance(values[register], torch.Tensor) and not values[register].is_complex()
        if register in function.code[i].results:
            break
    writer = function.code[_writer(function, register, begin, end)]
    if writer.op == "move":
        values = seen.before[(function.name, _writer(function, register, begin, end))]
        return all(isinstance(x, int) and isinstance(values.get(x), torch.Tensor) for x in writer.args)
    return False


def _worth_it(run: Run) -> bool:
    names = [a.target for a in run.function.code[run.begin : run.end] if a.op == "op"]
    hot = any(word in name for name in names for word in _HOT)
    return bool(run.inputs) and bool(run.outputs) and len(names) >= (_FEW_HOT if hot else _FEW)


class _Body(ScriptMachine):
    """A run of actions as a module: tensors in, tensors out."""

    def __init__(self, script: Script, run: Run, state: dict[int, Any]) -> None:
        super().__init__(script)
        self._part = (run, state)

    def compute(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        run, state = self._part
        registers = {**state, **dict(zip(run.inputs, tensors, strict=True))}
        self.run(run.function, registers, run.begin, run.end)
        return tuple(registers[r] for r in run.outputs)


def _capture(script: Script, run: Run, seen: _Observation, aliases_matter: bool) -> Method | None:
    """The run as a planned method, or None where it cannot be planned."""
    state = {
        r: v
        for i in range(run.begin, run.end)
        for r, v in seen.before[(run.function.name, i)].items()
        if isinstance(v, ScriptObject)
    }
    body = _Body(script, run, state)
    examples = tuple(t.clone() for t in run.examples)
    try:
        with torch.no_grad():
            if aliases_matter and _shares_memory(body, examples):
                return None
            program = _captured(body, examples)
    except (CaptureError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    return program.methods["forward"]


def _captured(body: _Body, examples: tuple[torch.Tensor, ...]) -> Program:
    names = [f"t{i}" for i in range(len(examples))]
    scope: dict[str, Any] = {"run": body.compute}
    exec(f"def forward({', '.join(names)}):\n    return run({', '.join(names)})\n", scope)
    object.__setattr__(body, "forward", scope["forward"])  # torch.export asks for names of arguments
    with torch.fx.traceback.preserve_node_meta():
        return modules.capture_shapes(body, examples, {}, "auto", body.decided)


def _shares_memory(body: _Body, examples: tuple[torch.Tensor, ...]) -> bool:
    """Whether a result is a view of an argument or of another result, or an argument is written: then others could tell."""
    before = [t.clone() for t in examples]
    given = [t.untyped_storage().data_ptr() for t in examples]
    made = [t.untyped_storage().data_ptr() for t in body.compute(*examples)]
    weights = {b.untyped_storage().data_ptr() for b in body.buffers()}
    changed = any(not torch.equal(a, b) for a, b in zip(before, examples, strict=True))
    return changed or len(set(made)) < len(made) or bool(set(made) & (set(given) | weights))


def _insert(function: ScriptFunction, inserts: list[tuple[Run, str]]) -> None:
    """Puts the `planned` actions in, and moves all targets along."""
    places = {run.begin: (run, name) for run, name in inserts}
    moved: dict[int, int] = {}
    code: list[Action] = []
    for i, a in enumerate(function.code):
        moved[i] = len(code)
        if i in places:
            run, name = places[i]
            source = next((x.source for x in function.code[run.begin : run.end] if x.source), "")
            code.append(Action("planned", list(run.inputs), list(run.outputs), name, run.end, source))
        code.append(a)
    for a in code:
        if a.op in ("jump", "branch", "loop"):
            a.target = moved[a.target]
        elif a.op == "planned":
            a.extra = moved[a.extra]
    function.code = code
