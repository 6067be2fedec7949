"""What should be mended in a model before it goes to a phone: PyTorch's four lints, and more, each with its line and what to do.

Works on what the readers of .ptl and TorchScript files give, and on .pen files; runs nothing of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penlight.capture.lite.program import LiteProgram
from penlight.capture.script import dataflow
from penlight.capture.script.fold_batch_norm import fold_batch_norm
from penlight.capture.script.freeze import freeze
from penlight.capture.source import SourceProgram
from penlight.errors import CaptureError
from penlight.file_kinds import WORDS, file_kind
from penlight.ir.script import ScriptFunction
from penlight.ir.values import Device, ScriptObject, ScriptTensor
from penlight.lint.program import (
    Code,
    can_be_planned,
    code_of,
    code_of_script,
    kernel_keys,
    on_cpu,
    register_code,
    tensors,
    tensors_of,
)
from penlight.lint.torch_backends import GPUS, runs_on

_MOST_COMPARED = 1 << 28  # characters
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
    """Of a .pt (TorchScript), .ptl or .pen file."""
    kind = file_kind(path)
    if kind == "pen":
        found = list(_of_pen(Path(path), backends))
    elif kind in ("zip", "flatbuffer"):
        from penlight.capture.lite.read import read

        found = list(_of_lite(read(path), backends))
    elif kind == "torchscript":
        found = list(_of_torchscript(path, backends))
    else:
        raise CaptureError(f"{path}: expected TorchScript, .ptl or .pen, got {WORDS[kind]}")
    return _merged(found)


def _of_torchscript(path: str | Path, backends: Sequence[str]) -> Iterator[Lint]:
    """State from the module as it was saved; code of it in eval mode, with its constants and batch norms folded: what will run. All of it is
    read here: torch would run code of the file."""
    program = SourceProgram(path)
    module, constants = program.state()
    yield from _of_state(
        program.methods, module, tensors_of(module, [(f"constant {i}", c) for i, c in enumerate(constants)])
    )
    script = program.script()
    yield from _layers(_own_code(code_of_script(script)))
    freeze(script)
    fold_batch_norm(script)
    functions = list(script.functions.values())
    found = _of_code(code_of_script(script), functions, backends)
    yield from (lint for lint in found if lint.code not in ("DROPOUT", "BATCHNORM"))


def _of_lite(program: LiteProgram, backends: Sequence[str]) -> Iterator[Lint]:
    yield from _of_state(program.methods, program.module, tensors(program))
    try:
        functions = list(register_code(program).functions.values())
    except CaptureError:  # which it says when it is compiled
        functions = []
    yield from _of_code(code_of(program), functions, backends)


# --- state: weights, attributes ---
def _of_state(
    methods: Sequence[str], module: ScriptObject, weights: Iterable[tuple[str, ScriptTensor]]
) -> Iterator[Lint]:
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
    if _training(module):
        yield Lint(
            "TRAINING",
            "warning",
            "The model was saved in training mode.",
            "Call model.eval() before scripting and saving.",
        )
    grads, doubles = [], []
    for name, tensor in weights:
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


def _layers(own: Sequence[Code]) -> Iterator[Lint]:
    """Dropout and batch norm in the code, as PyTorch's lints look for them."""
    for code in own:
        for name, line in code.calls:
            if "dropout" in name:
                yield Lint(
                    "DROPOUT", "note", f"{name} is still in the code.",
                    "Call eval() before saving; penlight optimize and optimize_for_mobile remove it.", _lines(line),
                )  # fmt: skip
            if "batch_norm" in name:
                yield Lint(
                    "BATCHNORM", "note", f"{name} is still in the code.",
                    "Call eval() before saving; penlight optimize and optimize_for_mobile fold it into the layer before it.",
                    _lines(line),
                )  # fmt: skip


# --- code ---
def _of_code(codes: Sequence[Code], functions: Sequence[ScriptFunction], backends: Sequence[str]) -> Iterator[Lint]:
    own = _own_code(codes)
    yield from _layers(own)
    if not any(line for code in codes for _, line in code.calls):
        yield Lint(
            "NO_SOURCE_LINES", "note", "The file does not say which source line an instruction came from: errors on the device cannot either.",
            "model._save_for_lite_interpreter(path, _save_mobile_debug_info=True)",
        )  # fmt: skip
    for code in own:
        for name, line in code.calls:
            yield from _of_operator(name, _lines(line), backends)
        for constant in code.constants:
            if isinstance(constant, Device) and constant.name.partition(":")[0] not in (
                "cpu",
                "vulkan",
                "metal",
                "meta",
            ):
                yield Lint(
                    "DEVICE", "error", f"{code.method} puts tensors on {constant.name}, which phones do not have.",
                    "Write device=x.device in place of a fixed device, or trace and save the model on the CPU.",
                )  # fmt: skip

    for function in functions:
        if function.method in [code.method for code in own]:
            yield from _of_flow(function)


def _own_code(codes: Sequence[Code]) -> list[Code]:
    """The methods that users call, without those whose code also stands in another, which calls them: it would count twice."""
    own = [code for code in codes if not _is_internal(code)]
    names = ["".join(f"{name}\n" for name, _ in code.calls) for code in own]
    if len(own) * sum(map(len, names)) > _MOST_COMPARED:
        return own
    return [
        code for i, code in enumerate(own)
        if not any(len(other) > len(names[i]) > 0 and f"\n{names[i]}" in f"\n{other}" for other in names)
    ]  # fmt: skip


def _is_internal(code: Code) -> bool:
    """Not called by users: helpers, whose code is also inlined where they are called, and bundled inputs' accessors."""
    return code.method.startswith(("_", "get_all_bundled", "get_num_bundled", "get_bundled"))


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


def _lines(line: str) -> list[str]:
    return [line] if line else []


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
