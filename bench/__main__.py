"""`./dev bench`: the command line. Models side by side, in f32 or int8; or single layers, Penlight's own scaling, the docs from the
last runs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import compare, documents, int8, layers, operators, scaling, sequences, zoo
from bench.case import MODELS
from bench.engines import ENGINES
from bench.sequence_list import SEQUENCES
from penlight.tools.screen import error_screen

# what is measured: the module with main() and show(), where its numbers go, seconds of a turn
RUNS: dict[str, tuple[ModuleType, Path, float]] = {
    "models": (compare, documents.MODELS_JSON, 0.5),
    "int8": (int8, documents.INT8_JSON, 0.5),
    "sequences": (sequences, documents.SEQUENCES_JSON, 0.5),
    "layers": (layers, documents.LAYERS_JSON, 0.04),
    "scaling": (scaling, documents.SCALING_JSON, 0.5),
    "operators": (operators, documents.OPERATORS_JSON, 0.05),
    "zoo": (zoo, documents.ZOO_JSON, 0.1),
}


def main() -> int:
    options = _options()
    if options.docs:
        documents.write()
        return 0
    module, path, block = RUNS[options.run]
    options.block = options.block or block
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=error_screen(), transient=True) as progress:
        result = module.main(options, progress)
    path = options.json or path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    module.show(result, options)
    return 0 if module.is_right(result) else 1


def _options() -> argparse.Namespace:
    engines = [name for name, engine in ENGINES.items() if not engine.layers_only]
    parser = argparse.ArgumentParser(prog="./dev bench", description="Penlight and its peers side by side.")
    what = parser.add_mutually_exclusive_group()
    for name, text in (
        ("int8", "the models quantized, each engine with its own quantization"),
        ("sequences", "transformers, a decoder with its memory, a recurrent network, speech"),
        ("layers", "200 single layers instead of models, one thread"),
        ("scaling", "Penlight's threads, batch, size, layout"),
        ("operators", "single operators against torch eager, one thread"),
        ("zoo", "every model of the tests against torch eager, one thread; writes docs/MODELS.md"),
    ):
        what.add_argument(f"--{name}", dest="run", action="store_const", const=name, default="models", help=text)
    what.add_argument(
        "--docs", action="store_true", help="measure nothing; write docs/BENCHMARKS.md and its chart from the last runs"
    )
    parser.add_argument(
        "--models",
        nargs="+",
        choices=[*MODELS, *SEQUENCES],
        metavar="MODEL",
        help=f"{', '.join(MODELS)}; with --sequences {', '.join(SEQUENCES)}",
    )
    parser.add_argument(
        "--threads", nargs="+", type=int, default=[1, 2], help="thread counts, one table each (default: 1 2)"
    )
    parser.add_argument("--engines", nargs="+", choices=engines, metavar="ENGINE", help=", ".join(engines))
    parser.add_argument("--rounds", type=int, default=5, help="how often the engines take turns (default: 5)")
    parser.add_argument("--block", type=float, help="seconds of one engine's turn (default: 0.5; for a layer 0.04)")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument(
        "--size", type=int, default=224, help="height and width of the image, where the model allows it"
    )
    parser.add_argument(
        "--match",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="with --layers, --operators: only those with TEXT in the name",
    )
    parser.add_argument(
        "--worst", type=int, default=10, help="with --layers, --operators: how many to show (default: 10)"
    )
    parser.add_argument(
        "--json", type=Path, help="where the numbers go (default: build/bench.json, build/bench-layers.json, ...)"
    )
    options = parser.parse_args()
    models = list(SEQUENCES if options.run == "sequences" else MODELS)
    options.models = options.models or models
    for name in options.models:
        if name not in models:
            parser.error(f"--models: {name} is not of this run; expected some of {', '.join(models)}")
    precision = "int8" if options.run == "int8" else "f32"
    usual = [name for name in engines if ENGINES[name].precision == precision and not ENGINES[name].aside]
    if options.run == "sequences":
        usual = list(sequences.ENGINES)
    options.engines = options.engines or usual
    for name in options.engines:
        if ENGINES[name].precision != precision:
            parser.error(f"--engines: {name} is not for {precision}; expected some of {', '.join(usual)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
