"""The graphs in docs/TOUR.md: runs the model that the tour shows through every stage and prints what each leaves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SOURCE = re.compile(r"  # \S+:\d+.*$", re.MULTILINE)


def tour(path: Path) -> str:
    """The tour with each block between `<!-- name -->` and `<!-- end -->` as the code prints it now."""
    text = path.read_text(encoding="utf-8")
    model = text.split("```python\n", 1)[1].split("\n\n\nm = ", 1)[0]
    for name, block in blocks(model).items():
        begin = f"<!-- {name} -->\n"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition("<!-- end -->\n")
        if not found or not ended:
            raise ValueError(f"{path}: the marks around {name!r} are gone")
        text = f"{before}{begin}```\n{SOURCE.sub('', block).rstrip()}\n```\n<!-- end -->\n{after}"
    return text


def blocks(model: str) -> dict[str, str]:
    import torch
    from torch import nn

    from penlight.capture import capture
    from penlight.file.reader import read
    from penlight.file.writer import to_array
    from penlight.ir.text import print_graph
    from penlight.lower import lower
    from penlight.passes.pipeline import optimize

    scope: dict[str, Any] = {"nn": nn, "torch": torch}
    exec(model, scope)  # our own text
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = scope["Glimpse"]().eval()
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):  # statistics as after training: else all biases are equal, and one
                assert part.running_mean is not None
                part.running_mean.normal_()
        program = capture(module, (torch.rand(2, 3, 64, 64),), dynamic_shapes={"image": {0: torch.export.Dim("n")}})
    graph = program.methods["forward"].graph
    captured = print_graph(graph)
    reports = [str(r).removeprefix("forward: ") for r in optimize(program) if r.nodes_before != r.nodes_after]
    optimized = print_graph(graph)
    lower(program)
    lowered = print_graph(graph)
    return {
        "captured": captured,
        "passes": "\n".join(reports),
        "optimized": optimized,
        "lowered": lowered,
        "read": str(read(to_array(program))),
    }
