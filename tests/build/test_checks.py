"""Each thing that a library must be: a library that is not is refused in words, one that is all of it passes."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from penlight.build.checks import check_jni, check_library
from penlight.build.library import run_tool, stub_library
from penlight.build.targets import TARGETS
from penlight.build.toolchain import ELF_LINK, find_zig
from penlight.errors import BuildError

SOURCE = """
extern "C" __attribute__((visibility("default"))) const char* pen_version() { return "1"; }
extern "C" __attribute__((visibility("default"))) EXTRA
"""
GOOD = "int pen_more() { return 1; }"
OUTSIDE = "int other(); int pen_more() { return other(); }"
# what is wrong: (target, what else the source holds, compile flags, linker flags in place of the good ones, functions by library)
CASES = {
    "page alignment: expected a multiple of 16384 .* got 4096": ("android-arm64", GOOD, [], {"max-page-size=16384": "max-page-size=4096"}, {}),
    "stack: expected one that cannot be executed": ("android-arm64", GOOD, [], {"noexecstack": "execstack"}, {}),
    "text relocations: expected none": ("android-x86", "int* pen_y() { static int x; return &x; }", ["-fno-pic"], {"text": "notext"}, {}),
    "needed libraries: expected libc.so, .* got libc\\+\\+_shared.so too": ("android-arm64", OUTSIDE, [], {}, {"libc++_shared.so": {"other": ""}}),
    "exported symbols: expected pen_.* got helper too": ("android-arm64", "int helper() { return 1; }", [], {}, {}),
    "symbol versions: expected none, .* got LIBC": ("android-arm64", OUTSIDE, [], {}, {"libc.so": {"other": "LIBC"}}),
    "symbol versions: expected GLIBC_2.17 or older, got GLIBC_2.34": ("linux-x86_64", OUTSIDE, [], {}, {"libc.so.6": {"other": "GLIBC_2.34"}}),
    "soname: expected libpenlight.so, got libother.so": ("android-arm64", GOOD, [], {"libpenlight.so": "libother.so"}, {}),
}  # fmt: skip


def _linked(
    folder: Path,
    case: tuple[str, str, list[str], dict[str, str], dict[str, dict[str, str]]],
    text: str = SOURCE,
    called: str = "libpenlight.so",
) -> Path:
    name, extra, flags, instead, libraries = case
    target, zig = TARGETS[name], find_zig()
    source, out = folder / "x.cc", folder / called
    source.write_text(text.replace("EXTRA", extra))
    compile_flags = [
        f"--target={target.triple}",
        *target.flags,
        "-ffreestanding",
        "-fvisibility=hidden",
        *(flags or ["-fPIC"]),
    ]
    run_tool([str(zig), "clang", *compile_flags, "-c", str(source), "-o", str(folder / "x.o")])
    stubs = [
        str(stub_library(zig, target.triple, target.flags, target.emulation, n, f, folder))
        for n, f in libraries.items()
    ]
    words = ["-soname", called, *ELF_LINK]
    link = ["-m", target.emulation, "-shared", *(instead.get(w, w) for w in words)]
    run_tool([str(zig), "ld.lld", *link, "-o", str(out), str(folder / "x.o"), *stubs])
    return out


@pytest.mark.parametrize("wrong", CASES)
def test_a_library_that_is_not_fit_is_refused(wrong: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    with pytest.raises(BuildError, match=wrong) as raised:
        check_library(_linked(tmp_path, CASES[wrong]), TARGETS[CASES[wrong][0]])
    assert str(raised.value).count("expected") == 1, "nothing else is wrong with it"


@pytest.mark.parametrize("name", [n for n, t in TARGETS.items() if t.system in ("android", "linux")])
def test_a_fit_library_passes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    check_library(_linked(tmp_path, (name, GOOD, [], {}, {})), TARGETS[name])
    row, other = TARGETS[name], tmp_path / "other"
    with pytest.raises(BuildError, match="without the C interface"):
        check_library(
            stub_library(find_zig(), row.triple, row.flags, row.emulation, "libpenlight.so", {"pen_x": ""}, other), row
        )


@pytest.mark.parametrize(
    ("functions", "needed", "wrong"),
    [
        (["Java_A_f", "Java_A_g", "JNI_OnLoad"], "libpenlight.so", ""),
        (["Java_A_f"], "libpenlight.so", "expected Java_A_g among them, got a library that classes do not find their native methods in"),
        (["Java_A_f", "Java_A_g", "pen_image_argb"], "libpenlight.so", r"expected Java_\*, JNI_OnLoad only, got pen_image_argb too"),
        (["Java_A_f", "Java_A_g"], "libother.so", "(?s)expected libpenlight.so among them, got libother.so.* got libother.so too"),
    ],
)  # fmt: skip
def test_what_java_loads(functions: list[str], needed: str, wrong: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    one = 'extern "C" __attribute__((visibility("default"))) int NAME() { int pen_run(); return pen_run(); }\n'
    text = "".join(one.replace("NAME", function) for function in functions)
    made = _linked(tmp_path, ("android-arm64", "", [], {}, {needed: {"pen_run": ""}}), text, "libpenlight_jni.so")
    with pytest.raises(BuildError, match=wrong) if wrong else nullcontext():
        check_jni(made, TARGETS["android-arm64"], {"Java_A_f", "Java_A_g"})
