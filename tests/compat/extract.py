"""Takes the Python, C++ and Objective-C++ blocks out of the documents (reStructuredText), as they stand.

A block is what a `::`, `.. code:: LANGUAGE` or `.. code-block:: LANGUAGE` line announces, without its indentation. Those that name
a language are Python if it is that; those that do not are Python if they parse as Python and do something: import, define, assign or call.
Of the others, those that name something in at:: or torch:: are C++.

    python -m tests.compat.extract FOLDER    writes the blocks of FOLDER/*.txt into tests/compat/documents
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path

FOLDER = Path(__file__).parent / "documents"
_DIRECTIVE = re.compile(r"^\.\. code(?:-block)?::\s*(\S*)\s*$")


def python_blocks(text: str) -> list[str]:
    return [block for language, block in _blocks(text) if _is_python(language, block)]


def cpp_blocks(text: str) -> list[str]:
    return [block for language, block in _blocks(text) if not language and re.search(r"\b(at|torch)::", block)]


def objective_cpp_blocks(text: str) -> list[str]:
    return [block for language, block in _blocks(text) if language == "objective-c"]


KINDS = {"py": python_blocks, "cc": cpp_blocks, "mm": objective_cpp_blocks}


def _blocks(text: str) -> list[tuple[str, str]]:
    """(language, block) of every literal block; "" where no language is named."""
    lines = text.splitlines()
    found = []
    i = 0
    while i < len(lines):
        line = lines[i]
        i += 1
        directive = _DIRECTIVE.match(line)
        if directive is None and line.rstrip() != "::":
            continue
        body = []
        while i < len(lines) and (not lines[i].strip() or lines[i][:1].isspace()):
            body.append(lines[i])
            i += 1
        block = textwrap.dedent("\n".join(body)).strip("\n")
        found.append((directive.group(1) if directive else "", block + "\n"))
    return found


def _is_python(language: str, block: str) -> bool:
    if language not in ("", "python"):
        return False
    try:
        tree = ast.parse(block)
    except SyntaxError:
        return False
    if language == "python":
        return True
    acts = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)
    return any(isinstance(node, acts) for node in tree.body) or any(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) for node in tree.body
    )


def write(folder: Path) -> None:
    FOLDER.mkdir(exist_ok=True)
    for kind, blocks in KINDS.items():
        for old in FOLDER.glob(f"*.{kind}.txt"):
            old.unlink()
        for document in sorted(folder.glob("[0-9]*.txt")):
            for index, block in enumerate(blocks(document.read_text(encoding="utf-8"))):
                (FOLDER / f"{document.stem}.{index}.{kind}.txt").write_text(block, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
