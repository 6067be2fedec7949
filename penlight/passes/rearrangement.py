"""What a chain of reshapes and permutes does, taken together: which parts of the source's dims end up where.

Dims are cut into atoms, as far as the chain cuts them ([6] seen as [2, 3] is two atoms); every dim of the result is a
row of atoms. A chain's shortest form follows: cut, permute, merge. Cutting and permuting are always views; so at most
one step of that form copies, and only if no view could show the result. Not a pass; merge_views.py and move_views.py reason with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from penlight.ir.dims import Dim, Expr, product
from penlight.ir.graph import Attr, Block, Graph, Node, Value
from penlight.ir.rewrite import call, made_by, single_use

MAX_RANK = 8  # of any value, in files and in the runtime
Shape: TypeAlias = tuple[Dim, ...]
Step: TypeAlias = tuple[str, Attr, Shape]  # operator, its attribute, shape of its result


@dataclass(frozen=True)
class _Monomial:
    """A dim as a number times other dims, so that symbolic dims can be divided too: 12 * n is (12, {n: 1})."""

    number: int
    factors: tuple[tuple[Expr, int], ...] = ()  # with their powers, in the order of their text

    @classmethod
    def of(cls, dim: Dim) -> _Monomial:
        number, factors, rest = 1, Counter[Expr](), [dim]
        while rest:
            d = rest.pop()
            if isinstance(d, int):
                number *= d
            elif d.op == "*":
                rest += [a for a in d.args if not isinstance(a, str)]
            else:
                factors[d] += 1
        return cls._made(number, factors)

    @classmethod
    def _made(cls, number: int, factors: Counter[Expr]) -> _Monomial:
        return cls(number, tuple(sorted(factors.items(), key=lambda item: str(item[0]))))

    def divided_by(self, other: _Monomial) -> _Monomial | None:
        mine, others = Counter(dict(self.factors)), Counter(dict(other.factors))
        if self.number % other.number or not others <= mine:
            return None
        return self._made(self.number // other.number, mine - others)

    def dim(self) -> Dim:
        return product([self.number, *(f for f, power in self.factors for _ in range(power))])


_ONE = _Monomial(1)


@dataclass(eq=False)
class _Atom:
    dim: Dim


class Rearrangement:
    """Of a value of `shape`; `apply` the chain's nodes in order, then ask for its shortest form."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._source = [[] if d == 1 else [_Atom(d)] for d in shape]  # dims of size 1 hold nothing
        self._groups = [list(atoms) for atoms in self._source]

    def apply(self, node: Node) -> bool:
        """False where dims do not cut evenly (or are 0): nothing can be said then."""
        if node.op == "permute":
            dims = node.attrs["dims"]
            assert isinstance(dims, tuple)
            self._groups = [self._groups[d] for d in dims if isinstance(d, int)]
            return True
        return node.op == "reshape" and self._reshape(node.output.shape)

    def _reshape(self, shape: Shape) -> bool:
        if 0 in shape or 0 in self.shape:
            return False
        left = [atom for group in self._groups for atom in group][::-1]
        self._groups = []
        for dim in shape:
            group: list[_Atom] = []
            missing = _Monomial.of(dim)
            while missing != _ONE:
                if not left:
                    return False
                atom = left.pop()
                size = _Monomial.of(atom.dim)
                if (rest := missing.divided_by(size)) is not None:
                    missing = rest
                elif (rest := size.divided_by(missing)) is not None:
                    atom, inner = self._cut(atom, missing.dim(), rest.dim())
                    left.append(inner)
                    missing = _ONE
                else:
                    return False
                group.append(atom)
            self._groups.append(group)
        return not left

    def _cut(self, atom: _Atom, *parts: Dim) -> list[_Atom]:
        new = [_Atom(p) for p in parts]
        for atoms in self._source:
            if atom in atoms:
                place = atoms.index(atom)
                atoms[place : place + 1] = new
        return new

    def shortest(self, shape: Shape) -> list[Step]:
        """Steps from the source to the result, whose `shape` is given (its dims may be written in another way here)."""
        self._rejoin()
        order = [atom for atoms in self._source for atom in atoms]
        permutation = [order.index(atom) for group in self._groups for atom in group]
        if permutation == sorted(permutation):
            return [] if shape == self.shape else [("reshape", shape, shape)]
        merges = any(len(group) > 1 for group in self._groups)
        ones = 0 if merges else sum(not group for group in self._groups)  # without a merge, they come in at the start
        cut: Shape = (*[1] * ones, *(atom.dim for atom in order))
        dims: list[int] = []
        free = iter(range(ones))
        for group in self._groups:
            dims += [ones + order.index(atom) for atom in group] if group else ([] if merges else [next(free)])
        steps: list[Step] = [] if cut == self.shape else [("reshape", cut, cut)]
        steps.append(("permute", tuple(dims), tuple(cut[d] for d in dims) if merges else shape))
        return [*steps, ("reshape", shape, shape)] if merges else steps

    def keeps_last_dim(self) -> bool:
        """The last dim is still there, whole and last: only what stands before it was rearranged."""
        self._rejoin()
        return bool(self._groups) and bool(self._source[-1]) and self._groups[-1] == self._source[-1]

    def _rejoin(self) -> None:
        """Neighbours that were one dim and end up in one dim were cut for nothing."""
        for group in self._groups:
            i = 0
            while i + 1 < len(group):
                a, b = group[i], group[i + 1]
                atoms = next(atoms for atoms in self._source if a in atoms)
                place = atoms.index(a)
                if atoms[place + 1 : place + 2] == [b]:
                    joined = _Atom(_Monomial.of(product([a.dim, b.dim])).dim())
                    atoms[place : place + 2] = group[i : i + 2] = [joined]
                else:
                    i += 1


def chain_to(graph: Graph, value: Value | None) -> list[Node]:
    """The reshapes and permutes that made a value. A reshape that others use too is not among them: it may have to
    copy, and should do so once."""
    chain: list[Node] = []
    while (node := made_by(value, "reshape", "permute")) is not None:
        if node.op == "reshape" and not single_use(graph, node.output):
            break
        chain.insert(0, node)
        value = node.inputs[0]
    return chain


def emit(graph: Graph, block: Block, before: Node, value: Value, steps: Sequence[Step]) -> Value:
    """Nodes for `steps`, which begin at `value`; returns what they end in."""
    for op, attr, shape in steps:
        type = replace(value.tensor, shape=shape)
        value = call(graph, block, before, op, [value], type, **{"shape" if op == "reshape" else "dims": attr})
    return value


def shortest(source: Shape, chain: Sequence[Node]) -> list[Step]:
    """The fewest steps that do what `chain` does to a value of shape `source`."""
    plain = joined(chain)
    whole = Rearrangement(source)
    if all(whole.apply(node) for node in chain):
        steps = whole.shortest(chain[-1].output.shape)
        if len(steps) <= len(plain) and all(len(shape) <= MAX_RANK for _, _, shape in steps):
            return steps
    return plain


def as_steps(chain: Sequence[Node]) -> list[Step]:
    return [(n.op, n.attrs["shape" if n.op == "reshape" else "dims"], n.output.shape) for n in chain]


def joined(chain: Sequence[Node]) -> list[Step]:
    """Neighbours of one kind joined: of two reshapes the second, of two permutes their product."""
    steps: list[Step] = []
    for op, attr, shape in as_steps(chain):
        if steps and steps[-1][0] == op:
            _, before, _ = steps.pop()
            if op == "permute":
                assert isinstance(attr, tuple)
                assert isinstance(before, tuple)
                attr = tuple(before[d] for d in attr if isinstance(d, int))
        steps.append((op, attr, shape))
    return steps
