"""How a method's arguments and results nest: specs that put flat tensors into the caller's containers and back.

A spec is plain JSON, kept in the .pen file; this module needs no torch. The forms of a spec:

    3                                   tensor number 3 of the method's flat inputs or outputs
    {"complex": [3, 4]}                 a complex tensor: its real and its imaginary part
    {"none": true}                      None
    {"const": 0.5}                      an int, float, bool or str that is the same in every call
    {"opaque": "torch.float32"}         another constant, known by its text only (inputs: compared; outputs: that text)
    {"dim": "x_0 // 2"}                 outputs only: an int that follows from the input shapes (penlight.ir.dims)
    {"item": 3}                         outputs only: the number in tensor 3
    {"tuple": [spec, …]}  {"list": [spec, …]}
    {"dict": {"out": spec, …}}          string keys, in their order
    {"dict_items": [[key, spec], …]}    a dict with other keys (ints, bools)
    {"ordered_dict": {"out": spec, …}}  collections.OrderedDict
    {"namedtuple": ["Point", {"x": spec, "y": spec}]}

An output spec is one of these. An input spec is `{"args": [spec, …], "kwargs": {name: spec}, "names": ["x", …]}`: `names` are
the names of the positional parameters, by which they may be passed too. Dataclasses (registered with torch's pytree under
their field names, as Hugging Face's outputs are) are dicts.
"""

from __future__ import annotations

import keyword
import math
import unicodedata
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from penlight.errors import CaptureError, InputError
from penlight.ir.dims import evaluate, parse_dim, symbols_of

Spec: TypeAlias = Any  # the JSON forms above
_MAX_DEPTH = 100
_MAX_DEPTH_GIVEN = 200  # of what a caller gives, or code
MOST_PARTS = 1 << 22  # of a result
_SEQUENCES = {"tuple": tuple, "list": list}


def flatten(spec: Spec, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Any]:
    """The tensors in a call's arguments, in the order of the method's inputs. InputError says in words where the
    arguments differ from what was captured."""
    if not kwargs and not spec["kwargs"] and spec["args"] == list(range(len(args))) and all(map(_is_tensor, args)):
        return list(args)  # tensors and nothing else, which most methods take: microseconds less
    leaves: dict[int, Any] = {}
    for name, part, value in _bind(spec, args, dict(kwargs or {})):
        _flatten(part, value, name, leaves)
    return [leaves[i] for i in range(len(leaves))]


def _is_tensor(value: Any) -> bool:
    """Of any library. The type is asked first: a nested tensor's own shape is an error of torch's."""
    return hasattr(type(value), "shape") or hasattr(value, "shape")


def parts(value: Any, depth: int = 0, known: dict[int, float] | None = None) -> float:
    """How many values it is, with shared ones as often as they are in it; inf: it contains itself, or is nested without end."""
    if not isinstance(value, (list, tuple, dict)):
        return 1
    known = {} if known is None else known
    if id(value) not in known:
        known[id(value)] = math.inf  # where it is in itself
        if depth < _MAX_DEPTH_GIVEN:
            items = value.values() if isinstance(value, dict) else value
            known[id(value)] = 1 + sum(parts(item, depth + 1, known) for item in items)
    return known[id(value)]


def settled(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """With plain containers, read once: whatever else a subclass says the next time it is asked. One that contains itself would never
    end."""
    if not isinstance(value, (list, tuple, Mapping)):
        return value
    if id(value) in inside or len(inside) > _MAX_DEPTH_GIVEN:
        what = "contains itself" if id(value) in inside else f"is nested deeper than {_MAX_DEPTH_GIVEN}"
        raise InputError(f"an argument {what}: {type(value).__name__}; expected values that come to an end")
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        return {key: settled(item, inside) for key, item in value.items()}
    made = [settled(item, inside) for item in value]
    return made if isinstance(value, list) else tuple(made)


def unflatten(spec: Spec, leaves: Sequence[Any], symbols: Mapping[str, int] | None = None) -> Any:
    """The method's result: `leaves` put together as an output spec says. `symbols` are the values of symbolic dims in this
    call, needed where the result holds sizes."""
    if isinstance(spec, int):
        return leaves[spec]
    kind, body = _form(spec)
    if kind == "none":
        return None
    if kind == "complex":
        return _joined(*(leaves[i] for i in body))
    if kind in ("const", "opaque"):
        return body
    if kind == "dim":
        return evaluate(parse_dim(body), symbols or {})
    if kind == "item":
        return leaves[body].item()
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](unflatten(s, leaves, symbols) for s in body)
    if kind in ("dict", "ordered_dict"):
        items = {k: unflatten(s, leaves, symbols) for k, s in body.items()}
        return items if kind == "dict" else OrderedDict(items)
    if kind == "dict_items":
        return {k: unflatten(s, leaves, symbols) for k, s in body}
    name, fields = body
    return _namedtuple(name, tuple(fields))(*(unflatten(s, leaves, symbols) for s in fields.values()))


def check_input_spec(spec: Spec, inputs: int, outputs: int) -> None:
    """ValueError unless it is an input spec that has each of so many inputs once. What it leaves out is filled in."""
    if isinstance(spec, dict):
        spec.setdefault("kwargs", {})
        spec.setdefault("names", [])
    parts = (spec.get("args"), spec.get("kwargs"), spec.get("names")) if isinstance(spec, dict) else (0, 0, 0)
    args, kwargs, names = parts
    if not isinstance(args, list) or not isinstance(kwargs, dict) or not _texts(names):
        raise ValueError(f"expected args, kwargs and names, got {str(spec)[:100]}")
    found: list[int] = []
    for part in [*args, *kwargs.values()]:
        _check(part, inputs, found, None, 0)
    if sorted(found) != list(range(inputs)):
        raise ValueError(f"expected the tensors 0 to {inputs - 1}, each once, got {str(sorted(found))[:100]}")
    formats = spec.get("channels_last")
    if formats is not None and not (
        isinstance(formats, list)
        and len(formats) == 2
        and all(isinstance(row, list) and all(type(i) is int and 0 <= i < outputs for i in row) for row in formats)
    ):
        raise ValueError(f"expected channels_last as two lists of outputs, got {str(formats)[:100]}")


def check_output_spec(spec: Spec, outputs: int, sizes: set[str]) -> None:
    """ValueError unless it is an output spec over so many outputs, and sizes of these names."""
    _check(spec, outputs, [], sizes, 0)


def _check(spec: Spec, count: int, found: list[int], sizes: set[str] | None, depth: int) -> None:
    """`sizes`: None in an input spec, which has none and no items."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH}")

    def leaf(index: Any) -> None:
        if type(index) is not int or not 0 <= index < count:
            raise ValueError(f"expected a tensor of {count}, got {str(index)[:60]}")
        found.append(index)

    if isinstance(spec, int):
        leaf(spec)
        return
    kind, body = _form(spec)
    good, inside = True, []
    if kind == "complex":
        good = isinstance(body, list) and len(body) == 2
        for index in body if good else ():
            leaf(index)
    elif kind == "const":
        good = isinstance(body, (bool, int, float, str))
    elif kind == "opaque":
        good = isinstance(body, str)
    elif kind == "dim":
        good = (
            sizes is not None and isinstance(body, str) and len(body) < 10_000 and symbols_of(parse_dim(body)) <= sizes
        )
    elif kind == "item":
        good = sizes is not None
        leaf(body)
    elif kind in _SEQUENCES:
        good = isinstance(body, list)
        inside = body
    elif kind in ("dict", "ordered_dict"):
        good = isinstance(body, dict)
        inside = [*body.values()] if good else []
    elif kind == "dict_items":
        good = isinstance(body, list) and all(
            isinstance(row, list) and len(row) == 2 and isinstance(row[0], (str, int)) for row in body
        )
        inside = [row[1] for row in body] if good else []
    elif kind == "namedtuple":
        good = isinstance(body, list) and len(body) == 2 and isinstance(body[0], str) and isinstance(body[1], dict)
        good = good and body[0].isidentifier() and not keyword.iskeyword(body[0])
        inside = [*body[1].values()] if good else []
    if not good:
        raise ValueError(f"not a container spec: {str(spec)[:100]}")
    for part in inside:
        _check(part, count, found, sizes, depth + 1)


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, str) for v in values)


def leaf_names(spec: Spec) -> list[str]:
    """A readable name for each tensor that a spec places: "x", "boxes[0]", "features.low"; for messages and tables."""
    names: dict[int, str] = {}
    if isinstance(spec, Mapping) and "args" in spec:
        for name, part in zip(_arg_names(spec), spec["args"], strict=True):
            _name_leaves(part, name, names)
        for name, part in spec["kwargs"].items():
            _name_leaves(part, name, names)
    else:
        _name_leaves(spec, "", names)
    return [names[i] for i in sorted(names)]


def _bind(spec: Spec, args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[str, Spec, Any]]:
    """Each argument's name, spec and value; positional ones may come by name, as in Python."""
    parts, keywords = spec["args"], spec["kwargs"]
    names = _arg_names(spec)
    values = list(args)
    if len(values) > len(parts):
        # keyword arguments of the captured call may be positional ones of the function
        extra = [n for n in spec["names"][len(parts) : len(values)] if n in keywords and n not in kwargs]
        if len(extra) != len(values) - len(parts):
            raise InputError(f"takes {_signature(spec)}; got {len(values)} positional arguments")
        kwargs.update(zip(extra, values[len(parts) :], strict=True))
        values = values[: len(parts)]
    for name in names[len(values) :]:
        if name not in kwargs:
            raise InputError(f"argument {name!r} is missing; takes {_signature(spec)}")
        values.append(kwargs.pop(name))
    unknown = [k for k in kwargs if k not in keywords]
    if unknown:
        twice = [k for k in unknown if k in names]
        what = "given twice: " + ", ".join(twice) if twice else "no argument named " + ", ".join(map(repr, unknown))
        raise InputError(f"{what}; takes {_signature(spec)}")
    # One that was None or a constant when captured may be left out: there is only that one choice.
    missing = [k for k in keywords if k not in kwargs and not _is_constant(keywords[k])]
    if missing:
        raise InputError(f"argument {missing[0]!r} is missing; takes {_signature(spec)}")
    bound = list(zip(names, parts, values, strict=True))
    return bound + [(k, s, kwargs[k]) for k, s in keywords.items() if k in kwargs]


def _arg_names(spec: Spec) -> list[str]:
    names = spec["names"]
    return [names[i] if i < len(names) else f"args[{i}]" for i in range(len(spec["args"]))]


def _signature(spec: Spec) -> str:
    parts = [f"{n}: {describe(s)}" for n, s in zip(_arg_names(spec), spec["args"], strict=True)]
    parts += [f"{n}= {describe(s)}" for n, s in spec["kwargs"].items()]
    return f"({', '.join(parts)})"


def describe(spec: Spec) -> str:
    """A spec in words: "dict(image: tensor, boxes: list of 3)"."""
    if isinstance(spec, int):
        return "tensor"
    kind, body = _form(spec)
    if kind == "complex":
        return "complex tensor"
    if kind in ("none", "item"):
        return "None" if kind == "none" else "number"
    if kind in ("const", "opaque", "dim"):
        return repr(body) if kind == "const" else str(body)
    if kind in _SEQUENCES:
        return f"{kind}({', '.join(map(describe, body))})" if len(body) <= 4 else f"{kind} of {len(body)}"
    if kind == "namedtuple":
        kind, body = body
    items = body if kind == "dict_items" else body.items()
    return f"{kind.removesuffix('_items')}({', '.join(f'{k}: {describe(s)}' for k, s in items)})"


def _flatten(spec: Spec, value: Any, where: str, leaves: dict[int, Any]) -> None:
    if isinstance(spec, int):
        if not _is_tensor(value):
            raise InputError(f"argument {where!r} must be a tensor, got {_what(value)}")
        leaves[spec] = value
        return
    kind, body = _form(spec)
    if kind == "complex":
        leaves[body[0]], leaves[body[1]] = _parts(value, where)
    elif kind == "none":
        if value is not None:
            raise InputError(f"argument {where!r} was None when the model was captured, got {_what(value)}")
    elif kind in ("const", "opaque"):
        same = str(value) == body if kind == "opaque" else _same_constant(value, body)
        if not same:
            raise InputError(
                f"argument {where!r} was {body!r} when the model was captured and is fixed to that, got {_what(value)}"
            )
    elif kind in _SEQUENCES:
        if not isinstance(value, (list, tuple)) or len(value) != len(body):
            raise InputError(f"argument {where!r} must be a {kind} of {len(body)}, got {_what(value)}")
        for i, s in enumerate(body):
            _flatten(s, value[i], f"{where}[{i}]", leaves)
    else:
        _flatten_fields(spec, value, where, leaves)


def _flatten_fields(spec: Spec, value: Any, where: str, leaves: dict[int, Any]) -> None:
    kind, body = _form(spec)
    if kind == "namedtuple":
        body = body[1]
        if isinstance(value, (list, tuple)) and len(value) == len(body):
            value = dict(zip(body, value, strict=True))
    items = dict(body)
    if not isinstance(value, Mapping):
        # dataclasses were captured as dicts
        if isinstance(value, (str, list, tuple)) or not all(isinstance(k, str) and hasattr(value, k) for k in items):
            raise InputError(f"argument {where!r} must be a {describe(spec)}, got {_what(value)}")
        value = {k: getattr(value, k) for k in items}
    if value.keys() != items.keys():
        missing = [str(k) for k in items if k not in value]
        extra = [str(k) for k in value if k not in items]
        parts = [f"{label}: {', '.join(keys)}" for label, keys in (("missing", missing), ("unknown", extra)) if keys]
        raise InputError(f"argument {where!r} must have the keys {', '.join(map(str, items))} ({'; '.join(parts)})")
    for key, s in items.items():
        _flatten(s, value[key], f"{where}.{key}", leaves)


def _parts(value: Any, where: str) -> tuple[Any, Any]:
    """The real and the imaginary part of a complex tensor of torch's or array of numpy's, in its own memory."""
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if dtype != "complex64":
        raise InputError(f"argument {where!r} must be a complex64 tensor, got {dtype or _what(value)}")
    if hasattr(value, "resolve_conj"):  # a tensor of torch's may be the conjugate of what its memory holds
        value = value.detach().resolve_conj()
    return value.real, value.imag


def _joined(real: Any, imag: Any) -> Any:
    if hasattr(real, "new_empty"):
        import torch

        return torch.complex(real, imag)
    import numpy as np

    joined = np.empty(real.shape, np.complex64)
    joined.real, joined.imag = real, imag
    return joined


def _name_leaves(spec: Spec, name: str, names: dict[int, str]) -> None:
    if isinstance(spec, int):
        names.setdefault(spec, name)
        return
    kind, body = _form(spec)
    if kind == "complex":
        for index, part in zip(body, ("real", "imag"), strict=True):
            names.setdefault(index, f"{name}.{part}" if name else part)
    elif kind == "item":
        _name_leaves(body, name, names)
    elif kind in _SEQUENCES:
        for i, s in enumerate(body):
            _name_leaves(s, f"{name}[{i}]" if name else f"{i}", names)
    elif kind in ("dict", "ordered_dict", "dict_items", "namedtuple"):
        fields = dict(body[1] if kind == "namedtuple" else body)
        for key, s in fields.items():
            _name_leaves(s, f"{name}.{key}" if name else str(key), names)


def _form(spec: Spec) -> tuple[str, Any]:
    if isinstance(spec, Mapping) and len(spec) == 1:
        ((kind, body),) = spec.items()
        if kind in _FORMS:
            return kind, body
    raise ValueError(f"not a container spec: {str(spec)[:100]}")


_FORMS = {"complex", "none", "const", "opaque", "dim", "item", "tuple", "list", "dict", "dict_items", "ordered_dict",
          "namedtuple"}  # fmt: skip


def _is_constant(spec: Spec) -> bool:
    return not isinstance(spec, int) and _form(spec)[0] in ("none", "const", "opaque")


def _same_constant(value: Any, constant: Any) -> bool:
    return type(value) is type(constant) and (value == constant or (value != value and constant != constant))


def _what(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"{type(value).__name__} {value!r}" if value is not None else "None"
    if isinstance(value, Mapping):
        return f"{type(value).__name__} with the keys {', '.join(map(str, value)) or '(none)'}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{type(value).__module__}.{type(value).__qualname__}"


@lru_cache(maxsize=256)
def _namedtuple(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    """A field that cannot be a name gets its place's, _0. Python would write ﬁ as fi: with both of them, there are two fields of one name."""
    names = (field if unicodedata.is_normalized("NFKC", field) else "" for field in fields)
    return namedtuple(name, names, rename=True)  # type: ignore[misc]


def constant_spec(value: Any) -> Spec:
    """The spec of a value that is no tensor and the same in every call."""
    if value is None:
        return {"none": True}
    if isinstance(value, (bool, int, float, str)):
        return {"const": value}
    return {"opaque": str(value)}


def from_treespec(treespec: Any, leaves: Sequence[Spec]) -> Spec:
    """torch's TreeSpec (torch.utils._pytree) with a spec for each of its leaves, in order."""
    remaining = iter(leaves)
    spec = _from_treespec(treespec, remaining)
    if next(remaining, None) is not None:
        raise ValueError(f"{treespec} has fewer leaves than the {len(leaves)} specs given")
    return spec


def _from_treespec(treespec: Any, leaves: Any) -> Spec:
    if treespec.is_leaf():
        return next(leaves)
    kind, context = treespec.type, treespec.context
    below = treespec.children() if hasattr(treespec, "children") else treespec.children_specs  # torch before 2.10
    children = [_from_treespec(c, leaves) for c in below]
    name = getattr(kind, "__name__", str(kind))
    if kind in (tuple, list):
        return {name: children}
    if name == "deque":
        return {"list": children}
    if name == "namedtuple":  # the context is the class
        return {"namedtuple": [context.__name__, dict(zip(context._fields, children, strict=True))]}
    if issubclass(kind, tuple):  # torch.Size, and torch.return_types, which have field names
        fields = [f for f in getattr(kind, "__match_args__", ()) if isinstance(f, str)]
        return {"namedtuple": [name, dict(zip(fields, children, strict=True))]} if fields else {"tuple": children}
    keys = _keys(context, len(children))
    if keys is None:
        raise CaptureError(
            f"a {kind.__module__}.{name} among the inputs or outputs: its parts have no names that Penlight can keep; use a"
            " tuple, list, dict, namedtuple or dataclass"
        )
    if kind is OrderedDict:
        return {"ordered_dict": dict(zip(keys, children, strict=True))}
    if all(isinstance(k, str) for k in keys):
        return {"dict": dict(zip(keys, children, strict=True))}
    if all(isinstance(k, (str, int, bool)) for k in keys):
        return {"dict_items": [[k, c] for k, c in zip(keys, children, strict=True)]}
    raise CaptureError(f"a dict with keys of other kinds than str, int and bool among the inputs or outputs: {keys}")


def _keys(context: Any, count: int) -> list[Any] | None:
    """The names of a registered container's children: dicts keep their keys as the context, dataclasses a list of field
    names within it."""
    if isinstance(context, (list, tuple)):
        if len(context) == count and all(isinstance(k, (str, int, bool)) for k in context):
            return list(context)
        for part in context:
            keys = _keys(part, count) if isinstance(part, (list, tuple)) else None
            if keys is not None:
                return keys
    return None
