"""Penlight, a pocket-size torch: takes a PyTorch model, makes it small and fast, and runs it on a phone.

>>> import penlight
>>> m = penlight.optimize(model, (image,))     # nn.Module, ExportedProgram, ScriptModule, path to .pt or .pt2
>>> y = m(image)                               # runs here already: torch or numpy in, the same kind out
>>> m.save("mobilenet_v2.pen")
>>> m = penlight.load("mobilenet_v2.pen", threads=2)
>>> q = penlight.quantize(model, images)       # in integers; q.report() shows what that costs

Importing this package is cheap and needs neither torch nor the compiled runtime; `optimize` needs torch, `load` does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from penlight import torchvision as _torchvision
from penlight.errors import (
    ArgumentError,
    CalibrationWarning,
    CaptureError,
    DeviceWarning,
    InputError,
    InterpretedWarning,
    LoadError,
    PenlightError,
    PlanWarning,
    QuantizationError,
    RunError,
    UnsupportedError,
    UntrustedError,
)

if TYPE_CHECKING:
    from penlight.model import Model
    from penlight.tensor import Tensor

__version__ = "0.1.0"
__all__ = [
    "ArgumentError", "CalibrationWarning", "CaptureError", "DeviceWarning", "InputError", "InterpretedWarning", "LoadError", "Model", "PenlightError", "PlanWarning",
    "QuantizationError", "RunError", "Tensor", "UnsupportedError", "UntrustedError", "is_vulkan_available", "load", "optimize", "quantize", "vulkan_devices",
]  # fmt: skip
_torchvision.watch()  # it imports without its C++ part; one that is whole is not touched


def optimize(
    model: Any,
    example_inputs: tuple[Any, ...] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    backend: str | Sequence[str] = "cpu",
    fallback: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    methods: Sequence[str] | None = None,
    bundled_inputs: Mapping[str, Sequence[tuple[Any, ...]]] | None = None,
    threads: int | None = None,
    winograd_budget: float = 0.5,
    weights: str | None = None,
    plan: bool = True,
    allow_missing: bool = False,
    strict: bool = False,
    trust: bool = False,
    read_budget: float = 1.0,
    progress: Callable[[str], None] | None = None,
) -> Model:
    """Compiles a PyTorch model and returns it ready to run and to save.

    model: an nn.Module, an ExportedProgram, a ScriptModule, or the path of a .pt, .ptl or .pt2 file.
    example_inputs, kwargs: arguments to capture it with; not needed where the source carries them. A script does without: what can
      be guessed is planned, the rest is interpreted, operator by operator.
    dynamic_shapes: as torch.export takes them, or "auto": every size may vary that the model's code does not fix.
    backend: what it will run on: "cpu", "vulkan" (such a file runs on the CPU too, slower), or both, ("cpu", "vulkan"): at its best on
      either, with weights shared where they lie alike. fallback: "cpu": operators that a GPU lacks run on the CPU, with copies
      in between; None: they are an error that names them all.
    metadata: what the file should say of itself: name, labels, preprocessing, licence.
    methods: of TorchScript: which to keep; forward by default, of a .ptl file all.
    bundled_inputs: arguments to keep in the file, by method, with what the model gives for them: Model.bundled_inputs.
    winograd_budget: by what fraction the file may grow so that 3 x 3 convolutions run up to 3 times as fast: 1.0 allows twice
      the size, 0 none of it. See docs/WINOGRAD.md for what it costs in accuracy.
    weights: "f16": stored in half the size, and expanded when the file is loaded; "i8": in a quarter of it, with products in integers whose
      scale each run chooses. Neither needs data to calibrate with (penlight.quantize does, and is faster); Winograd is left out.
    plan: False: scripts are interpreted as they are, operator by operator: ready at once, but slower. Else, without example inputs,
      they are planned for what comes with them or can be guessed from their code; the metadata says for what.
    allow_missing: take scripts that call operators which Penlight lacks: a run that meets one will fail. Else an error names them.
    strict: an error where anything would be interpreted.
    trust: whether a file may do what a program may. Without, nothing of a file is run but computation, and where that is not enough to read
      one (pickled objects in a .pt2, __setstate__ in a .pt that writes files) an error names what. See SECURITY.md.
    read_budget: how much work a file may cause while it is read, in multiples of what its size allows (penlight/budget.py).
    progress: called with a line of text for each stage.

    >>> m = penlight.optimize(resnet18().eval(), (torch.rand(2, 3, 224, 224),), dynamic_shapes={"x": {0: Dim("n")}})
    """
    from penlight.compile import compile_model, named
    from penlight.file.writer import to_array
    from penlight.model import Model

    if "metal" in [name.lower() for name in named("backend", backend)]:
        raise ArgumentError("backend: expected cpu, vulkan, or both, got 'metal', which no library has yet")
    program = compile_model(
        model, example_inputs, kwargs=kwargs, dynamic_shapes=dynamic_shapes, backend=backend, fallback=fallback, metadata=metadata, methods=methods,
        bundled_inputs=bundled_inputs, winograd_budget=winograd_budget, weights=weights, plan=plan, allow_missing=allow_missing, strict=strict,
        trust=trust, read_budget=read_budget, progress=progress,
    )  # fmt: skip
    return Model(to_array(program), threads=threads)


def quantize(
    model: Any,
    batches: Iterable[Any] = (),
    *,
    example_inputs: tuple[Any, ...] | None = None,
    dynamic_shapes: Any = None,
    method: str = "histogram",
    per_channel: bool = True,
    weights: str | None = None,
    budget: float | Mapping[str, float] | None = None,
    keep: Collection[str] = (),
    equalize: bool = True,
    correct_bias: bool = True,
    sensitivity: bool = True,
    speed: bool = True,
    metadata: Mapping[str, Any] | None = None,
    threads: int | None = None,
    trust: bool = False,
    read_budget: float = 1.0,
    progress: Callable[[str], None] | None = None,
    step: Callable[[int, int, str], None] | None = None,
) -> Model:
    """Compiles a PyTorch model that computes in integers: a quarter of the size, and faster. `Model.report()` says what that costs.

    model: what `optimize` takes, as floats. batches: inputs like those that it will see, 16 to 200 of them, in an iterable: each a tensor, a
      tuple of them, or a dict of named ones. Batches of many are taken apart where the model is captured for one.
    example_inputs, dynamic_shapes: as for `optimize`; else the first batch is the example.
    method: how the range of a value follows from what was seen: "histogram" (least squared error), "minmax", or "percentile" (99.99).
    per_channel: a scale for each output channel of a weight, not one for all.
    weights: "i8" or "f16": only the weights become smaller; batches are not needed.
    budget: how far the outputs may be off on the batches: a relative error (root mean square), such as 0.05; or {"top1": 0.99}, how often the
      greatest score must be the same one. The layers that cost the most stay in floats until it is met; an error if it cannot be.
    keep: layers to leave in floats: names as the report shows them, patterns ("head.*"), or operators.
    equalize: make the channels between two layers equally large, where that helps. correct_bias: put the mean error of rounded weights into biases.
    sensitivity: measure what each layer alone costs (about 20 seconds). speed: time it before and after (a second).
    trust, read_budget: of files, as for `optimize`.
    progress: called with a line of text for each stage; step: with how many of how many are done in it.

    >>> q = penlight.quantize(resnet18().eval(), [image for image, _ in loader], budget={"top1": 0.99})
    >>> print(q.report())
    """
    from penlight.quantizer import Options, quantize_model

    options = Options(method, per_channel, budget, keep, equalize, correct_bias, sensitivity, speed)
    return quantize_model(
        model, batches, options, weights=weights, example_inputs=example_inputs, progress=progress, step=step, threads=threads,
        dynamic_shapes=dynamic_shapes, metadata=metadata, trust=trust, read_budget=read_budget,
    )  # fmt: skip


def load(
    source: str | os.PathLike[str] | bytes | IO[bytes] | tuple[int, int, int],
    *,
    device: str = "cpu",
    threads: int | None = None,
    verify: bool = False,
    copy: bool = False,
    isa: str | None = None,
    memory_limit: int | None = None,
    max_steps: int | None = None,
    f16: bool = False,
) -> Model:
    """Loads a .pen file: mapped, verified, ready. Does not need torch.

    source: a path, the file's bytes, a file opened for reading, or (descriptor, offset, size) for a file inside another, such as an Android asset.
    device: "cpu"; "vulkan", a GPU; "vulkan:1", another one, by its number or a part of its name. f16: a GPU that can stores values as
      f16, which is faster and less exact; sums stay f32.
    threads: for each session; None: one per core. verify: also compare the content hash (reads the whole file); and, for another device
      than the CPU, what it gives for the bundled inputs, or for random ones, with what the CPU gives. Where they differ (by 1e-3, or 2e-2
      with f16), or the device fails, the model runs on the CPU, and a DeviceWarning says why.
    copy: read the file into memory, for files that may change underneath. isa: force an instruction set.
    memory_limit: bytes that a run may take: intermediate values, tables, results, all values of interpreted code; 0: any number; None: as
      many as the machine has, or its container. max_steps: instructions, and elements that operators go through (of text: 16 bytes), of an
      interpreted method in one call; 0: any number; None: 2 ** 44. Over either, RunError. Ctrl-C ends a run on the CPU too, wherever it is.
    """
    from penlight import limits
    from penlight.agreement import load_verified
    from penlight.model import Model

    options: dict[str, Any] = {
        "threads": threads, "verify": verify, "copy": copy, "isa": isa, "memory_limit": memory_limit, "max_steps": max_steps,
        "f16": f16,
    }  # fmt: skip
    device = device.lower() if isinstance(device, str) else device  # Model says what is wrong with it
    if limits.flag("verify", verify) and device != "cpu":
        return load_verified(source, device, options)
    return Model(source, **options, device=device)


def is_vulkan_available() -> bool:
    """Whether models can run with device="vulkan" here. `penlight doctor` says why not, and what to install."""
    try:
        from penlight import _runtime
    except ImportError:
        return False
    return _runtime.without_vulkan() is None


def vulkan_devices() -> list[dict[str, Any]]:
    """The machine's Vulkan devices, in the order of device="vulkan:0", "vulkan:1", …: name, driver, memory, limits and features of each;
    `unfit` says why one cannot be used. Empty where there are none."""
    from penlight import _runtime

    return _runtime.vulkan_devices()[1]


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("Model", "Tensor"):
        return getattr(importlib.import_module(f"penlight.{name.lower()}"), name)
    if name in ("compat", "functional"):  # penlight.compat.install() after `import penlight` alone
        return importlib.import_module(f"penlight.{name}")
    raise AttributeError(f"module 'penlight' has no attribute {name!r}")
