"""What should be mended in a model before it goes to a phone: PyTorch's four lints, and more, each with its line and what to do.

Works on bytecode (LiteProgram), which all kinds of TorchScript have or are given, and on .pen files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penlight.capture.lite.program import Function, LiteProgram
from penlight.capture.script import dataflow
from penlight.errors import CaptureError
from penlight.file_kinds import WORDS, file_kind
from penlight.ir.script import ScriptFunction
from penlight.ir.values import Device, ScriptObject
from penlight.lint.program import can_be_planned, kernel_keys, on_cpu, register_code, tensors
from penlight.lint.torch_backends import GPUS, runs_on

LEVELS = ("error", "warning", "note")
RANDOM = {
    "rand",
    "randn",
    "rand_like",
    "randn_like",
    "randint",
    "randperm",
    "bernoulli",
    "multinomial",
    "normal",
    "uniform_",
    "normal_",
}
SIZED_BY_DATA = {
    "nonzero",
    "unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "masked_select",
    "nms",
    "bincount",
    "where",
}


@dataclass
class Lint:
    """One thing to mend: what is wrong, where, and what to do about it."""

    code: str  # "DROPOUT"
    level: str  # one of LEVELS
    message: str
    fix: str
    sources: list[str] = field(default_factory=list)  # distinct lines of the model's source
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def lint_file(path: str | Path, backends: Sequence[str] = ("cpu",)) -> list[Lint]:
    """Of a .pt (TorchScript; needs torch), .ptl or .pen file."""
    kind = file_kind(path)
    if kind == "pen":
        found = list(_of_pen(Path(path), backends))
    elif kind in ("zip", "flatbuffer"):
        from penlight.capture.lite.read import read

        program = read(path)
        found = [*_of_state(program), *_of_code(program, backends)]
    elif kind == "torchscript":
        found = list(_of_torchscript(path, backends))
    else:
        raise CaptureError(f"{path}: expected TorchScript, .ptl or .pen, got {WORDS[kind]}")
    return _merged(found)


def _of_torchscript(path: str | Path, backends: Sequence[str]) -> Iterator[Lint]:
    """State from the module as it is; code from it in eval mode with its constants and batch norms folded: what will run."""
    import torch

    from penlight.capture.lite.read import read
    from penlight.capture.quiet import quiet

    with quiet():
        script: Any = torch.jit.load(str(path), map_location="cpu")
        saved = read(script._c._save_to_buffer_for_mobile(_save_mobile_debug_info=True))
        yield from _of_state(saved)
        yield from _layers(saved)
        script.eval()
        methods = [name for name in script._c._method_names() if name != "forward" and not name.startswith("_")]
        folded = torch._C._jit_pass_fold_convbn(script._c)  # type: ignore[attr-defined]
        frozen: Any = torch._C._freeze_module(folded, methods, True, False)  # type: ignore[attr-defined]
        program = read(frozen._save_to_buffer_for_mobile(_save_mobile_debug_info=True))
    yield from (lint for lint in _of_code(program, backends) if lint.code not in ("DROPOUT", "BATCHNORM"))


# --- state: weights, attributes ---
def _of_state(program: LiteProgram) -> Iterator[Lint]:
    methods = program.methods
    if "forward" not in methods:
        have = ", ".join(methods) or "none"
        yield Lint(
            "NO_FORWARD", "note", f"There is no method forward; there is: {have}.", "Call methods by name (run_method)."
        )
    if not any(name in methods for name in ("get_all_bundled_inputs", "_generate_bundled_inputs_for_forward")):
        yield Lint(
            "BUNDLED_INPUT", "warning", "No inputs are bundled with the model: nothing can test or plan it on a device.",
            "torch.utils.bundled_inputs.augment_model_with_bundled_inputs(model, [(input,)]) before saving.",
        )  # fmt: skip
    if _training(program.module):
        yield Lint(
            "TRAINING",
            "warning",
            "The model was saved in training mode.",
            "Call model.eval() before scripting and saving.",
        )
    grads, doubles = [], []
    for name, tensor in tensors(program):
        if tensor.requires_grad:
            grads.append(name)
        if tensor.dtype == "f64" and tensor.shape:  # a trace keeps 0.5 as one of rank 0
            doubles.append(name)
    if grads:
        yield Lint(
            "REQUIRES_GRAD", "note", f"{_some(grads)} require{'s' if len(grads) == 1 else ''} grad, which inference has no use for.",
            "model.requires_grad_(False) before saving.", count=len(grads),
        )  # fmt: skip
    if doubles:
        yield Lint(
            "F64_WEIGHTS", "warning", f"{_some(doubles)} {'is' if len(doubles) == 1 else 'are'} f64: twice the size, and slow on phones.",
            "model.float() before scripting and saving.", count=len(doubles),
        )  # fmt: skip


def _training(value: ScriptObject) -> bool:
    return value.attributes.get("training") is True


def _layers(program: LiteProgram) -> Iterator[Lint]:
    """Dropout and batch norm in the code, as PyTorch's lints look for them."""
    for function in _own_code(program):
        for at, name in _calls(function):
            if "dropout" in name:
                yield Lint(
                    "DROPOUT", "note", f"{name} is still in the code.",
                    "Call eval() before saving; penlight optimize and optimize_for_mobile remove it.", _source(function, at),
                )  # fmt: skip
            if "batch_norm" in name:
                yield Lint(
                    "BATCHNORM", "note", f"{name} is still in the code.",
                    "Call eval() before saving; penlight optimize and optimize_for_mobile fold it into the layer before it.",
                    _source(function, at),
                )  # fmt: skip


# --- code ---
def _of_code(program: LiteProgram, backends: Sequence[str]) -> Iterator[Lint]:
    yield from _layers(program)
    if not any(any(f.sources or ()) for f in program.functions.values()):
        yield Lint(
            "NO_SOURCE_LINES", "note", "The file does not say which source line an instruction came from: errors on the device cannot either.",
            "model._save_for_lite_interpreter(path, _save_mobile_debug_info=True)",
        )  # fmt: skip
    own = _own_code(program)
    for function in own:
        for at, name in _calls(function):
            yield from _of_operator(name, _source(function, at), backends)
        for constant in function.constants:
            if isinstance(constant, Device) and constant.name.partition(":")[0] not in (
                "cpu",
                "vulkan",
                "metal",
                "meta",
            ):
                yield Lint(
                    "DEVICE", "error", f"{function.method} puts tensors on {constant.name}, which phones do not have.",
                    "Write device=x.device in place of a fixed device, or trace and save the model on the CPU.",
                )  # fmt: skip

    try:
        functions = list(register_code(program).functions.values())
    except CaptureError:  # which it says when it is compiled
        functions = []
    for code in functions:
        if code.method in [function.method for function in own]:
            yield from _of_flow(code)


def _own_code(program: LiteProgram) -> list[Function]:
    """The methods that users call, without those whose code also stands in another, which calls them: it would count twice."""
    own = [function for function in program.functions.values() if not _is_internal(function)]
    names = [[name for _, name in _calls(function)] for function in own]

    def stands_in(part: list[str], whole: list[str]) -> bool:
        return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))

    return [
        function for i, function in enumerate(own)
        if not any(len(other) > len(names[i]) > 0 and stands_in(names[i], other) for other in names)
    ]  # fmt: skip


def _is_internal(function: Function) -> bool:
    """Not called by users: helpers, whose code is also inlined where they are called, and bundled inputs' accessors."""
    return (function.method or "").startswith(("_", "get_all_bundled", "get_num_bundled", "get_bundled"))


def _calls(function: Function) -> Iterator[tuple[int, str]]:
    for at, step in enumerate(function.instructions):
        if step.op in ("OP", "OPN") and 0 <= step.x < len(function.operators):
            yield at, function.operators[step.x].full_name


def _of_operator(name: str, source: list[str], backends: Sequence[str]) -> Iterator[Lint]:
    short = name.partition("::")[2].partition(".")[0]
    if "cpu" in backends and not on_cpu(name) and can_be_planned(name):
        yield Lint(
            "PLANNED_ONLY",
            "warning",
            f"{name}: not in interpreted code; it runs where example inputs let it be planned.",
            "penlight optimize --shape, or bundled inputs.",
            source,
        )
    elif "cpu" in backends and not on_cpu(name):
        yield Lint("UNSUPPORTED", "error", f"{name}: not supported.", _instead(name), source)
    for gpu in GPUS:
        if gpu in backends and not runs_on(gpu, name):
            yield Lint(
                f"UNSUPPORTED_{gpu.upper()}", "error", f"{name}: not an operator of {gpu.capitalize()}.",
                "Use another operator, or the CPU for this model.", source,
            )  # fmt: skip
    if short in RANDOM:
        yield Lint(
            "RANDOM",
            "note",
            f"{name}: its numbers differ from torch's, and from run to run.",
            "Pass noise as an input.",
            source,
        )
    if short in SIZED_BY_DATA and name not in ("aten::where.self", "aten::where.ScalarSelf", "aten::where.ScalarOther"):
        yield Lint(
            "DATA_SIZES", "note", f"{name}: the size of its result depends on the data; what follows is planned when it is known.",
            "If the size is bounded, masks (torch.where) keep it fixed.", source,
        )  # fmt: skip


def _of_flow(function: ScriptFunction) -> Iterator[Lint]:
    for step in dataflow.steps(function):
        action = step.action
        source = [action.source] if action.source else []
        if action.op == "branch" and not _is_check(function, step.at):
            on_data = "data" in step.taken[0]
            yield Lint(
                "BRANCH", "warning" if on_data else "note",
                "A branch that depends on the values of a tensor: the code around it is planned in pieces."
                if on_data else "A branch that depends on shapes, arguments or attributes.",
                "Use torch.where, or decide outside of the model." if on_data else "Trace the model if the branch is always the same.", source,
            )  # fmt: skip
        elif action.op == "loop":
            yield Lint(
                "LOOP", "note", "A loop: its body is planned, the loop itself is interpreted.",
                "Replace it by one operator over a batch where that is possible.", source,
            )  # fmt: skip
        elif action.op == "set_attr":
            yield Lint(
                "STATE", "note", "The model keeps state between calls.", "Pass it in and out as arguments if sessions must not share it.", source,
            )  # fmt: skip
        elif action.op == "op" and dataflow.is_in_place(action.target) and step.taken:
            inputs = sorted(tag.removeprefix("input ") for tag in step.taken[0] if tag.startswith("input "))
            if inputs:
                yield Lint(
                    "INPUT_WRITTEN", "warning", f"{action.target} writes into the input {inputs[0]} of {function.method}.",
                    f"{inputs[0]} = {inputs[0]}.clone() first, or use the operator without the underscore.", source,
                )  # fmt: skip


def _is_check(function: ScriptFunction, at: int) -> bool:
    """Whether one way of a branch does nothing but raise: an assert."""
    code = function.code

    def raises(start: int) -> bool:
        for action in code[start : start + 64]:
            if action.op == "op" and action.target == "prim::RaiseException":
                return True
            if action.op not in ("op", "move", "drop", "list", "tuple"):
                return False
        return False

    return raises(at + 1) or raises(code[at].target)


def _source(function: Function, at: int) -> list[str]:
    found = function.sources[at] if function.sources and at < len(function.sources) else ""
    return [found] if found else []


def _instead(name: str) -> str:
    from penlight.ops.refused import refusal

    found = refusal(name.partition("::")[2])
    return (
        found.instead
        if found is not None and found.instead
        else "Write it with operators that are (docs/OPERATORS.md)."
    )


# --- .pen ---
def _of_pen(path: Path, backends: Sequence[str]) -> Iterator[Lint]:
    from penlight.file.reader import read
    from penlight.ir.script import OPERATORS

    pen = read(path)
    if not pen.bundles:
        yield Lint(
            "BUNDLED_INPUT", "warning", "No inputs are bundled with the model: nothing can test it on a device.",
            "Bundle inputs with the module before optimizing it.",
        )  # fmt: skip
    doubles = [c.name for c in pen.constants if c.dtype == "f64"]
    if doubles:
        yield Lint(
            "F64_WEIGHTS", "warning", f"{_some(doubles)}: f64, twice the size, and slow on phones.", "model.float() before optimizing.",
            count=len(doubles),
        )  # fmt: skip
    for name in pen.metadata.get(OPERATORS, ()):
        yield from (
            lint
            for lint in _of_operator(str(name), [], [b for b in backends if b != "cpu"])
            if "UNSUPPORTED" in lint.code
        )
    for name in pen.script_operators:
        if "cpu" in backends and not on_cpu(name):
            yield Lint("UNSUPPORTED", "error", f"{name}: not supported.", _instead(name))
    known = kernel_keys()
    for key in sorted(key for key in pen.keys if known and key not in known):
        yield Lint(
            "UNSUPPORTED", "error", f"{key}: this build of the runtime has no such kernel.", "Install a newer Penlight."
        )


# --- putting together ---
def _merged(found: Sequence[Lint]) -> list[Lint]:
    """Equal ones as one, with all their lines; the gravest first."""
    by_text: dict[tuple[str, str], Lint] = {}
    for lint in found:
        before = by_text.setdefault((lint.code, lint.message), lint)
        if before is not lint:
            before.count += lint.count
            before.sources += [s for s in lint.sources if s not in before.sources]
    return sorted(by_text.values(), key=lambda lint: (LEVELS.index(lint.level), lint.code))


def _some(names: Sequence[str], limit: int = 3) -> str:
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")
