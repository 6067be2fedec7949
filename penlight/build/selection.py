"""What a library holds: the kernels and VM operators that some models need, or all there are. Comes from model files, from a
YAML file (what `penlight trace` or PyTorch's tracer wrote), or is everything; goes to generate.py. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

# What the runtime itself copies with where a kernel needs an input to lie otherwise (Bind::need): by the size of an element.
COPIES = {1: "copy.b8", 2: "copy.b16", 4: "copy.b32", 8: "copy.b64"}

BACKENDS = ("cpu", "vulkan")  # what libraries can run on


@dataclass(frozen=True)
class Selection:
    keys: frozenset[str] | None = None  # of kernels; None: all
    operators: frozenset[str] | None = None  # of the VM; None: all, where there is a VM
    vm: bool = True  # without it, neither the VM nor anything it runs
    backends: tuple[str, ...] = ("cpu",)  # devices, the CPU first (BACKENDS)
    halves: bool = True  # files that hold weights in f16 can be loaded
    state: bool = True  # and files of methods that keep state
    turns: bool = True  # a batch may go through steps in turns; without, all of it goes through each

    def __post_init__(self) -> None:
        if self.backends[:1] != ("cpu",) or not set(self.backends) <= set(BACKENDS):
            raise ValueError(f"backends: expected cpu first, of {', '.join(BACKENDS)}, got {', '.join(self.backends)}")
        if self.operators and not self.vm:
            raise ValueError(f"VM operators without the VM: {', '.join(sorted(self.operators))}")

    def __or__(self, other: Selection) -> Selection:
        """What both hold together."""

        def joined(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
            return None if a is None or b is None else a | b

        mine, theirs = (s.operators if s.vm else frozenset() for s in (self, other))
        backends = tuple(b for b in BACKENDS if b in self.backends or b in other.backends)
        vm, halves, state = self.vm or other.vm, self.halves or other.halves, self.state or other.state
        turns = self.turns or other.turns
        return Selection(joined(self.keys, other.keys), joined(mine, theirs), vm, backends, halves, state, turns)

    def has_key(self, key: str) -> bool:
        return self.keys is None or key in self.keys

    def has_operator(self, name: str) -> bool:
        return self.vm and (self.operators is None or name in self.operators)


EVERYTHING = Selection()
NOTHING = Selection(frozenset(), frozenset(), vm=False, halves=False, state=False, turns=False)  # the runtime alone
