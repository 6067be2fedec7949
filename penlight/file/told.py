"""What a .pen file says in JSON (metadata, how arguments nest, schemas of interpreted methods), checked: once, when the file is loaded.

The runtime proves the tables, and knows nothing of these texts, which only Python and other bindings read. Whatever is wrong with one is a
LoadError here; after that, nobody needs to ask again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penlight.errors import LoadError
from penlight.file.metadata import check_files
from penlight.ir.containers import check_input_spec, check_output_spec

Shape = Sequence[Any]


def parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise LoadError(
            f"this file is damaged: {what}: expected JSON, got text that is none ({str(e)[:120]})"
        ) from None


def metadata(text: str) -> dict[str, Any]:
    found = parsed(text, "metadata")
    if not isinstance(found, dict):
        raise LoadError(f"this file is damaged: metadata: expected a JSON object, got {type(found).__name__}")
    try:
        if "\\u" in text:  # half a letter, which cannot be printed or stored
            json.dumps(found, ensure_ascii=False).encode()
        check_files(found)
    except (ValueError, RecursionError) as e:
        raise LoadError(
            f"this file is damaged: metadata: expected text and files, got others ({str(e)[:120]})"
        ) from None
    return found


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
