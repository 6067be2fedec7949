"""What a .pen file says in JSON (metadata, how arguments nest, schemas of interpreted methods), checked: once, when the file is loaded.

The runtime proves the tables, and knows nothing of these texts, which only Python and other bindings read. Whatever is wrong with one is a
LoadError here; after that, nobody needs to ask again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penlight.errors import ArgumentError, InputError, LoadError
from penlight.file.metadata import as_json, check_files
from penlight.ir.containers import check_input_spec, check_output_spec
from penlight.ir.script import OPERATORS

Shape = Sequence[Any]
MAX_DEPTH = 100  # of metadata: whoever walks it later may stand deep in calls of its own
_UNPLANNED = {"operators": int, "source": str, "why": str}


def parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise LoadError(
            f"this file is damaged: {what}: expected JSON, got text that is none ({str(e)[:120]})"
        ) from None


def metadata(text: str) -> dict[str, Any]:
    found = parsed(text, "metadata")
    check_metadata(text, found)
    return found  # type: ignore[no-any-return]


def check_metadata(text: str, found: Any) -> None:
    if not isinstance(found, dict):
        raise LoadError(f"this file is damaged: metadata: expected a JSON object, got {type(found).__name__}")
    try:
        _check_entries(text, found)
    except (ValueError, RecursionError) as e:
        raise LoadError(
            f"this file is damaged: metadata: expected text and files, got others ({str(e)[:120]})"
        ) from None


def check_given(metadata: Any) -> None:
    """What a caller wants a file to say: what would be refused when it is loaded is refused before work is put into it."""
    expected = "metadata: expected a dict of names with what JSON holds"
    if not isinstance(metadata, Mapping):
        raise InputError(f"{expected}, got {type(metadata).__name__}")
    for name in metadata:
        if not isinstance(name, str):
            raise InputError(f"{expected}, got {type(name).__name__} for a name")
    try:
        text = as_json(metadata, allow_nan=False).decode()
        _check_entries(text, json.loads(text))
    except (TypeError, ValueError, RecursionError) as e:
        raise ArgumentError(f"{expected}: {str(e)[:200]}") from None


def _check_entries(text: str, found: dict[str, Any]) -> None:
    if "\\u" in text:  # half a letter, which cannot be printed or stored
        json.dumps(found, ensure_ascii=False).encode()
    check_depth(text, found)
    check_files(found)
    check_kinds(found)


def check_depth(text: str, found: Any) -> None:
    """ValueError where it is nested deeper than MAX_DEPTH."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level = [found]
    for _ in range(MAX_DEPTH):
        parts = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, (dict, list))]
        level = [item for part in parts for item in part]
        if not level:
            return
    raise ValueError(f"nested deeper than {MAX_DEPTH}")


def check_kinds(metadata: dict[str, Any]) -> None:
    """ValueError unless what Penlight itself notes in a file, for its own commands, is as it notes it."""
    names, parts = metadata.get(OPERATORS, []), metadata.get("unplanned", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{OPERATORS}: expected a list of names")
    if not isinstance(parts, list) or not all(
        isinstance(part, dict) and all(isinstance(part.get(key), kind) for key, kind in _UNPLANNED.items())
        for part in parts
    ):
        raise ValueError(f"unplanned: expected a list of parts with {', '.join(_UNPLANNED)}")


def specs(method: str, texts: tuple[str, str], inputs: Sequence[Shape], outputs: int) -> tuple[Any, Any]:
    """How the arguments and results of a method nest. `inputs`: their shapes; `outputs`: how many there are."""
    made = parsed(texts[0], f"{method}: input_spec"), parsed(texts[1], f"{method}: output_spec")
    try:
        check_input_spec(made[0], len(inputs), outputs)
        check_output_spec(made[1], outputs, {f"in{i}_{d}" for i, shape in enumerate(inputs) for d in range(len(shape))})
    except (ValueError, RecursionError) as e:
        raise LoadError(f"this file is damaged: {method}: its containers: {str(e)[:300]}") from None
    return made


def arguments(method: str, text: str, defaults: int) -> list[dict[str, Any]]:
    """Of an interpreted method: name and type of each but self, and whether it may be left out."""
    found = parsed(text, f"{method}: schema")
    rows = found.get("arguments") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("name"), str) and isinstance(row.get("type"), str) for row in rows
    ):
        raise LoadError(f"this file is damaged: {method}: schema: expected a list of arguments with names and types")
    given = rows[1:]
    return [{**row, "optional": i >= len(given) - defaults} for i, row in enumerate(given)]
