"""The Android apps of examples/android without Android: their resources by Debian's aapt, their code by javac against the real classes and
stand-ins for Android's own, and what they do from model to result on the desktop's Java, with the libraries built for this machine.

`python -m tests.examples.android` draws the pictures in the docs from what they say.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penlight.build.class_files import native_functions
from penlight.build.java import STAND_INS, java_classes
from penlight.build.library import build_jni, build_library
from penlight.build.model_selection import selection_of_models
from penlight.build.package.zip_file import jar
from penlight.build.targets import TARGETS
from tests import vulkan_drivers

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, HERE = ROOT / "examples/android", Path(__file__).parent
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
DRIVER = str(vulkan_drivers.DRIVERS["lavapipe"])  # the quicker one
CACHE = ROOT / "build/libraries"
MORE = {"CameraClassification": (20, 90)}  # frames, and how far they must be turned
APPS = ("HelloWorld", "ImageSegmentation", "CameraClassification", "VulkanTest")


@functools.cache
def real_classes() -> dict[str, bytes]:
    return java_classes()


def gradle(app: str, pattern: str) -> list[str]:
    return re.findall(pattern, (EXAMPLES / app / "app/build.gradle.kts").read_text())


def compile_resources(app: str, out: Path) -> Path:
    """An APK of manifest, resources and assets, and R.java beside it, as Gradle's plugin does it with aapt's successor."""
    main = EXAMPLES / app / "app/src/main"
    (namespace,) = gradle(app, r'namespace = "(.*)"')
    (oldest,) = gradle(app, r"minSdk = (\d+)")
    manifest = (main / "AndroidManifest.xml").read_text()
    (out / "AndroidManifest.xml").write_text(manifest.replace("<manifest ", f'<manifest package="{namespace}" ', 1))
    command = [
        "aapt",
        "package",
        "-f",
        "-m",
        "-M",
        out / "AndroidManifest.xml",
        "-S",
        main / "res",
        "-I",
        FRAMEWORK,
        "-J",
        out,
        "-F",
        out / "app.apk",
    ]
    call([*command, "--min-sdk-version", oldest, "--target-sdk-version", "29"])  # the newest that this framework knows
    return out / "app.apk"


def compile_app(app: str, out: Path) -> Path:
    """Class files of the app, of what runs it without a screen, and of the stand-ins; penlight.jar is there beside them."""
    compile_resources(app, out)
    (out / "penlight.jar").write_bytes(jar(real_classes()))
    (release,) = gradle(app, r"sourceCompatibility = JavaVersion.VERSION_(\d+)")
    (namespace,) = gradle(app, r'namespace = "org.pytorch.(.*)"')
    folders = [
        EXAMPLES / app / "app/src/main/java",
        *(EXAMPLES / app / "app" / shared for shared in gradle(app, r'srcDir\("(.*)"\)')),
    ]
    own = [path for folder in folders for path in sorted(folder.rglob("*.java"))]
    looked_up = [HERE / "stubs", STAND_INS, HERE / "desktop", *folders, out]
    options = ["--release", release, "-Xlint:all,-options,-classfile", "-Werror", "-d", out / "classes"]
    paths = ["-classpath", out / "penlight.jar", "-sourcepath", ":".join(map(str, looked_up))]
    call(["javac", *options, *paths, *own, HERE / f"desktop/org/pytorch/{namespace}/Desktop.java"])
    return out / "classes"


def make_assets(app: str, out: Path, *options: str) -> Path:
    call([sys.executable, EXAMPLES / app / "make_model.py", "--out", out, *options], {"PYTHONPATH": str(ROOT)})
    return out


def build_libraries(models: Sequence[Path], out: Path) -> Path:
    """A folder with what Java loads on this machine: what these models need and no more, with Vulkan where shaders can be compiled."""
    backends = ("cpu", "vulkan") if shutil.which("glslc") else ("cpu",)
    selection = replace(selection_of_models(models), backends=backends)
    library = build_library(TARGETS["host"], selection, out, cache=CACHE, jobs=2)
    return build_jni(library, native_functions(real_classes()), cache=CACHE, jobs=2).path.parent


def run_app(app: str, classes: Path, libraries: Path, *arguments: object, **environment: str) -> list[str]:
    """What the app says without its screen."""
    (namespace,) = gradle(app, r'namespace = "(.*)"')
    path = f"{classes}:{classes.with_name('penlight.jar')}"
    java = ["java", "-Xcheck:jni", "-Djava.awt.headless=true", f"-Djava.library.path={libraries}", "-cp", path]
    return call([*java, f"{namespace}.Desktop", *arguments], environment).splitlines()


def call(command: Sequence[Any], environment: dict[str, str] | None = None) -> str:

    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "VK_ICD_FILENAMES": DRIVER, "VK_DRIVER_FILES": DRIVER, **(environment or {})},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise AssertionError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


# --- pictures for the docs ---
def framed(photograph: Any, lines: Sequence[str]) -> Any:
    """As the apps lay it out: a picture, text below it."""
    from PIL import Image, ImageDraw, ImageFont

    width, line, size = 400, 22, 15
    photograph = photograph.resize((width, round(photograph.height * width / photograph.width)))
    screen = Image.new("RGB", (width, photograph.height + line * len(lines) + 20), "white")
    screen.paste(photograph)
    draw, font = ImageDraw.Draw(screen), ImageFont.load_default(size)
    for i, text in enumerate(lines):
        draw.text((14, photograph.height + 10 + i * line), text, fill="black", font=font)
    return screen


def draw_pictures(out: Path) -> None:
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        places = {app: Path(folder) / app for app in APPS}
        assets = {app: make_assets(app, place / "assets") for app, place in places.items()}
        models = {app: next(made.glob("*.pen")) for app, made in assets.items()}
        libraries = build_libraries(list(models.values()), Path(folder))
        for app, place in places.items():
            classes, photograph = compile_app(app, place), assets[app] / "image.jpg"
            if app == "ImageSegmentation":
                made = place / "overlay.png", place / "classes.png"
                lines = run_app(app, classes, libraries, models[app], photograph, *made)[:1]
                photograph = made[0]
            else:
                lines = run_app(
                    app, classes, libraries, models[app], assets[app] / "labels.txt", photograph, *MORE.get(app, ())
                )
                lines = lines[-3:] if app in MORE else lines
            path = out / f"android_{app}.jpg"
            framed(Image.open(photograph), lines).save(path, quality=85)
            print(path, path.stat().st_size, *lines, sep="\n  ")


if __name__ == "__main__":
    draw_pictures(ROOT / "docs")
