"""docs/MOVING.md: its lists are whole, and what is no longer true cannot stay in it. (tests/test_documents.py compares the text.)"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from penlight.tools import moving
from penlight.tools.moving_rows import BINARIES, GRADLE, PODS, PYTHON_MISSING, VARIABLES, Row
from tests.compat.extract import FOLDER
from tests.cpp import compilers


def test_rows_need_their_words() -> None:
    rows = [*PYTHON_MISSING, *GRADLE, *PODS, *VARIABLES, *BINARIES]
    assert list(moving.checked(rows)) == rows
    with pytest.raises(ValueError, match="`x`: README.md has no longer 'never said'"):
        list(moving.checked([Row("`x`", "y", "README.md", "never said")]))


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({"CPP_NOTES": {"at::Gone": "x"}}, "that the headers have not: {'at::Gone'}"),
        ({"CPP_MISSING": {"forward": "x"}}, "called missing, and there: {'forward'}"),
        ({"JAVA_NOTES": {"org.pytorch.Gone": "x"}}, "surface.txt has not: {'org.pytorch.Gone'}"),
        ({"PYTHON_NOTES": {"gone": "x"}}, "not there: {'gone'}"),
    ],
)
def test_notes_need_their_names(notes: dict[str, dict[str, str]], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in notes.items():
        monkeypatch.setattr(moving, name, value)
    with pytest.raises(ValueError, match=re.escape(words)):
        moving.moving()


def test_java_names_are_those_of_the_list() -> None:
    surface = moving.java_surface()
    assert len(surface) == 11
    assert surface["org.pytorch.Module"] == ["load()", "forward()", "runMethod()", "destroy()"]
    assert surface["org.pytorch.Device"] == ["CPU", "VULKAN"]
    assert moving.java_members("class Hidden {\n  public void no() {}\n}") == []
    source = "public final class A {\n  public A(int x) {}\n  public static Map<String, B> m(int a) {}\n  public final int[] f;\n  void own() {}\n"
    assert moving.java_members(source) == ["A()", "m()", "f"]


def test_python_names_are_there() -> None:
    """Under penlight.compat too, as the page says, but for constants."""
    import penlight.compat

    places = moving.python_places()
    assert set(places) == {
        "torch.utils.mobile_optimizer",
        "torch.utils.bundled_inputs",
        "torch.jit.mobile",
        "torch.quantization",
    }
    for names in list(places.values())[:3]:
        for name in names:
            assert name in ("MAX_RAW_TENSOR_SIZE", "OperatorInfo") or hasattr(penlight.compat, name), name


def test_cpp_names_compile(tmp_path: Path) -> None:
    """Each type and function that the page names is one to the compiler; and what the documents' C++ names is on the page."""
    types, functions = moving.cpp_names()
    assert {"at::Tensor", "c10::IValue", "torch::jit::mobile::Module", "c10::InferenceMode"} <= set(types)
    assert {"toTensor()", "isTuple()", "toGenericDict()"} <= set(types["c10::IValue"])
    plain = [name for name in types if name not in ("c10::List", "c10::Dict", "c10::ArrayRef")]  # those are templates
    lines = [*(f"using type_{i} = {name};" for i, name in enumerate(plain))]
    lines += [f"using {name.removesuffix('()')};" for name in functions if name.startswith("at::")]
    source = tmp_path / "names.cc"
    source.write_text(
        "#include <torch/script.h>\n"
        + "\n".join(lines)
        + "\nint main() { using torch::jit::load; using torch::jit::_load_for_mobile; }\n"
    )
    compilers.program("g++", source, tmp_path / "names")
    subprocess.run([tmp_path / "names"], check=True)

    known = {
        name.removesuffix("()").rpartition("::")[2]
        for name in (*types, *functions, *moving.cpp_constants(), *(m for ms in types.values() for m in ms))
    }
    documents = "\n".join(
        path.read_text(encoding="utf-8") for pattern in ("*.mm.txt", "*.cc.txt") for path in FOLDER.glob(pattern)
    )
    used = set(re.findall(r"(?:at|c10|torch|jit|autograd)::(\w+)(?!::|\w)", documents)) | set(
        re.findall(r"\.(\w+)\(", documents)
    )
    assert used
    assert used <= known, used - known
