"""Whether two devices compute the same: how far two results are apart, and inputs to find that out with where a file carries none."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import DeviceWarning, LoadError, PenlightError, RunError
from penlight.ir import containers
from penlight.ir.types import DTYPES, itemsize
from penlight.limits import check_made_up

if TYPE_CHECKING:
    from penlight.model import Model, TensorInfo

TOLERANCES = {False: 1e-3, True: 2e-2}  # by whether values are stored as f16: in parts of the largest number
SMALLEST = 1e-4  # a largest number below this is as good as this: what is left when numbers cancel is noise
SIZES = (224, 64, 32, 8, 3, 2, 1)  # tried for a dim that is free, the first that the model takes


@dataclass(frozen=True)
class Agreement:
    """One value, computed twice."""

    name: str
    shape: tuple[int, ...]
    difference: float  # the largest; of integers and bools, the fraction that differs. NaN against a number is inf
    relative: float  # in parts of the largest number expected, or of SMALLEST
    agrees: bool


def agreement(name: str, got: Any, expected: Any, tolerance: float) -> Agreement:
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return Agreement(name, b.shape, np.inf, np.inf, False)
    if b.size == 0:
        return Agreement(name, b.shape, 0.0, 0.0, True)
    if b.dtype.kind not in "fc":  # what stands on the edge (argmax of near equals) may fall to the other side
        differs = float(np.mean(a != b))
        return Agreement(name, b.shape, differs, differs, differs <= tolerance)
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    difference = float(np.nan_to_num(apart, nan=np.inf).max())
    finite = np.abs(b[np.isfinite(b)])
    relative = difference / max(SMALLEST, float(finite.max()) if finite.size else 1.0)
    return Agreement(name, b.shape, difference, relative, relative <= tolerance)


def leaves(result: Any, name: str = "") -> list[tuple[str, Any]]:
    """Every array, tensor, number and text in a result, under a name that says where it stands in it."""
    if isinstance(result, SimpleNamespace):
        result = vars(result)
    if isinstance(result, dict):
        return [leaf for key, item in result.items() for leaf in leaves(item, f"{name}.{key}" if name else str(key))]
    if isinstance(result, (list, tuple)):
        return [leaf for i, item in enumerate(result) for leaf in leaves(item, f"{name or 'output'}[{i}]")]
    if hasattr(result, "detach"):
        result = result.detach().resolve_conj().resolve_neg()
        result = (result.float() if str(result.dtype) == "torch.bfloat16" else result).numpy()
    elif isinstance(result, (bool, int, float, complex, str, np.generic)):
        result = np.asarray(result)
    return [(name or "output", result)] if isinstance(result, np.ndarray) else []


def probe(inputs: Sequence[TensorInfo], free: int, seed: int = 0) -> list[np.ndarray]:
    """Random inputs: normal numbers, ones and zeros. Dims that are free have the size `free`, or the nearest that is allowed."""
    random = np.random.default_rng(seed)
    shapes = [
        [
            d if d is not None else min(max(free, least), most if most is not None else free + least)
            for d, (least, most) in zip(info.shape, info.limits, strict=True)
        ]
        for info in inputs
    ]
    check_made_up((info.name, dims, itemsize(info.dtype)) for info, dims in zip(inputs, shapes, strict=True))
    made = []
    for info, dims in zip(inputs, shapes, strict=True):
        if info.dtype.startswith("f"):
            made.append(np.asarray(random.standard_normal(dims)).astype(DTYPES[info.dtype][1]))
        else:
            made.append(random.integers(0, 2, dims).astype(DTYPES[info.dtype][1]))
    return made


Call = tuple[tuple[Any, ...], dict[str, Any]]


def example_call(model: Model, method: str) -> Call:
    """Arguments to compare with: the first bundled inputs; else a probe, at the first size that `model` takes."""
    for bundle in model.bundled_inputs(method):
        return tuple(bundle.args), {}
    if method not in model.planned_methods:
        raise RunError(f"{method} is interpreted, and the file carries no bundled inputs for it", status="input")
    spec, infos = model._input_spec(method), model.inputs(method)
    failed: PenlightError | None = None
    for size in SIZES:
        given = probe(infos, size)
        args = tuple(containers.unflatten(part, given) for part in spec["args"])
        kwargs = {name: containers.unflatten(part, given) for name, part in spec["kwargs"].items()}
        try:
            model.run_method(method, *args, **kwargs)
        except RunError as e:
            failed = e
            continue
        finally:
            model.reset()  # what is compared starts from the file's state
        return args, kwargs
    raise RunError(f"{method}: no size of its free dims could be tried: {failed}", status="input")


def verify_device(model: Model, reference: Model) -> str:
    """What is wrong with a model on its device, in words: it fails, or computes otherwise than `reference`. "": all that could be
    compared agrees."""
    tolerance = TOLERANCES[bool(model._options["f16"])]
    for method in model.methods:
        try:
            args, kwargs = example_call(reference, method)
        except RunError as e:
            warnings.warn(DeviceWarning(f"verify: {method} was not compared with the CPU: {e}"), stacklevel=4)
            continue
        expected = leaves(reference.run_method(method, *args, **kwargs))
        try:
            got = leaves(model.run_method(method, *args, **kwargs))
        except RunError as e:
            return f"{method} failed on {model.device}: {e}"
        finally:
            model.reset()
        if len(got) != len(expected):
            return f"{method} gives {len(got)} values on {model.device}, and {len(expected)} on the CPU"
        for (name, a), (_, b) in zip(got, expected, strict=True):
            found = agreement(name, a, b, tolerance)
            if not found.agrees:
                return (
                    f"{method} gives other numbers on {model.device} than on the CPU: {name} is off by {found.difference:.3g}"
                    f" ({found.relative:.2g} of its largest, expected {tolerance:g} or less)"
                )
    return ""


def load_verified(source: Any, device: str, options: Mapping[str, Any]) -> Model:
    """The model on this device where it is found to compute what the CPU does; else on the CPU, with a warning."""
    from penlight.model import Model

    if hasattr(source, "read"):
        source = source.read()
    reference = Model(source, **options)
    try:
        model = Model(source, **options, device=device)
        wrong = verify_device(model, reference)
    except (RunError, LoadError) as e:  # the file itself was loaded above: this is about the device
        wrong = str(e)
    if not wrong:
        model.reset()
        return model
    warnings.warn(DeviceWarning(f"{wrong}. The model runs on the CPU"), stacklevel=3)
    reference.reset()
    return reference
