"""A TorchScript file (.pt, of torch.jit.save) → Script, without torch: state from its pickles, code from its source text.

So files open whose classes or operators the installed torch does not have, such as those that optimize_for_mobile wrote with
XNNPACK's packed weights, and nothing that a file says is run while it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penlight.archive import Archive
from penlight.capture.lite.bytecode import check_byte_order, operator_version, storages_in
from penlight.capture.lite.packed import unpack
from penlight.capture.lite.read import Source, name_tensors, objects_in, opened
from penlight.capture.lite.restore import restore
from penlight.capture.lite.unpickle import unpickle
from penlight.capture.source.compile import Method
from penlight.capture.source.declarations import Declarations
from penlight.capture.source.scope import Shared
from penlight.capture.source.types import Type
from penlight.errors import CaptureError
from penlight.ir.script import Script
from penlight.ir.values import EnumValue, ScriptObject, Storage, TypedDict


class SourceProgram:
    """A TorchScript file, opened. Its code is compiled when methods are asked for."""

    def __init__(self, source: Source, trust: bool = False) -> None:
        self.source = source
        self.trust = trust  # whether torch may open it as it is
        data, self.file = opened(source)
        self.archive = Archive(data, self.file)
        if "model.json" in self.archive and "data.pkl" not in self.archive:
            raise CaptureError(
                f"{self.file} is a TorchScript file of PyTorch before 1.4, which no torch from 1.11 on opens either. Load it with torch.jit.load"
                " of PyTorch 1.4, and write it again with torch.jit.save"
            )
        if "data.pkl" not in self.archive or not any(name.startswith("code/") for name in self.archive.records):
            raise CaptureError(f"{self.file} is no TorchScript file: it has no data.pkl and code/ in it")
        check_byte_order(self.archive, self.file)
        self.declarations = Declarations(self.archive, self.file)
        self.version = operator_version(self.archive, self.file)
        declared = self.declarations.class_of(Type(self._state()[0].type_name))
        self.methods = (
            [m for m in declared.methods if not (m.startswith("__") and m.endswith("__"))] if declared else []
        )

    def state(self) -> tuple[ScriptObject, tuple[Any, ...]]:
        """The module as it was saved, and the constants of its code; objects of classes with __setstate__ are not unpacked."""
        module, constants, _ = self._state()
        return module, constants

    def script(self, methods: Sequence[str] | None = None) -> Script:
        """The module in eval mode, and the code of these methods; None: of all that it has."""
        missing = [m for m in methods or () if m not in self.methods]
        if missing:
            raise CaptureError(f"the file has no method {', '.join(missing)}; it has {', '.join(self.methods)}")
        module, constants, made = self._state()
        shared = Shared(Script({}, module, []), self.declarations, list(constants), self.version)
        objects = objects_in([module, *constants])
        _check_made(made, objects, shared, self.file)
        _restore(objects, shared, self.file)
        name_tensors(module)
        _compile(shared, self.methods if methods is None else methods)
        return shared.script

    def _state(self) -> tuple[ScriptObject, tuple[Any, ...], list[ScriptObject | EnumValue]]:
        """Also all objects that were made on the way."""
        storages: dict[str, Storage] = {}
        made: list[ScriptObject | EnumValue] = []

        def unpickled(name: str, folder: str) -> Any:
            where = f"{self.file}: {name}"
            return unpickle(
                self.archive.read(name), where, storages_in(self.archive, folder, storages), self.archive.budget, made
            )

        module = unpickled("data.pkl", "data/")
        constants = unpickled("constants.pkl", "constants/") if "constants.pkl" in self.archive else ()
        if not isinstance(module, ScriptObject) or not isinstance(constants, tuple):
            raise CaptureError(f"{self.file}: data.pkl holds {type(module).__name__}, expected a module")
        return module, constants, made


def _check_made(made: list[ScriptObject | EnumValue], objects: list[ScriptObject], shared: Shared, file: str) -> None:
    """torch runs __setstate__ of every object as soon as it is made. So each must be one that is restored here: none is made and then dropped,
    and what is called as an enum is one (to torch, a call of a class makes an object too)."""
    known = {id(o) for o in objects}
    for value in made:
        if isinstance(value, ScriptObject):
            if id(value) not in known:
                raise CaptureError(
                    f"{file}: an object of class {value.type_name} is made and then not used, which torch.jit.save does not write:"
                    " do not trust this file"
                )
        else:
            declared = shared.declarations.class_of(Type(value.type_name))
            if declared is None or declared.kind != "Enum":
                raise CaptureError(f"{file}: a value of the enum {value.type_name}, for which the file has no code")


def _restore(objects: list[ScriptObject], shared: Shared, file: str) -> None:
    """Packed parameters and saved states become attributes, in the order that the classes declare; modules are put into eval mode."""
    for value in objects:
        unpack(value, file)
    for value in objects:
        declared = shared.declarations.class_of(Type(value.type_name))
        if value.is_custom:
            continue
        if declared is None:
            raise CaptureError(f"{file}: an object of class {value.type_name}, for which the file has no code")
        names = list(declared.attributes)
        if not value.has_state and {"__getstate__", "__setstate__"} <= declared.methods.keys():
            # to torch, whatever was saved of such a class is a state, also plain attributes
            value.state, value.has_state, value.attributes = TypedDict(value.attributes), True, {}
        if value.has_state and "__setstate__" in declared.methods:
            method = Method(shared, Type(declared.name), declared.methods["__setstate__"]).run()
            if not restore(value, method, shared.script.constants, file, shared.declarations.archive.budget, names):
                raise CaptureError(
                    f"{file}: __setstate__ of class {value.type_name} does more than is run while a file is read. Open it with torch.jit.load,"
                    " which runs it, if you trust the file, and give the module"
                )
        value.attributes = {name: value.attributes.get(name) for name in names}
        if "training" in value.attributes:
            value.attributes["training"] = False


def _compile(shared: Shared, methods: Sequence[str]) -> None:
    script = shared.script
    declared = shared.declarations.class_of(Type(script.module.type_name))
    assert declared is not None  # it has these methods
    for name in methods:
        function = Method(shared, script.module, declared.methods[name]).run()
        function.method = name
        script.functions[function.name] = function
    _compile_called(shared)


def _compile_called(shared: Shared) -> None:
    """Compiles methods that are called on objects whose class only a run tells: of every class that has one of this name."""
    objects = {o.type_name for o in objects_in([shared.script.module])}
    done: set[str] = set()
    while shared.called - done:
        name = (shared.called - done).pop()
        done.add(name)
        for type_name in sorted(objects):
            declared = shared.declarations.class_of(Type(type_name))
            if declared is not None and name in declared.methods:
                function = Method(shared, Type(type_name), declared.methods[name]).run()
                shared.script.functions.setdefault(function.name, function)
