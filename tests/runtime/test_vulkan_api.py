"""runtime/vulkan/api*.h against the real headers: every struct's size and every field's place, every constant, every function's
signature, in 64 and in 32 bit. Nothing is listed here: what the headers declare is read from them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime import native

ROOM = native.ROOT / "penlight/runtime/vulkan"
HEADERS = Path("/usr/include")  # of Debian's libvulkan-dev
# Ours -> theirs, in one sense: pointers for pointers, everything else by size, as handles are pointers or numbers.
ALIKE = """
template <class A, class B> constexpr bool kAlike = sizeof(A) == sizeof(B);
template <class A, class B> constexpr bool kAlike<A*, B*> = true;
template <> constexpr bool kAlike<void, void> = true;
template <class A, class B> constexpr bool kFits = false;
template <class R, class Q, class... A, class... B>
constexpr bool kFits<R (*)(A...), Q (*)(B...)> = kAlike<R, Q> && (kAlike<A, B> && ...);
"""


def code(name: str) -> str:
    return re.sub(r"//.*", "", (ROOM / name).read_text()).replace("\\\n", " ")


def structs() -> Iterator[tuple[str, list[str]]]:
    for name, body in re.findall(r"struct (Vk\w+) \{(.*?)\};", code("api_types.h"), re.DOTALL):
        fields = []
        for line in body.split(";"):
            names = re.sub(r"=.*", "", re.sub(r"\[\d+\]", "", line)).split(",")
            fields += [re.findall(r"\w+", part)[-1] for part in names if part.strip()]
        yield name, fields


def checks() -> Iterator[str]:
    """The lines of a program that compiles where all is the same; what the real header is too old for is left out by its macros."""
    ours = "pen::vulkan::"
    for name, fields in structs():
        yield f"static_assert(sizeof({ours}{name}) == sizeof(::{name}));"
        for field in fields:
            same = f"offsetof({ours}{name}, {field}) == offsetof(::{name}, {field})"
            same += f" && sizeof({ours}{name}::{field}) == sizeof(::{name}::{field})"
            yield f'static_assert({same}, "{name}::{field}");'
        if "sType" in fields:  # Vulkan names them alike, but for where words and numbers meet
            kind = re.search(
                rf"struct {name} \{{\s*VkStructureType sType = VK_STRUCTURE_TYPE_(\w+)", code("api_types.h")
            )
            assert kind is not None, name
            assert kind[1].replace("_", "") == name[2:].upper()
    for base, body in re.findall(r"enum (Vk\w+) : \w+ \{(.*?)\}", code("api_types.h"), re.DOTALL):
        for name in re.findall(r"(VK_\w+) =", body):
            yield f"static_assert(static_cast<int64_t>({ours}{name}) == static_cast<int64_t>(::{name}));"
        yield f"static_assert(sizeof({ours}{base}) == 4);"
    for handle in re.findall(r"enum class (Vk\w+) ", code("api_types.h")):
        yield f"static_assert(sizeof({ours}{handle}) == 8 && sizeof(::{handle}) == 8);"
    for table, functions in re.findall(r"#define PEN_VK_(\w+)_FUNCTIONS\(F\)(.*?)\n", code("api.h")):
        members = f"{ours}{table.capitalize()}Functions"
        for name in re.findall(r"F\([\w*]+, (\w+),", functions):
            yield f"static_assert(kFits<decltype({members}::{name}), PFN_vk{name}>);"


def guarded(lines: Iterator[str]) -> Iterator[str]:
    """What came with an extension that the header may not know yet stands inside its macro."""
    for line in lines:
        new = re.search(r"CooperativeMatrix\w*KHR|COOPERATIVE_MATRIX\w*_KHR", line)
        yield f"#ifdef VK_KHR_cooperative_matrix\n{line}\n#endif" if new else line


@pytest.mark.parametrize("bits", [64, 32])
def test_declarations_are_vulkans(bits: int, tmp_path: Path) -> None:
    if not (HEADERS / "vulkan/vulkan_core.h").exists():
        pytest.skip("Vulkan's headers are not installed (Debian: libvulkan-dev)")
    lines = list(guarded(checks()))
    assert len(lines) > 600
    source = tmp_path / "check.cc"
    # Ours first: the real one defines macros of some names.
    text = '#include <stdint.h>\n#include "penlight/runtime/vulkan/api.h"\n#include "vulkan/vulkan_core.h"\n'
    source.write_text(text + ALIKE + "\n".join(lines) + "\n")
    for folder in ("vulkan", "vk_video"):
        (tmp_path / folder).symlink_to(HEADERS / folder)  # these and no other headers of the host
    options = ["-std=c++17", f"-I{native.ROOT}", f"-I{tmp_path}", "-Wno-invalid-offsetof"]
    if bits == 64:
        command = ["g++", *options, "-fsyntax-only", source]
    else:
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("the ziglang package is not installed")
        compiler = [sys.executable, "-m", "ziglang", "cc", "-x", "c++", "-target", "arm-linux-musleabihf", "-nostdlib"]
        command = [*compiler, *options, "-c", source, "-o", tmp_path / "check.o"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    source.write_text(
        source.read_text().replace("VkSubmitInfo, pSignalSemaphores) == ", "VkSubmitInfo, pSignalSemaphores) + 8 == ")
    )
    again = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert again.returncode != 0  # the check checks
    assert "pSignalSemaphores" in again.stderr
