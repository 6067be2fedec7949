"""Optimized IR in, IR that a file can hold out: kernels chosen, weights packed, straight-line code wrapped in regions.

select.py   every node gets its kernel key; weights that are not constants get a `pack` node
winograd.py which convolutions become Winograd, within what the file may grow; on the CPU only
columns.py  the biases of integer products become what their kernels need to know of columns
prepack.py  constants are rearranged into the layouts that kernels read in place
halves.py   those that f16 holds are stored in half the bytes, where that is asked for
islands.py  what the device lacks: an error, or an island on the CPU
regions.py  runs of nodes become `region` nodes, what is left is VM code
"""

from penlight.ir.graph import Program
from penlight.lower.columns import add_columns
from penlight.lower.halves import store_halves
from penlight.lower.islands import is_missing, refuse_missing
from penlight.lower.prepack import prepack
from penlight.lower.regions import wrap_regions
from penlight.lower.select import select_kernels
from penlight.lower.winograd import BUDGET, choose_winograd
from penlight.ops.devices import CPU, Device


def lower(
    program: Program,
    winograd_budget: float = BUDGET,
    device: Device = CPU,
    fallback: bool = False,
    halves: bool = False,
) -> Program:
    """Lowers every method, in place; returns the program. fallback: what the device lacks runs on the CPU; else it is an error. halves:
    constants that f16 holds exactly are stored so."""
    if device.is_cpu:
        choose_winograd(program, winograd_budget)
    for method in program.methods.values():
        select_kernels(method.graph)
    if not fallback:
        refuse_missing(program, device)
    for method in program.methods.values():
        add_columns(method.graph)
        prepack(method.graph)
        if halves:
            store_halves(method.graph)
        wrap_regions(method.graph, lambda node: is_missing(node, device))
    return program


__all__ = ["lower"]
