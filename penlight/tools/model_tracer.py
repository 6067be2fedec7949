"""`model_tracer`: PyTorch Mobile's tracer by its own flags, lines and exit codes, over penlight trace.

model_tracer --model_input_path a.ptl,b.pen --build_yaml_path ops.yaml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from penlight.errors import PenlightError
from penlight.printable import printable

FLAGS = {
    "model_input_path": "Paths of the models, between commas: .ptl, .pen, .pt or .pt2, with bundled inputs.",
    "build_yaml_path": "The YAML file to write.",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(1, f"Failed to parse command line flags! {message}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs it and exits."""
    parser = _Parser(prog="model_tracer", description=__doc__.splitlines()[0], allow_abbrev=False)
    for flag, text in FLAGS.items():
        parser.add_argument(f"--{flag}", f"-{flag}", default="", help=text)
    given = parser.parse_args(arguments)
    for flag in FLAGS:
        if not getattr(given, flag):
            print(f"You must specify the flag --{flag}", file=sys.stderr)
            sys.exit(1)
    sys.exit(_trace([path for path in given.model_input_path.split(",") if path], given.build_yaml_path))


def _trace(paths: list[str], output: str) -> int:
    from penlight.build.trace import trace_model
    from penlight.build.yaml_file import write_yaml

    print(f"Output: {output}")
    for path in paths:
        print(f"Processing: {path}")
    whole = None
    try:
        for path in paths:
            trace = trace_model(path)
            print(f"Got {len(trace.root_operators)} Root Operators.")
            print("Inferred CPU Model.")
            for method, count in trace.inputs:
                print(f"Got {count} bundled input(s) for {printable(method)}\n")
            whole = trace if whole is None else whole | trace
        if whole is not None:
            write_yaml(output, whole)
    except (PenlightError, OSError) as e:
        print(f"ModelTracer has not been able to load the module for the following reasons:\n{e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    main()
