"""The pickles inside PyTorch files, read as data: opcodes of torch's own pickler → plain values.

Nothing is imported and nothing is called. A name in the pickle is looked up in the table of constructors below; any other is an
error that tells the name. Containers cannot be changed once they are in the memo (torch writes them there when they are
finished), so values have no cycles; their depth, and their size if every shared part were written out, are counted while they
are built, so that whoever walks them later ends soon.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penlight.capture.lite.tensors import BY_STORAGE, ElementType, per_channel, tensor
from penlight.errors import CaptureError
from penlight.ir.values import Device, EnumValue, Quantizer, ScriptObject, ScriptTensor, Storage, TypedDict, TypedList

MAX_DEPTH = 200
MAX_EXPANDED = 50_000_000  # values, each counted as often as it is reached

StorageReader = Callable[[str], Storage]


@dataclass(frozen=True)
class _Global:
    """A name that is called with what follows."""

    name: str


@dataclass(frozen=True)
class _StorageReference:
    storage: Storage
    kind: ElementType


@dataclass(frozen=True)
class _Scheme:
    name: str  # of a quantization


@dataclass(frozen=True)
class _NewObject:
    type_name: str


# What a value on the stack weighs: its size written out, its depth, and whether it is one of the classes above or holds one,
# which must not get into the result.
_Shape = tuple[int, int, bool]
_LEAF: _Shape = (1, 0, False)
_INTERNAL: _Shape = (1, 0, True)

_LISTS = {
    "torch.jit._pickle.build_intlist": ("List[int]", int),
    "torch.jit._pickle.build_doublelist": ("List[float]", float),
    "torch.jit._pickle.build_boollist": ("List[bool]", bool),
    "torch.jit._pickle.build_tensorlist": ("List[Tensor]", ScriptTensor),
}
_SCHEMES = ("per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams")
_REFUSED = {
    "torch._utils._rebuild_sparse_tensor": "sparse tensors are not supported: make them dense before saving",
    "torch._tensor._rebuild_from_type_v2": "tensors of a Python class of their own are not supported",
    "torch.distributed.rpc.rref": "remote references are not supported",
    "torch.jit._pickle.build_tensor_from_id": "a tensor that lies outside of the file",
}
_CALLED = {
    *_LISTS,
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_qtensor",
    "torch.jit._pickle.restore_type_tag",
    "torch.device",
    "collections.OrderedDict",
    "builtins.complex",
    "__builtin__.complex",
}


def unpickle(data: bytes, where: str, storage: StorageReader | None = None) -> Any:
    """The value of a pickle. `where` begins error messages ("model.ptl: data.pkl"); `storage` finds the bytes of tensors by the
    key that the pickle gives."""
    reader = _Reader(data, where, storage)
    try:
        return reader.run()
    except (IndexError, struct.error):
        # every access beyond the end, of the data, the stack or the marks
        raise CaptureError(
            f"{where}: the pickle is cut short or corrupt near byte {reader.at} of {len(data)}"
        ) from None


class _Reader:
    def __init__(self, data: bytes, where: str, storage: StorageReader | None) -> None:
        self.data = data
        self.where = where
        self.storage = storage
        self.at = 0
        self.stack: list[Any] = []
        self.shapes: list[_Shape] = []  # of what is on the stack
        self.marks: list[int] = []
        self.memo: dict[int, tuple[Any, _Shape]] = {}
        self.finished: set[int] = set()  # ids of containers in the memo
        self.copied = 0  # elements of lists and dicts that got a type
        self.storage_bytes: dict[str, int] = {}  # of the storages in use, by key
        self.scale_bytes = 0  # read from them for quantizers

    def run(self) -> Any:
        data, stack, shapes = self.data, self.stack, self.shapes
        if data[:2] != b"\x80\x02":
            raise self.error(
                f"a pickle of protocol 2 starts with 80 02, this one with {data[:2].hex(' ') or 'nothing'}"
            )
        at = 2
        while True:
            self.at = at
            op = data[at]
            at += 1
            if op == 0x68:  # h BINGET
                value, shape = self.recall(data[at])
                stack.append(value)
                shapes.append(shape)
                at += 1
            elif op == 0x4B:  # K BININT1
                stack.append(data[at])
                shapes.append(_LEAF)
                at += 1
            elif op == 0x87:  # TUPLE3
                self.make_tuple(len(stack) - 3)
            elif op == 0x71:  # q BINPUT
                self.remember(data[at])
                at += 1
            elif op == 0x28:  # ( MARK
                self.marks.append(len(stack))
            elif op == 0x74:  # t TUPLE
                self.make_tuple(self.marks.pop())
            elif op == 0x58:  # X BINUNICODE
                (size,) = struct.unpack_from("<I", data, at)
                if size > len(data) - at - 4:
                    raise IndexError
                # TorchScript's strings are bytes, which need not be UTF-8
                stack.append(data[at + 4 : at + 4 + size].decode("utf-8", "surrogateescape"))
                shapes.append(_LEAF)
                at += 4 + size
            elif op == 0x6A:  # j LONG_BINGET
                value, shape = self.recall(struct.unpack_from("<I", data, at)[0])
                stack.append(value)
                shapes.append(shape)
                at += 4
            elif op == 0x72:  # r LONG_BINPUT
                self.remember(struct.unpack_from("<I", data, at)[0])
                at += 4
            elif op == 0x4D:  # M BININT2
                self.push(struct.unpack_from("<H", data, at)[0])
                at += 2
            elif op == 0x4A:  # J BININT
                self.push(struct.unpack_from("<i", data, at)[0])
                at += 4
            elif op == 0x8A:  # LONG1
                size = data[at]
                if size > 8:
                    raise self.error(f"an integer of {size} bytes; TorchScript's have 8")
                if size > len(data) - at - 1:
                    raise IndexError
                self.push(int.from_bytes(data[at + 1 : at + 1 + size], "little", signed=True))
                at += 1 + size
            elif op == 0x47:  # G BINFLOAT
                self.push(struct.unpack_from(">d", data, at)[0])
                at += 8
            elif op == 0x4E:  # N NONE
                self.push(None)
            elif op == 0x88:  # NEWTRUE
                self.push(True)
            elif op == 0x89:  # NEWFALSE
                self.push(False)
            elif op == 0x29:  # ) EMPTY_TUPLE
                self.push(())
            elif op == 0x85:  # TUPLE1
                self.make_tuple(len(stack) - 1)
            elif op == 0x86:  # TUPLE2
                self.make_tuple(len(stack) - 2)
            elif op == 0x5D:  # ] EMPTY_LIST
                self.push([])
            elif op == 0x7D:  # } EMPTY_DICT
                self.push({})
            elif op == 0x65:  # e APPENDS
                self.append(self.marks.pop())
            elif op == 0x61:  # a APPEND
                self.append(len(stack) - 1)
            elif op == 0x75:  # u SETITEMS
                self.set_items(self.marks.pop())
            elif op == 0x73:  # s SETITEM
                self.set_items(len(stack) - 2)
            elif op == 0x63:  # c GLOBAL
                module, at = self.line(at)
                name, at = self.line(at)
                self.look_up(f"{module}.{name}")
            elif op == 0x81:  # NEWOBJ
                self.new_object()
            elif op == 0x62:  # b BUILD
                self.build()
            elif op == 0x52:  # R REDUCE
                self.reduce()
            elif op == 0x51:  # Q BINPERSID
                self.load_storage()
            elif op == 0x2E:  # . STOP
                break
            else:
                raise self.error(f"opcode {op:#04x} is not one that PyTorch's pickler writes")
        if len(stack) != 1 or self.marks:
            raise self.error(f"{len(stack)} values are left at the end, expected 1")
        self.plain(shapes[0], "the result")
        return stack[0]

    # the stack

    def push(self, value: Any, shape: _Shape = _LEAF) -> None:
        self.stack.append(value)
        self.shapes.append(shape)

    def pop(self) -> tuple[Any, _Shape]:
        self.above_mark(len(self.stack) - 1)
        return self.stack.pop(), self.shapes.pop()

    def above_mark(self, start: int) -> None:
        """What a command takes must lie above the innermost mark."""
        if start < (self.marks[-1] if self.marks else 0):
            raise IndexError

    def recall(self, key: int) -> tuple[Any, _Shape]:
        try:
            return self.memo[key]
        except KeyError:
            raise self.error(f"entry {key} of the memo is used before it is written") from None

    def remember(self, key: int) -> None:
        self.above_mark(len(self.stack) - 1)
        value = self.stack[-1]
        self.memo[key] = value, self.shapes[-1]
        if isinstance(value, (list, dict)):
            self.finished.add(id(value))

    def around(self, shapes: list[_Shape]) -> _Shape:
        """The shape of a container of these."""
        expanded, depth, internal = 1, 0, False
        for e, d, i in shapes:
            expanded += e
            if d > depth:
                depth = d
            internal = internal or i
        if depth >= MAX_DEPTH:
            raise self.error(f"values are nested deeper than {MAX_DEPTH}")
        if expanded > MAX_EXPANDED:
            raise self.error(f"values refer to each other so often that they have more than {MAX_EXPANDED} parts")
        return expanded, depth + 1, internal

    def plain(self, shape: _Shape, what: str) -> None:
        if shape[2]:
            raise self.error(f"{what} holds a storage or a name, which are no values")

    def make_tuple(self, start: int) -> None:
        self.above_mark(start)
        values, shapes = self.stack, self.shapes
        shape = self.around(shapes[start:])
        value = tuple(values[start:])
        del values[start:], shapes[start:]
        values.append(value)
        shapes.append(shape)

    def container(self, start: int, kind: type) -> Any:
        """The container below `start`, which gets what lies above."""
        self.above_mark(start - 1)
        target = self.stack[start - 1]
        if type(target) is not kind:
            raise self.error(f"{type(target).__name__} where a {kind.__name__} is filled")
        if id(target) in self.finished:
            raise self.error(f"a {kind.__name__} is changed after it went into the memo; PyTorch writes no such files")
        shape = self.around([self.shapes[start - 1], *self.shapes[start:]])
        self.plain(shape, f"a {kind.__name__}")
        # grown step by step, it must not get deeper with each
        depth = max((d for _, d, _ in self.shapes[start:]), default=0) + 1
        self.shapes[start - 1] = shape[0], max(self.shapes[start - 1][1], depth), False
        return target

    def append(self, start: int) -> None:
        target = self.container(start, list)
        target.extend(self.stack[start:])
        del self.stack[start:], self.shapes[start:]

    def set_items(self, start: int) -> None:
        target = self.container(start, dict)
        items = self.stack[start:]
        if len(items) % 2:
            raise self.error("a key of a dict has no value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            try:
                target[key] = value
            except TypeError:
                raise self.error(f"a {type(key).__name__} as the key of a dict") from None
        del self.stack[start:], self.shapes[start:]

    # names

    def line(self, at: int) -> tuple[str, int]:
        end = self.data.index(b"\n", at) if b"\n" in self.data[at : at + 4096] else -1
        if end < 0:
            raise IndexError
        return self.data[at:end].decode("utf-8", "backslashreplace"), end + 1

    def look_up(self, name: str) -> None:
        if name in _REFUSED:
            raise self.error(f"{name}: {_REFUSED[name]}")
        if name in _CALLED or name.startswith("__torch__."):
            self.push(_Global(name), _INTERNAL)
            return
        module, _, leaf = name.rpartition(".")
        if module == "torch" and leaf in BY_STORAGE:
            self.push(BY_STORAGE[leaf], _INTERNAL)
        elif module == "torch" and leaf in _SCHEMES:
            self.push(_Scheme(leaf), _INTERNAL)
        else:
            raise self.error(
                f"the pickle calls {name!r}. Only the constructors that PyTorch's own files use are read, nothing is run: "
                "do not trust this file"
            )

    def new_object(self) -> None:
        arguments, _ = self.pop()
        target, _ = self.pop()
        if not isinstance(target, _Global) or not target.name.startswith("__torch__.") or arguments != ():
            raise self.error("a new object without a TorchScript class")
        self.push(_NewObject(target.name), _INTERNAL)

    def build(self) -> None:
        state, shape = self.pop()
        target, _ = self.pop()
        if not isinstance(target, _NewObject):
            raise self.error(f"state for {type(target).__name__}, which is no new object")
        self.plain(shape, f"the state of {target.type_name}")
        made = ScriptObject(target.type_name)
        # attributes come as a bare dict; one that __getstate__ returned has a type tag
        if type(state) is dict and not made.is_custom:
            if not all(isinstance(name, str) for name in state):
                raise self.error(f"an attribute of {target.type_name} has a name that is no text")
            made.attributes = state
        else:
            made.state, made.has_state = state, True
        self.push(made, shape)

    def reduce(self) -> None:
        arguments, shape = self.pop()
        target, _ = self.pop()
        if not isinstance(target, _Global):
            raise self.error(f"{type(target).__name__} is called, which is no constructor")
        name = target.name
        if name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_qtensor"):
            self.push(self.rebuild(self.arguments(arguments, name), name.endswith("_qtensor")))
            return
        self.plain(shape, f"a call of {name}")
        if name.startswith("__torch__."):
            self.push(EnumValue(name, arguments), shape)
            return
        given = self.arguments(arguments, name)
        if name in _LISTS:
            type_name, kind = _LISTS[name]
            (values,) = self.exactly(given, 1, name)
            if not isinstance(values, list) or any(type(v) is not kind for v in values):
                raise self.error(f"{name} of something that is no {type_name}")
            self.count_copy(values)
            self.push(TypedList(values, type_name), shape)
        elif name == "torch.jit._pickle.restore_type_tag":
            values, type_name = self.exactly(given, 2, name)
            if not isinstance(type_name, str) or not isinstance(values, (list, dict)):
                raise self.error(f"{name} of {type(values).__name__} and {type(type_name).__name__}")
            self.count_copy(values)
            self.push(TypedList(values, type_name) if isinstance(values, list) else TypedDict(values, type_name), shape)
        elif name == "torch.device":
            (device,) = self.exactly(given, 1, name)
            if not isinstance(device, str):
                raise self.error(f"{name} of {type(device).__name__}")
            self.push(Device(device))
        elif name == "collections.OrderedDict":  # of backward hooks, always empty
            self.exactly(given, 0, name)
            self.push(None)
        else:
            real, imaginary = self.exactly(given, 2, name)
            if type(real) is not float or type(imaginary) is not float:
                raise self.error(f"{name} of something else than two floats")
            self.push(complex(real, imaginary))

    def arguments(self, values: Any, name: str) -> tuple[Any, ...]:
        if not isinstance(values, tuple):
            raise self.error(f"{name} is called with {type(values).__name__}, expected a tuple of arguments")
        return values

    def exactly(self, arguments: tuple[Any, ...], count: int, name: str) -> tuple[Any, ...]:
        if len(arguments) != count:
            raise self.error(f"{name} is called with {len(arguments)} arguments, expected {count}")
        return arguments

    def count_copy(self, values: list[Any] | dict[Any, Any]) -> None:
        """Each list gets its type once, and each element took a byte at least: more is a list out of the memo, over and over."""
        self.copied += len(values)
        if self.copied > len(self.data):
            raise self.error("the same list is used so often that the lists are larger than the pickle")

    # tensors

    def load_storage(self) -> None:
        given, _ = self.pop()
        good = (
            isinstance(given, tuple)
            and len(given) >= 5
            and given[0] == "storage"
            and isinstance(given[1], ElementType)
            and isinstance(given[2], str)
            and isinstance(given[3], str)
            and type(given[4]) is int
        )
        if not good:
            raise self.error("a reference to something else than a tensor's storage")
        _, kind, key, _, count = given[:5]
        if count < 0:
            raise self.error(f"storage {key!r} claims {count} elements")
        if count == 0:
            storage = Storage(np.empty(0, np.uint8), key)
        elif self.storage is None:
            raise self.error("a tensor where there are none")
        else:
            storage = self.storage(key)
            self.storage_bytes[key] = len(storage.data)
            if count * kind.size > len(storage.data):
                raise self.error(
                    f"storage {key!r} claims {count} elements of {kind.size} bytes, but {storage.name} has {len(storage.data)} bytes"
                )
        self.push(_StorageReference(storage, kind), _INTERNAL)

    def rebuild(self, given: tuple[Any, ...], quantized: bool) -> ScriptTensor:
        if len(given) < (6 if quantized else 5) or not isinstance(given[0], _StorageReference):
            raise self.error("a tensor without its storage")
        reference, offset, shape, strides = given[:4]
        requires_grad = given[5 if quantized else 4]
        if type(offset) is not int or type(requires_grad) is not bool or not _integers(shape) or not _integers(strides):
            raise self.error("a tensor with sizes, strides or an offset that are no integers")
        if not quantized and len(given) > 6 and given[6]:
            raise self.error("a conjugate or negative view of a tensor is not supported: clone it before saving")
        where = f"{self.where}: a tensor in {reference.storage.name!r}"
        quantizer = self.quantizer(given[4], where) if quantized else None
        return tensor(
            where,
            reference.storage,
            reference.kind,
            offset,
            shape,
            strides,
            quantizer=quantizer,
            requires_grad=requires_grad,
        )

    def quantizer(self, given: Any, where: str) -> Quantizer:
        if not isinstance(given, tuple) or not given or not isinstance(given[0], _Scheme):
            raise self.error("a quantized tensor without its scheme")
        if given[0].name == "per_tensor_affine":
            if len(given) == 3 and type(given[1]) is float and type(given[2]) is int:
                return Quantizer(given[1], given[2])
        elif (
            len(given) == 4
            and type(given[3]) is int
            and isinstance(given[1], ScriptTensor)
            and isinstance(given[2], ScriptTensor)
        ):
            self.scale_bytes += given[1].byte_count + given[2].byte_count
            if self.scale_bytes > sum(self.storage_bytes.values()):
                raise self.error("quantized tensors have more scales than the file holds")
            return per_channel(where, given[1], given[2], given[3])
        raise self.error(f"a quantized tensor with wrong parameters of the scheme {given[0].name}")

    def error(self, what: str) -> CaptureError:
        return CaptureError(f"{self.where}: {what} (near byte {self.at})")


def _integers(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(v) is int for v in values)
