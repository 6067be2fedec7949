"""`./dev bench --sequences`: transformers, a decoder word by word, a recurrent network and speech, against ONNX Runtime, OpenVINO and eager.

Runs as the comparison of images does (compare.py), with models of sequence_list.py. Of the decoder's single words sixteen are timed, the
129th and those after it; then its memory is put back, outside the time.
"""

from __future__ import annotations

import argparse
from typing import Any

from rich.progress import Progress

from bench import compare, report
from bench.sequence_list import SequenceCase
from penlight.tools.screen import screen

ENGINES = ("penlight", "torch-eager", "onnxruntime", "openvino")


def main(options: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    return compare.of_cases([SequenceCase(model) for model in options.models], options, progress)


def tables(result: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    return compare.tables_of(result, "batch 1")


def show(result: dict[str, Any], options: argparse.Namespace) -> None:
    compare.show_tables(tables(result), result)
    for way in report.ways(result["rows"]):
        screen().print(way)


def is_right(result: dict[str, Any]) -> bool:
    return compare.is_right(result)
