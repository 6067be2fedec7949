"""Optimized IR in, IR that a file can hold out: kernels chosen, weights packed, straight-line code wrapped in regions.

select.py   every node gets its kernel key; weights that are not constants get a `pack` node
winograd.py which convolutions become Winograd, within what the file may grow
prepack.py  constants are rearranged into the layouts that kernels read in place
regions.py  runs of nodes become `region` nodes, what is left is VM code
"""

from penlight.ir.graph import Program
from penlight.lower.prepack import prepack
from penlight.lower.regions import wrap_regions
from penlight.lower.select import select_kernels
from penlight.lower.winograd import BUDGET, choose_winograd


def lower(program: Program, winograd_budget: float = BUDGET) -> Program:
    """Lowers every method, in place; returns the program."""
    choose_winograd(program, winograd_budget)
    for method in program.methods.values():
        select_kernels(method.graph)
        prepack(method.graph)
        wrap_regions(method.graph)
    return program


__all__ = ["lower"]
