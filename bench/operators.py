"""`./dev bench --operators`: single operators against torch eager, one thread, so that none is a cliff; those that only move
memory also against a plain copy of their bytes.

Both run in this process, in turns. Penlight's time is what its kernels took (the runtime's own clock, without the call from
Python), torch's that of the call, in a loop; the best of each counts.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from rich.progress import Progress

from bench import machine
from bench.operator_list import Case, cases
from penlight.tools.screen import screen

LIMIT, COPY_LIMIT = 1.5, 1.3
TIGHT_BYTES = 1 << 20  # operators that move memory are held to COPY_LIMIT from here on


def main(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    chosen = [c for c in cases() if not options.match or any(text in c.name for text in options.match)]
    if not chosen:
        raise SystemExit(f"--match: no operator's name contains {' or '.join(options.match)}")
    task = progress.add_task("operators", total=len(chosen))
    rows = []
    for case in chosen:
        rows.append(measure(case, options.rounds, options.block))
        progress.update(task, description=case.name, advance=1)
    return {"date": time.strftime("%Y-%m-%d"), "machine": machine.about(), "rows": rows}


def measure(case: Case, rounds: int, block: float) -> dict[str, Any]:
    import torch

    import penlight

    module, inputs = _module(case)
    row: dict[str, Any] = {"name": case.name, "copies": case.copies}
    with torch.no_grad():
        expected = module(*inputs)
        try:
            model = penlight.optimize(module, inputs, threads=1)
            model(*inputs)
        except Exception as e:
            return {**row, "failed": f"{type(e).__name__}: {e}"}
        leaves = torch.utils._pytree.tree_leaves((inputs, expected))
        row["bytes"] = sum(t.numel() * t.element_size() for t in leaves if isinstance(t, torch.Tensor))
        half = torch.empty(max(1, row["bytes"] // 8))
        times: dict[str, list[float]] = {"penlight": [], "eager": [], "copy": []}
        for _ in range(rounds):
            times["eager"].append(_best(lambda: module(*inputs), block))
            steps = model.profile(*inputs, runs=max(3, min(200, int(block / max(times["eager"][-1], 1e-7)))))
            times["penlight"].append(sum(step.seconds for step in steps))
            times["copy"].append(_best(half.clone, block / 4))
    row.update({name: min(found) for name, found in times.items()})
    return row


def _module(case: Case) -> tuple[Any, tuple[Any, ...]]:
    """The case as a module; tensors that are weights become its buffers."""
    import torch

    tensors = case.tensors()
    if isinstance(case.call, torch.nn.Module):
        return case.call, tensors

    class Operator(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for i in case.weights:
                self.register_buffer(f"w{i}", tensors[i])

        def forward(self, *inputs: torch.Tensor) -> Any:
            rest = iter(inputs)
            return case.call(
                *(getattr(self, f"w{i}") if i in case.weights else next(rest) for i in range(len(tensors)))
            )

    return Operator().eval(), tuple(t for i, t in enumerate(tensors) if i not in case.weights)


def _best(call: Any, block: float) -> float:
    best, end = float("inf"), time.perf_counter() + block
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def ratio(row: dict[str, Any]) -> float:
    return float(row["penlight"] / row["eager"])


def is_slow(row: dict[str, Any]) -> bool:
    """Over a limit. What moves memory may be as slow as a copy is, whatever torch makes of it."""
    copied = row["penlight"] / row["copy"]
    if row["copies"] and row["bytes"] >= 2 * TIGHT_BYTES and copied > COPY_LIMIT:
        return True
    return ratio(row) > LIMIT and copied > COPY_LIMIT


def is_right(result: dict[str, Any]) -> bool:
    return not any("failed" in row or is_slow(row) for row in result["rows"])


def show(result: dict[str, Any], options: argparse.Namespace) -> None:
    rows = [r for r in result["rows"] if "failed" not in r]
    out = screen()
    out.print(f"{len(rows)} operators; slowest against eager first", highlight=False)
    for row in sorted(rows, key=ratio, reverse=True)[: options.worst]:
        mark = "slow" if is_slow(row) else ""
        out.print(
            f"{row['name']:32} {1e6 * row['penlight']:9.1f} us  eager {1e6 * row['eager']:9.1f}  {ratio(row):5.2f}x"
            f"  copy {row['penlight'] / row['copy']:5.2f}x  {mark}",
            highlight=False,
        )
    for row in result["rows"]:
        if "failed" in row:
            out.print(f"{row['name']:32} {row['failed'].splitlines()[0]}", highlight=False, markup=False)
    slow = [row["name"] for row in rows if is_slow(row)]
    out.print(f"over a limit: {len(slow)}: {', '.join(slow)}", highlight=False, markup=False)
