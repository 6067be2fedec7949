"""runtime/vulkan on the two software drivers that a machine without a GPU may have, each as it is and under Khronos' validation layer (which
also looks for missing barriers): lavapipe has all features, SwiftShader few."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.runtime import native
from tests.runtime.test_symbols import declared
from tests.vulkan_drivers import DRIVERS, PACKAGES

HERE = Path(__file__).parent / "vulkan"
ROOM = native.ROOT / "penlight/runtime/vulkan"
LAYER = Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")
VALIDATION = {
    "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
    "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
}


@pytest.fixture(scope="module")
def shaders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("glslc") is None:
        pytest.skip("glslc is not installed (Debian: glslc)")
    folder = tmp_path_factory.mktemp("shaders")
    for source in HERE.glob("*.comp"):
        target = folder / f"{source.stem}.spv"
        subprocess.run(["glslc", "-O", "--target-env=vulkan1.1", source, "-o", target], check=True)
    return folder


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    if not DRIVERS[request.param].exists():
        pytest.skip(f"{request.param} is not installed (Debian: {PACKAGES[request.param]})")
    return str(request.param)


def start(shaders: Path, *what: str | Path, kind: str = "plain", **environment: str) -> str:
    """What a run of the test program prints."""
    program = native.program(kind, HERE / "main.cc", *sorted(ROOM.glob("*.cc")), name="vulkan")
    return native.run([program, shaders, *what], environment={"PENLIGHT_VULKAN_DEVICE": "", **environment}).stdout


def on(driver: str, cache: Path | str = "") -> dict[str, str]:
    return {
        "VK_ICD_FILENAMES": str(DRIVERS[driver]),
        "VK_DRIVER_FILES": str(DRIVERS[driver]),
        "PENLIGHT_CACHE": str(cache),
    }


@pytest.mark.slow
@pytest.mark.parametrize("what", ["list", "compute", "lost", "threads", "fork"])
def test_driver(driver: str, what: str, shaders: Path, tmp_path: Path) -> None:
    """list: devices, their limits, names right and wrong. compute: specialization and push constants, replays, timestamps, aliased ranges in
    an arena, transfers, everything that is refused, pipelines over threads. lost, threads, fork: as they say."""
    assert start(shaders, what, **on(driver, tmp_path)).endswith("all well\n")


@pytest.mark.parametrize("what", ["list", "compute", "lost", "threads", "cache"])
def test_validation_layer_is_silent(driver: str, what: str, shaders: Path, tmp_path: Path) -> None:
    if not LAYER.exists():
        pytest.skip("the validation layer is not installed (Debian: vulkan-validationlayers)")
    output = start(shaders, what, **on(driver, tmp_path), **VALIDATION)
    assert output.endswith("all well\n"), output
    assert not re.search("Validation|VUID|SYNC-", output), output
    if what == "list":  # the layer looks, at misuse and at hazards
        misused = start(shaders, "misuse", **on(driver, tmp_path), **VALIDATION)
        assert "VUID-VkBufferCreateInfo-size" in misused
        assert "SYNC-HAZARD-READ-AFTER-WRITE" in misused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "what"), [("asan", "compute"), ("asan", "lost"), ("asan", "fork"), ("asan", "cache"), ("tsan", "threads")]
)
def test_under_sanitizers(kind: str, what: str, shaders: Path, tmp_path: Path) -> None:
    if not DRIVERS["lavapipe"].exists():
        pytest.skip("lavapipe is not installed (Debian: mesa-vulkan-drivers)")
    assert start(shaders, what, kind=kind, **on("lavapipe", tmp_path)).endswith("all well\n")


def loaded(output: str) -> int:
    return int(output.split()[0])


@pytest.mark.slow
def test_pipeline_cache(driver: str, shaders: Path, tmp_path: Path) -> None:
    """Cold, warm; then every way a file can be wrong: it counts as none, and is replaced by a right one."""
    folder = tmp_path / "new" / "cache"  # made with its parents

    def begin() -> int:
        return loaded(start(shaders, "cache", **on(driver, folder)))

    assert begin() == 0
    (file,) = folder.iterdir()
    assert file.name.startswith("vulkan-")
    assert file.name.endswith(".cache")
    assert file.stat().st_mode & 0o777 == 0o600
    whole = file.read_bytes()
    assert begin() == len(whole) - 80
    swapped = bytearray(whole)
    swapped[80 + 8 : 80 + 12] = b"\x01\x02\x03\x04"  # another vendor in Vulkan's header, under a hash that is right
    swapped[48:80] = hashlib.sha256(swapped[80:]).digest()
    wrong = {
        "one bit": whole[:-1] + bytes([whole[-1] ^ 1]),
        "cut": whole[:-1],
        "longer": whole + b"\0",
        "header only": whole[:80],
        "half a header": whole[:40],
        "empty": b"",
        "something else": b"not a cache" * 50,
        "another driver": whole[:20] + bytes([whole[20] ^ 1]) + whole[21:],
        "a great size": whole[:40] + b"\xff" * 8 + whole[48:],
        "another vendor": bytes(swapped),
    }
    for name, content in wrong.items():
        file.write_bytes(content)
        assert begin() == 0, name
        assert begin() == len(file.read_bytes()) - 80, name
    assert [p.name for p in folder.iterdir()] == [file.name]  # no temporary file stays


@pytest.mark.slow
def test_cache_folders(driver: str, shaders: Path, tmp_path: Path) -> None:
    """Where the file goes; where it cannot be written, nothing happens."""
    environment = on(driver)
    assert loaded(start(shaders, "cache", **environment)) == 0  # PENLIGHT_CACHE is empty: nowhere
    nowhere = tmp_path / "file"
    nowhere.write_text("no folder")
    for _ in range(2):
        assert loaded(start(shaders, "cache", **{**environment, "PENLIGHT_CACHE": str(nowhere / "below")})) == 0
    program = native.program("plain", HERE / "main.cc", *sorted(ROOM.glob("*.cc")), name="vulkan")
    del environment["PENLIGHT_CACHE"]
    ways = [
        ({"HOME": str(tmp_path / "home")}, [], tmp_path / "home/.cache/penlight"),
        ({"XDG_CACHE_HOME": str(tmp_path / "xdg")}, [], tmp_path / "xdg/penlight"),
        ({"HOME": str(tmp_path / "home2")}, [tmp_path / "app"], tmp_path / "app"),  # as an app says
    ]
    for more, arguments, folder in ways:
        command = ["env", "-u", "PENLIGHT_CACHE", "-u", "XDG_CACHE_HOME", *(f"{k}={v}" for k, v in more.items())]
        native.run([*command, program, shaders, "cache", *arguments], environment=environment)
        assert len(list(folder.glob("vulkan-*.cache"))) == 1, folder
    assert not (tmp_path / "home2").exists()


@pytest.mark.slow
def test_cache_of_concurrent_processes(driver: str, shaders: Path, tmp_path: Path) -> None:
    program = native.program("plain", HERE / "main.cc", *sorted(ROOM.glob("*.cc")), name="vulkan")
    environment = {**os.environ, **on(driver, tmp_path)}
    for _ in range(3):
        running = [
            subprocess.Popen([program, shaders, "cache"], env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(6)
        ]
        for process in running:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0
            assert output.endswith("all well\n")
    (file,) = tmp_path.iterdir()
    assert loaded(start(shaders, "cache", **on(driver, tmp_path))) == file.stat().st_size - 80


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"PENLIGHT_VULKAN_LIBRARY": "libno_such_vulkan.so"}, ["libno_such_vulkan.so", "libvulkan1", "PENLIGHT_VULKAN_LIBRARY"]),
        ({"PENLIGHT_VULKAN_LIBRARY": "libm.so.6"}, ["expected vkGetInstanceProcAddr", "PENLIGHT_VULKAN_LIBRARY"]),
        ({"VK_ICD_FILENAMES": "/no/such/driver.json", "VK_DRIVER_FILES": "/no/such/driver.json"}, ["driver", "VK_ERROR_INCOMPATIBLE_DRIVER"]),
        ({"VK_INSTANCE_LAYERS": "VK_LAYER_that_is_not_there"}, []),  # the loader's to ignore, or VK_ERROR_LAYER_NOT_PRESENT
    ],
)  # fmt: skip
def test_what_is_missing_is_said(environment: dict[str, str], words: list[str], shaders: Path) -> None:
    """No loader, a library that is none, no driver."""
    if not words:
        environment = {
            **environment,
            "VK_ICD_FILENAMES": "/no/such/driver.json",
            "VK_DRIVER_FILES": "/no/such/driver.json",
        }
    output = start(shaders, "none", **environment)
    assert output.startswith("Vulkan: expected "), output
    assert [word for word in words if word not in output] == [], output


def test_no_device(shaders: Path) -> None:
    """A driver for hardware that is not here."""
    absent = Path("/usr/share/vulkan/icd.d/intel_icd.x86_64.json")
    if not absent.exists() or any(Path("/dev/dri").glob("render*")):
        pytest.skip("there is no driver whose GPU is surely missing")
    output = start(shaders, "none", VK_ICD_FILENAMES=str(absent), VK_DRIVER_FILES=str(absent))
    assert "expected a device, got" in output
    assert "Install a driver" in output


def test_a_driver_without_a_loader(shaders: Path) -> None:
    """PENLIGHT_VULKAN_LIBRARY may name a driver itself, as an app does that brings MoltenVK or SwiftShader."""
    library = DRIVERS["swiftshader"].parent / "libvk_swiftshader.so"
    if not library.exists():
        pytest.skip("swiftshader is not installed (Debian: chromium-common)")
    assert "SwiftShader" in start(shaders, "list", PENLIGHT_VULKAN_LIBRARY=str(library))


@pytest.fixture(scope="module")
def between() -> str:
    """A library that stands before the real one and behaves as other hardware does."""
    flags = ["-O1", "-fPIC", "-shared"]
    return str(native.program("plain", HERE / "between.cc", flags=flags, name="libbetween.so"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "behaviour"),
    [
        ("compute", "own-memory"),  # the host cannot reach it, and sees what it downloads only after it was fetched
        ("full", "own-memory full"),
        ("compute", "own-memory late"),  # the driver's waiting ends early
        ("fork", "own-memory"),
        ("loss", "lost-at-submit"),
        ("loss", "own-memory lost-at-wait"),
        ("broken", "broken-compiler"),
    ],
)
def test_other_hardware(driver: str, what: str, behaviour: str, shaders: Path, between: str) -> None:
    environment = {**on(driver), "PENLIGHT_VULKAN_LIBRARY": between, "BETWEEN": behaviour}
    assert start(shaders, what, **environment).endswith("all well\n")


def test_a_cache_with_something_in_it(driver: str, shaders: Path, between: str, tmp_path: Path) -> None:
    """It is written with every new pipeline, and left alone where there is none; one that is too large is not kept."""
    environment = {**on(driver, tmp_path), "PENLIGHT_VULKAN_LIBRARY": between, "BETWEEN": "cache"}
    assert loaded(start(shaders, "cache", **environment)) == 0
    (file,) = tmp_path.iterdir()
    written = file.stat()
    assert written.st_size == 80 + 32 + 2 * 16
    assert loaded(start(shaders, "cache", **environment)) == 32 + 2 * 16
    assert file.stat().st_mtime_ns == written.st_mtime_ns
    assert start(shaders, "compute", **environment).endswith("all well\n")
    assert file.stat().st_size > 80 + 32 + 40 * 16
    start(shaders, "cache", **{**environment, "BETWEEN": "great-cache"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("behaviour", "listed", "opened"),
    [
        ("kinds", ["llvmpipe.*|integrated GPU|$", "SwiftShader.*|virtual GPU|$"], "llvmpipe"),
        ("old-device", ["SwiftShader.*|CPU|its driver has Vulkan 1.0", "llvmpipe.*|CPU|$"], "llvmpipe"),
        (
            "no-queue",
            ["SwiftShader.*|it has no queue", "llvmpipe.*|it has no queue"],
            ".*: expected a device that can be used",
        ),
    ],
)
def test_which_device(behaviour: str, listed: list[str], opened: str, shaders: Path, between: str) -> None:
    """The likeliest stands first, the first that can be used is opened; why another cannot is said."""
    if not all(path.exists() for path in DRIVERS.values()):
        pytest.skip("lavapipe and swiftshader are not both installed (Debian: mesa-vulkan-drivers, chromium-common)")
    both = ":".join(str(path) for path in DRIVERS.values())
    environment = {"VK_ICD_FILENAMES": both, "VK_DRIVER_FILES": both, "PENLIGHT_VULKAN_LIBRARY": between}
    *lines, last, _ = start(shaders, "kinds", **environment, BETWEEN=behaviour, PENLIGHT_CACHE="").splitlines()
    if behaviour != "kinds":  # of one kind: in the loader's order
        lines.sort(key=lambda line: "llvmpipe" in line)
    assert len(lines) == len(listed)
    for line, expected in zip(lines, listed, strict=True):
        assert re.match(expected.replace("|", r"\|"), line), line
    assert re.match(opened, last), last


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ("khr-matrices", ["khr 1 nv 0 shapes 2", "16 x 8 x 32", "16 x 11 x 32"]),
        ("nv-matrices", ["khr 0 nv 1 shapes 2", "8 x 8 x 32", "8 x 11 x 32"]),
        ("khr-matrices nv-matrices", ["khr 1 nv 1 shapes 2", "16 x 8 x 32", "16 x 11 x 32"]),
    ],
)
def test_cooperative_matrices(behaviour: str, told: list[str], shaders: Path, between: str) -> None:
    """Of the shapes that a driver lists, those with f16 in and f32 accumulated; opening a device enables what they need."""
    if not DRIVERS["lavapipe"].exists():
        pytest.skip("lavapipe is not installed (Debian: mesa-vulkan-drivers)")
    output = start(shaders, "list", **on("lavapipe"), PENLIGHT_VULKAN_LIBRARY=between, BETWEEN=behaviour)
    first, *lines, last = output.splitlines()
    assert told[0] in first
    assert [line.strip() for line in lines] == told[1:]
    assert last == "all well"


def test_a_loader_of_vulkan_1_0(shaders: Path, between: str) -> None:
    output = start(shaders, "none", PENLIGHT_VULKAN_LIBRARY=between, BETWEEN="old-loader")
    assert "expected a loader of Vulkan 1.1 or later" in output


@pytest.mark.parametrize(
    "target", ["", "aarch64-linux-android21", "armv7a-linux-androideabi21", "i686-linux-android21", "x86_64-linux-gnu"]
)
def test_objects(target: str, tmp_path: Path) -> None:
    """Compiles for every kind of target without any header but the compiler's, takes nothing from outside that platform.h does not
    declare, and has no constructors."""
    sources = sorted(ROOM.glob("*.cc"))
    compiler = ["g++", "-O2"]
    if target:
        ziglang = pytest.importorskip("ziglang")
        home = Path(ziglang.__file__).parent
        words = ["-ffreestanding", "-nostdlibinc", "-isystem", str(home / "lib/include"), "-Oz"]
        words += ["-mno-outline-atomics"] if target.startswith("aarch64") else []
        compiler = [str(home / "zig"), "clang", f"--target={target}", *words]
    objects = []
    for source in sources:
        out = tmp_path / f"{source.stem}.o"
        flags = ["-std=c++17", "-fPIC", *native.WARNINGS, "-fno-exceptions", "-fno-rtti", f"-I{native.ROOT}", "-c"]
        done = subprocess.run([*compiler, *flags, source, "-o", out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        objects.append(out)
    table = subprocess.run(["readelf", "-s", "-W", *objects], capture_output=True, text=True, check=True).stdout
    undefined = {line.split()[7] for line in table.splitlines() if " UND " in line and len(line.split()) > 7}
    outside = {name for name in undefined if not name.startswith("_ZN3pen") and name != "_GLOBAL_OFFSET_TABLE_"}
    helpers = {name for name in outside if re.fullmatch(r"__aeabi_\w+|__\w+di3|__fixunsdfdi", name)}  # of 32 bits
    assert helpers == set() or "64" not in target
    assert outside - declared() - helpers - {"pen_version"} == set()
    sections = subprocess.run(["readelf", "-S", "-W", *objects], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\.(init_array|tbss|tdata|gcc_except_table)", sections)
