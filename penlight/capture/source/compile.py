"""TorchScript's source text → register code: a method of a module, with everything that it calls inlined.

A variable is a register. What is the same in every run (constants, attributes that no code sets, whether a value is None) is
decided here, as torch's freezing does, so that branches on `training` and on options of a layer are gone. Expressions are in
expressions.py.
"""

from __future__ import annotations

import ast

from penlight.capture.lite.sources import described
from penlight.capture.source.declarations import Class, Function, stores
from penlight.capture.source.expressions import Expressions
from penlight.capture.source.registers import Code
from penlight.capture.source.scope import Frame, Shared, Value
from penlight.capture.source.types import ANY, INT, NONE, Type, annotated, joined
from penlight.errors import CaptureError
from penlight.ir.script import Action, Const, ScriptFunction
from penlight.ir.values import ScriptObject

_MAX_DEPTH = 100  # of calls inside each other
_MAX_CALLS = 1 << 17
_MAX_ACTIONS = 1 << 20
# `with` blocks of these classes do nothing here: there are no gradients and no profiles.
_NO_EFFECT = ("__torch__.torch.autograd.grad_mode.", "__torch__.torch.autograd.profiler.")
# `with torch.autocast(…)`: by class, the places of the device, if it has a choice, and of `enabled` among the arguments of its __init__.
_AUTOCAST = {
    "__torch__.torch.amp.autocast_mode.autocast": (1, 3),
    "__torch__.torch.cpu.amp.autocast_mode.autocast": (None, 1),
    "__torch__.torch.cuda.amp.autocast_mode.autocast": (None, None),
}


class Method(Expressions):
    """The code of one method, while it is written."""

    def __init__(self, shared: Shared, owner: ScriptObject | Type, function: Function) -> None:
        self.shared = shared
        self.function = function
        parameters = function.parameters
        self.code = Code(len(parameters))
        self.frames: list[Frame] = []
        self.calls = 0
        self.located: Frame | None = None  # the call that the last action came from
        self.idle: set[int | Const | None] = set()  # registers of what casts nothing here: torch.autocast("cuda")
        self.unsettled: set[int] = set()  # registers of variables that are assigned more than once
        first = owner if isinstance(owner, Type) else Type(owner.type_name)
        self.arguments = [Value(t if i else first, i) for i, (_, t) in enumerate(parameters)]
        if isinstance(owner, ScriptObject) and self.arguments:
            self.arguments[0] = Value(first, 0, owner)

    def run(self) -> ScriptFunction:
        result = self.inlined(self.function, self.arguments)
        self.code.emit("return", [self.place(result)])
        actions, registers, first_slot = self.code.finish()
        node = self.function.node
        return ScriptFunction(
            self.function.name,
            [{"name": name, "type": str(t)} for name, t in self.function.parameters],
            str(self.function.returns),
            actions,
            registers,
            first_slot,
            None,
            [self.literal(d) for d in node.args.defaults],
        )

    # ---- calls ----
    def inlined(self, function: Function, arguments: list[Value]) -> Value:
        """Inlines a call."""
        if len(self.frames) >= _MAX_DEPTH:
            raise self.error(f"calls are nested more than {_MAX_DEPTH} deep, or a function calls itself")
        self.calls += 1
        self.shared.declarations.archive.budget.step(4 + len(function.stores))
        if self.calls > _MAX_CALLS:
            raise self.error(f"there are more than {_MAX_CALLS} calls, each written out")
        around = self.frames[-1].path if self.frames else []
        owner = arguments[0].object if arguments else None
        frame = Frame(function, self.shared.path(owner) if owner is not None else around)
        kind, _, called = function.name.rpartition(".")
        if kind in _AUTOCAST and called == "__init__" and arguments and self._casts_nothing(kind, arguments):
            self.idle.add(arguments[0].at)
        self.frames.append(frame)
        parameters = function.parameters
        defaults = function.node.args.defaults
        if not len(parameters) - len(defaults) <= len(arguments) <= len(parameters):
            raise self.error(f"{function.name} is called with {len(arguments)} arguments, expected {len(parameters)}")
        for i in range(len(arguments), len(parameters)):
            at = i - (len(parameters) - len(defaults))
            arguments.append(self.expression(defaults[at]))
        for (parameter, declared), value in zip(parameters, arguments, strict=True):
            type_ = value.type if declared == ANY or value.object is not None else declared
            if value.type == NONE or isinstance(value.at, Const):  # that tells more than what is declared
                type_ = value.type
            frame.variables[parameter] = Value(type_, value.at, value.object, value.static)
        result = self._body(frame, function.returns)
        self.frames.pop()
        return result

    def _body(self, frame: Frame, returned: Type) -> Value:
        if frame.function.returns_last:
            *before, last = frame.function.node.body
            assert isinstance(last, ast.Return)
            self.block(before)
            value = self.expression(last.value) if last.value is not None else self.constant(None)
            return value if value.object is not None or isinstance(value.at, Const) else value.typed(returned)
        frame.result = self.code.register()
        self.unsettled.add(frame.result)
        self.code.emit("move", [self.place(self.constant(None))], [frame.result])
        self.block(frame.function.node.body)
        for jump in frame.returns:
            jump.target = len(self.code.actions)
        return Value(returned, frame.result)

    # ---- statements ----
    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self.frames[-1].ended:
                return
            self.statement(statement)
            if len(self.code.actions) > _MAX_ACTIONS:
                raise self.error(f"the code has more than {_MAX_ACTIONS} steps")

    def statement(self, node: ast.stmt) -> None:
        self.shared.declarations.archive.budget.step(2)
        self.locate(node)
        match node:
            case ast.Assign(targets=[target]):
                self._assign(target, node.value)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                self._set(target.id, self.expression(value, self._room(target.id)).typed(annotated(node.annotation)))
            case ast.Expr():
                self.expression(node.value)
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.For(target=ast.Name()):
                self._for(node)
            case ast.With():
                self._with(node)
            case ast.Return():
                self._return(node)
            case ast.FunctionDef():  # what a fork runs
                self._set(node.name, Value(ANY, None, static=node))
            case ast.Pass():
                pass
            case _:
                raise self.error(f"{type(node).__name__} is no statement of serialized TorchScript")

    def _return(self, node: ast.Return) -> None:
        """One that is not the last statement: the rest is jumped over."""
        frame = self.frames[-1]
        value = self.expression(node.value) if node.value is not None else self.constant(None)
        self.code.emit("move", [self.place(value)], [frame.result])
        frame.returns.append(self.code.emit("jump"))
        frame.ended = True

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._set(target.id, self.expression(value, self._room(target.id)))
        elif isinstance(target, ast.Attribute):
            owner = self.expression(target.value)
            self.code.emit(
                "set_attr",
                [self.place(owner), self.place(self.expression(value))],
                target=self.slot_of(owner, target.attr),
            )
        elif isinstance(target, ast.Tuple):
            names = [t.id for t in target.elts if isinstance(t, ast.Name)]
            if len(names) != len(target.elts):
                raise self.error("values are unpacked into something else than variables")
            values = (
                [self.expression(v) for v in value.elts]
                if isinstance(value, ast.Tuple)
                else self.several(value, len(names))
            )
            self._set_all(names, values)
        else:
            raise self.error(f"an assignment to {type(target).__name__}")

    def _set_all(self, names: list[str], values: list[Value]) -> None:
        """All at once: a register that one of them writes may be what another reads."""
        if len(names) != len(values):
            raise self.error(f"{len(values)} values for {len(names)} variables")
        rooms = [self._room(name) for name in names]
        for i, value in enumerate(values):
            if any(value.at == room for k, room in enumerate(rooms) if room is not None and k < i):
                held = self.code.register()
                self.code.emit("move", [self.place(value)], [held])
                values[i] = Value(value.type, held, value.object)
        for name, value in zip(names, values, strict=True):
            self._set(name, value)

    def _room(self, name: str) -> int | None:
        """The register of a variable that is assigned more than once; others are wherever their value is."""
        frame = self.frames[-1]
        if frame.counts[name] < 2:
            return None
        if name not in frame.rooms:
            frame.rooms[name] = self.code.register()
            self.unsettled.add(frame.rooms[name])
        return frame.rooms[name]

    def _set(self, name: str, value: Value) -> None:
        frame = self.frames[-1]
        room = self._room(name)
        if room is None and (value.at in self.unsettled):  # that variable may change while this one is in use
            room = self.code.register()
        if room is not None and value.static is None:
            if value.at != room:
                self.code.emit("move", [self.place(value)], [room])
            if not isinstance(value.at, Const):  # a constant stays known, though it is in the register too
                value = Value(value.type, room, value.object if frame.counts[name] < 2 else None)
        frame.variables[name] = value

    def _if(self, node: ast.If) -> None:
        frame = self.frames[-1]
        condition = self.expression(node.test)
        known, decided = self.known(condition)
        if known:
            taken, other = (node.body, node.orelse) if decided else (node.orelse, node.body)
            frame.counts.subtract(stores(other))
            self.block(taken)
            return
        before = dict(frame.variables)
        branch = self.code.emit("branch", [self.place(condition)])
        self.block(node.body)
        then, then_ended = frame.variables, frame.ended
        frame.variables, frame.ended = before, False
        jump = None if all(isinstance(s, ast.Pass) for s in node.orelse) else self.code.emit("jump")
        branch.target = len(self.code.actions)
        self.block(node.orelse)
        if jump is not None:
            jump.target = len(self.code.actions)
        if frame.ended and not then_ended:
            frame.variables, frame.ended = then, False
        elif not then_ended:
            frame.variables = _merged(then, frame.variables, frame.rooms)

    def _while(self, node: ast.While) -> None:
        before = self._at_loop(node.body)
        top = len(self.code.actions)
        condition = self.expression(node.test)
        branch = self.code.emit("branch", [self.place(condition)])
        self._loop_body(node.body, before, top, branch)

    def _for(self, node: ast.For) -> None:
        """for i in range(n). The loop has three registers in a row: how often it ran, n, and whether it goes on; inside, the third holds i."""
        if not isinstance(node.target, ast.Name):
            raise self.error(f"a loop over {ast.unparse(node.target)[:60]}, which is no variable")
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and len(call.args) == 1
        ):
            raise self.error("a loop over something else than range(n)")
        most = self.expression(call.args[0])
        row = self.code.register(3)
        for value, at in ((self.constant(0), row), (most, row + 1), (self.constant(True), row + 2)):
            self.code.emit("move", [self.place(value)], [at])
        before = self._at_loop(node.body)
        top = len(self.code.actions)
        loop = self.code.emit("loop", [row, row + 1, row + 2])
        self.unsettled.add(row + 2)
        self._set(node.target.id, Value(INT, row + 2))
        self._loop_body(node.body, before, top, loop, row + 2)

    def _at_loop(self, body: list[ast.stmt]) -> dict[str, Value]:
        """Variables as each turn of a loop finds them: those that it assigns are in their registers."""
        frame = self.frames[-1]
        for name in stores(body):
            if name in frame.rooms and name in frame.variables:
                frame.variables[name] = Value(frame.variables[name].type, frame.rooms[name])
        return dict(frame.variables)

    def _loop_body(
        self, body: list[ast.stmt], before: dict[str, Value], top: int, leave: Action, go_on: int | None = None
    ) -> None:
        frame = self.frames[-1]
        self.block(body)
        if go_on is not None:
            self.code.emit("move", [self.place(self.constant(True))], [go_on])
        self.code.emit("jump", target=top)
        leave.target = len(self.code.actions)
        frame.variables, frame.ended = (before if frame.ended else _merged(before, frame.variables, frame.rooms)), False

    def _with(self, node: ast.With) -> None:
        entered: list[Value] = []
        for item in node.items:
            value = self.expression(item.context_expr)
            if value.type.name in _AUTOCAST and value.at not in self.idle:
                raise self.error(
                    "torch.autocast on the CPU, which changes the dtypes that the code says: export it (torch.export.export), which writes them out"
                )
            if not value.type.name.startswith(_NO_EFFECT):
                entered.append(value)
                result = self.method_call(value, "__enter__", [], {})
                if isinstance(item.optional_vars, ast.Name):
                    self._set(item.optional_vars.id, result)
            elif isinstance(item.optional_vars, ast.Name):
                self._set(item.optional_vars.id, value)
        self.block(node.body)
        for value in reversed(entered):
            self.method_call(value, "__exit__", [self.constant(None) for _ in range(3)], {})

    def _casts_nothing(self, kind: str, arguments: list[Value]) -> bool:
        """Whether an autocast is for another device, or off."""
        device, enabled = _AUTOCAST[kind]
        if enabled is None:
            return True
        on = self.known(arguments[enabled]) if enabled < len(arguments) else (True, True)
        held = self.known(arguments[device]) if device is not None and device < len(arguments) else (True, "cpu")
        return on == (True, False) or (held[0] and held[1] != "cpu")

    # ---- where it came from ----
    def locate(self, node: ast.AST) -> None:
        """Code from here on comes from this place of the source."""
        frame = self.frames[-1]
        lines = frame.function.text.lines(node) or frame.lines
        if lines is not frame.lines or frame is not self.located:
            frame.lines, self.located = lines, frame
            self.code.source = described([(f.lines, f.function.short_name) for f in reversed(self.frames)], frame.path)

    def error(self, problem: str) -> CaptureError:
        where = self.frames[-1].function if self.frames else self.function
        at = f"\n  {self.code.source}" if self.code.source else ""
        return CaptureError(f"{where.text.where}, {where.name}: {problem}{at}")

    def class_of(self, type_: Type) -> Class | None:
        return self.shared.declarations.class_of(type_)


def _merged(a: dict[str, Value], b: dict[str, Value], rooms: dict[str, int]) -> dict[str, Value]:
    """Variables after two ways have met: those that both have, in the same place."""
    made = {}
    for name in a.keys() & b.keys():
        x, y = a[name], b[name]
        if x is y:
            made[name] = x
        elif x.at == y.at and x.static is None:
            made[name] = Value(joined(x.type, y.type), x.at, x.object if x.object is y.object else None)
        elif name in rooms:
            made[name] = Value(joined(x.type, y.type), rooms[name])
    return made
