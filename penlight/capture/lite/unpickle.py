"""The pickles inside PyTorch files, read as data: opcodes of torch's own pickler → plain values.

Nothing is imported and nothing is called. A name in the pickle is looked up in the table of constructors below; any other is an
error that tells the name. Containers cannot be changed once they are in the memo (torch writes them there when they are
finished), so values have no cycles. Their depth, and their size with shared parts counted each time, are limited while they are
built (penlight/budget.py), so that walking them later always ends soon.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penlight.budget import MAX_DEPTH, Budget
from penlight.capture.lite.pickled_tensors import SCHEMES, PickledTensors, Scheme, StorageReader
from penlight.capture.lite.tensors import BY_STORAGE
from penlight.errors import CaptureError
from penlight.ir.values import Device, EnumValue, ScriptObject, ScriptTensor, TypedDict, TypedList


@dataclass(frozen=True)
class _Global:
    """A name that is called with what follows."""

    name: str


@dataclass(frozen=True)
class _NewObject:
    type_name: str


# Of a value on the stack: its size with shared parts counted each time, its depth, and whether it is or holds one of the classes
# above, which must not get into the result.
_Shape = tuple[int, int, bool]
_LEAF: _Shape = (1, 0, False)
_INTERNAL: _Shape = (1, 0, True)

_LISTS = {
    "torch.jit._pickle.build_intlist": ("List[int]", int),
    "torch.jit._pickle.build_doublelist": ("List[float]", float),
    "torch.jit._pickle.build_boollist": ("List[bool]", bool),
    "torch.jit._pickle.build_tensorlist": ("List[Tensor]", ScriptTensor),
}
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


def unpickle(
    data: bytes,
    where: str,
    storage: StorageReader | None = None,
    budget: Budget | None = None,
    made: list[ScriptObject | EnumValue] | None = None,
) -> Any:
    """The value of a pickle. `where` begins error messages ("model.ptl: data.pkl"); `storage` finds the bytes of tensors by the
    key that the pickle gives; `made` gets every object of a class as it is made, whether or not the value holds it in the end."""
    reader = _Reader(data, where, storage, budget or Budget(len(data), where), [] if made is None else made)
    try:
        return reader.run()
    except (IndexError, struct.error):
        # every access beyond the end, of the data, the stack or the marks
        raise CaptureError(
            f"{where}: the pickle is cut short or corrupt near byte {reader.at} of {len(data)}"
        ) from None


class _Reader:
    def __init__(
        self,
        data: bytes,
        where: str,
        storage: StorageReader | None,
        budget: Budget,
        made: list[ScriptObject | EnumValue],
    ) -> None:
        self.data = data
        self.made = made
        self.where = where
        self.at = 0
        self.stack: list[Any] = []
        self.shapes: list[_Shape] = []  # of what is on the stack
        self.marks: list[int] = []
        self.memo: dict[int, tuple[Any, _Shape]] = {}
        self.finished: set[int] = set()  # ids of containers in the memo
        self.copied = 0  # elements of lists and dicts that got a type
        self.budget = budget
        self.tensors = PickledTensors(where, storage, self.error, budget)

    def run(self) -> Any:
        if self.data[:2] != b"\x80\x02":
            raise self.error(
                f"a pickle of protocol 2 starts with 80 02, this one with {self.data[:2].hex(' ') or 'nothing'}"
            )
        at = 2
        while True:
            self.at = at
            op = self.data[at]
            at += 1
            command = _COMMANDS.get(op)
            if command is not None:
                command(self)
            elif op == _STOP:
                break
            elif op in (_BINGET, _BINPUT, _BININT1):  # one byte follows: by far the most
                self.with_byte(op, self.data[at])
                at += 1
            else:
                at = self.with_operand(op, at)
        if len(self.stack) != 1 or self.marks:
            raise self.error(f"{len(self.stack)} values are left at the end, expected 1")
        self.plain(self.shapes[0], "the result")
        return self.stack[0]

    def with_byte(self, op: int, operand: int) -> None:
        if op == _BININT1:
            self.push(operand)
        elif op == _BINPUT:
            self.remember(operand)
        else:
            self.push(*self.recall(operand))

    def with_operand(self, op: int, at: int) -> int:
        """A command that several bytes follow; where the next one is."""
        data = self.data
        if op in _NUMBERS:
            kind = _NUMBERS[op]
            self.push(struct.unpack_from(kind, data, at)[0])
            return at + struct.calcsize(kind)
        match op:
            case 0x58:  # X BINUNICODE
                (size,) = struct.unpack_from("<I", data, at)
                if size > len(data) - at - 4:
                    raise IndexError
                # TorchScript's strings are bytes, which need not be UTF-8
                self.push(data[at + 4 : at + 4 + size].decode("utf-8", "surrogateescape"))
                return at + 4 + size
            case 0x6A:  # j LONG_BINGET
                self.push(*self.recall(struct.unpack_from("<I", data, at)[0]))
                return at + 4
            case 0x72:  # r LONG_BINPUT
                self.remember(struct.unpack_from("<I", data, at)[0])
                return at + 4
            case 0x8A:  # LONG1
                size = data[at]
                if size > 8:
                    raise self.error(f"an integer of {size} bytes; TorchScript's have 8")
                if size > len(data) - at - 1:
                    raise IndexError
                self.push(int.from_bytes(data[at + 1 : at + 1 + size], "little", signed=True))
                return at + 1 + size
            case 0x63:  # c GLOBAL
                module, at = self.line(at)
                name, at = self.line(at)
                self.look_up(f"{module}.{name}")
                return at
        raise self.error(f"opcode {op:#04x} is not one that PyTorch's pickler writes")

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
        if expanded > self.budget.most_steps:
            raise self.budget.exceeded(f"{expanded} steps to walk a value")
        self.budget.step(len(shapes) + 1)
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
        keys, shapes = items[::2], self.shapes[start::2]
        for key, shape in zip(keys, shapes, strict=True):
            self.budget.key(key, shape[0])
        for key, value, shape in zip(keys, items[1::2], shapes, strict=True):
            if shape[1]:  # thousands of tuples of -1 and -2 have one hash, and are compared with each other
                raise self.error(f"a {type(key).__name__} as the key of a dict")
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
        elif module == "torch" and leaf in SCHEMES:
            self.push(Scheme(leaf), _INTERNAL)
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
        # attributes come as a bare dict; one that __getstate__ returned has a type tag, but for that of a hostile or an old file
        if type(state) is dict and not made.is_custom:
            if not all(isinstance(name, str) for name in state):
                raise self.error(f"an attribute of {target.type_name} has a name that is no text")
            made.attributes = state
        else:
            made.state, made.has_state = state, True
        self.made.append(made)
        self.push(made, shape)

    def reduce(self) -> None:
        arguments, shape = self.pop()
        target, _ = self.pop()
        if not isinstance(target, _Global):
            raise self.error(f"{type(target).__name__} is called, which is no constructor")
        name = target.name
        if name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_qtensor"):
            self.push(self.tensors.tensor(self.arguments(arguments, name), name.endswith("_qtensor")))
            return
        self.plain(shape, f"a call of {name}")
        if name.startswith("__torch__."):
            value = EnumValue(name, arguments)
            self.made.append(value)
            self.push(value, shape)
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
        """Each list gets its type once, and an element takes at least a byte of the pickle: more copies than that mean an attack."""
        self.copied += len(values)
        if self.copied > len(self.data):
            raise self.error("the same list is used so often that the lists are larger than the pickle")

    def error(self, what: str) -> CaptureError:
        return CaptureError(f"{self.where}: {what} (near byte {self.at})")


_STOP, _BINGET, _BINPUT, _BININT1 = 0x2E, 0x68, 0x71, 0x4B
_NUMBERS = {0x4D: "<H", 0x4A: "<i", 0x47: ">d"}  # BININT2, BININT, BINFLOAT
_COMMANDS: dict[int, Callable[[_Reader], None]] = {  # that nothing follows
    0x28: lambda r: r.marks.append(len(r.stack)),  # ( MARK
    0x74: lambda r: r.make_tuple(r.marks.pop()),  # t TUPLE
    0x85: lambda r: r.make_tuple(len(r.stack) - 1),  # TUPLE1
    0x86: lambda r: r.make_tuple(len(r.stack) - 2),  # TUPLE2
    0x87: lambda r: r.make_tuple(len(r.stack) - 3),  # TUPLE3
    0x29: lambda r: r.push(()),  # ) EMPTY_TUPLE
    0x5D: lambda r: r.push([]),  # ] EMPTY_LIST
    0x7D: lambda r: r.push({}),  # } EMPTY_DICT
    0x65: lambda r: r.append(r.marks.pop()),  # e APPENDS
    0x61: lambda r: r.append(len(r.stack) - 1),  # a APPEND
    0x75: lambda r: r.set_items(r.marks.pop()),  # u SETITEMS
    0x73: lambda r: r.set_items(len(r.stack) - 2),  # s SETITEM
    0x4E: lambda r: r.push(None),  # N NONE
    0x88: lambda r: r.push(True),  # NEWTRUE
    0x89: lambda r: r.push(False),  # NEWFALSE
    0x81: lambda r: r.new_object(),  # NEWOBJ
    0x62: lambda r: r.build(),  # b BUILD
    0x52: lambda r: r.reduce(),  # R REDUCE
    0x51: lambda r: r.push(r.tensors.reference(r.pop()[0]), _INTERNAL),  # Q BINPERSID
}
