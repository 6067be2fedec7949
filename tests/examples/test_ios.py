"""The iOS apps: their projects hold together as Xcode reads them, all of their code is checked, and what they do is right on photographs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import penlight
from examples.ios.xcode import project_text
from penlight.build.package.xcframework import write_xcframework
from tests.build.test_aar import stand_in
from tests.examples.ios_apps import APPS, EXAMPLES, build, check, make_assets, sources

pytestmark = pytest.mark.slow  # it compiles


class Assets(dict[str, Path]):
    """What each app's script writes, when it is asked for; ImageSegmentation's with the smaller of its networks."""

    factory: pytest.TempPathFactory

    def __missing__(self, app: str) -> Path:
        more = ["--backbone", "mobilenet_v3_large"] if app == "ImageSegmentation" else []
        self[app] = make_assets(app, self.factory.mktemp(app), *more)
        return self[app]


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Assets:
    made = Assets()
    made.factory = tmp_path_factory
    return made


# --- projects ---
@pytest.mark.parametrize("app", APPS)
def test_project(app: str, tmp_path: Path) -> None:
    """By another's parser: each reference leads to an object, each object is referred to, each file is in the phase of its kind."""
    parser = pytest.importorskip("openstep_parser", reason="pip install openstep-parser: it reads Xcode's projects")
    names = {"model.pt"} if app == "TestApp" else {"model.pen", "labels.txt", "image.jpg"}
    for name in names:
        (tmp_path / name).touch()
    elsewhere = {"assets": tmp_path, "benchmark/model.pt": tmp_path / "model.pt"}
    name, text = project_text(EXAMPLES / app, elsewhere)
    assert (name, text) == project_text(EXAMPLES / app, elsewhere), "the same each time"
    assert "all_load" not in text

    project = parser.OpenStepDecoder.ParseFromString(text)
    objects = project["objects"]
    root = objects[project["rootObject"]]
    used = re.findall(r"\b[0-9A-F]{24}\b(?! = )", text)
    assert set(used) == set(objects), "references and objects are the same"
    assert root["isa"] == "PBXProject"
    (target,) = (objects[key] for key in root["targets"])
    assert (target["isa"], target["productType"]) == ("PBXNativeTarget", "com.apple.product-type.application")
    phases = {objects[key]["isa"]: objects[key]["files"] for key in target["buildPhases"]}
    built = {isa: {objects[objects[key]["fileRef"]]["path"] for key in keys} for isa, keys in phases.items()}
    assert {Path(path).name for path in built["PBXSourcesBuildPhase"]} == {path.name for path in sources(app)}
    assert built["PBXFrameworksBuildPhase"] == {"penlight/Penlight.xcframework"}
    resources = {Path(path).name for path in built["PBXResourcesBuildPhase"]}
    assert resources == names | ({"config.json"} if app == "TestApp" else set())
    for key in objects[target["buildConfigurationList"]]["buildConfigurations"]:
        assert objects[key]["buildSettings"]["GENERATE_INFOPLIST_FILE"] == "YES"
        assert objects[key]["buildSettings"]["PRODUCT_NAME"] == app
    made = {"Penlight.xcframework", f"{app}.app", *names}  # by penlight build, Xcode and make_model.py
    for path in files_of(objects, root["mainGroup"], EXAMPLES / app):
        assert path.name in made or path.is_file(), path


def files_of(objects: dict[str, Any], group: str, folder: Path) -> Iterator[Path]:
    for key in objects[group]["children"]:
        each = objects[key]
        if each["isa"] == "PBXGroup":
            yield from files_of(objects, key, folder / each.get("path", ""))
        else:
            yield folder / each["path"]


def test_mistakes_in_descriptions(tmp_path: Path) -> None:
    text = (EXAMPLES / "TestApp/project.yml").read_text()

    def told(changed: str, words: str) -> None:
        (tmp_path / "project.yml").write_text(changed)
        with pytest.raises(ValueError, match=words):
            project_text(tmp_path, {"TestApp": EXAMPLES / "TestApp/TestApp", "benchmark/config.json": Path(__file__)})

    told(text.replace("type: application", "type: framework"), "expected an application for iOS, got framework")
    told(
        text.replace("    platform:", "    scheme: x\n    platform:"),
        "scheme is not among dependencies, deploymentTarget",
    )
    told(text, "Xcode's name for files .py is not in xcode.py")
    told(text.replace("- benchmark/config.json", "- TestApp"), "is there twice")
    told(text.replace("- benchmark/config.json", "- nothing.m"), "nothing.m is not there; make_model.py writes")
    told(
        re.sub("      - (benchmark|../shared).*\n", "", text).replace("embed: false", "embed: true"),
        "not embedded; write `embed: false`",
    )


# --- code ---
@pytest.mark.parametrize("app", APPS)
def test_code_is_checked_as_xcode_compiles_it(app: str, tmp_path: Path) -> None:
    write_xcframework([stand_in("ios-arm64", tmp_path)], tmp_path / "penlight")
    compiled = [path for path in sources(app) if path.suffix != ".swift"]
    assert len(compiled) >= 3
    for source in compiled:
        check(app, source, tmp_path)


def test_swift_parses() -> None:
    """No compiler for it is here."""
    swift = pytest.importorskip(
        "tree_sitter_swift", reason="pip install tree-sitter tree-sitter-swift: they parse Swift"
    )
    import tree_sitter

    parser = tree_sitter.Parser(tree_sitter.Language(swift.language()))
    assert parser.parse(b"let a = = 1").root_node.has_error
    for path in EXAMPLES.rglob("*.swift"):
        assert not parser.parse(path.read_bytes()).root_node.has_error, path


# --- what they do ---
def rgba(image: Image.Image, path: Path) -> Path:
    path.write_bytes(image.convert("RGBA").tobytes())
    return path


def middle(photograph: Path) -> Image.Image:
    """As -[UIImage pixelsOfMiddle:shorterSide:] cuts it."""
    image = Image.open(photograph)
    scale = 256 / min(image.size)
    width, height = round(image.width * scale), round(image.height * scale)
    left, top = (width - 224) // 2, (height - 224) // 2
    return image.resize((width, height), Image.Resampling.BICUBIC).crop((left, top, left + 224, top + 224))


@pytest.mark.slow
@pytest.mark.parametrize(("app", "seen"), [("HelloWorld", "tiger cat"), ("HelloWorld-Metal", "espresso")])
def test_three_likeliest_classes(app: str, seen: str, assets: Assets, tmp_path: Path) -> None:
    folder = assets[app]
    pixels = rgba(middle(folder / "image.jpg"), tmp_path / "pixels")
    program = build(app, "classify", ["TorchModule.mm", "Labels.m", "Pixels.m"], tmp_path)
    called = subprocess.run(
        [program, folder / "model.pen", folder / "labels.txt", pixels], capture_output=True, text=True
    )
    assert called.returncode == 0, called.stderr
    lines = called.stdout.splitlines()
    scores = penlight.load(folder / "model.pen")(
        (np.asarray(middle(folder / "image.jpg"), np.float32).transpose(2, 0, 1)[None] - 127) / 128
    )[0]
    chances = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    labels = (folder / "labels.txt").read_text().splitlines()
    assert lines[:3] == [f"{100 * chances[i]:.1f} %  {labels[i]}" for i in np.argsort(-scores)[:3]]
    assert seen in lines[0]
    assert lines[3:] == ([] if app == "HelloWorld" else ["on the CPU: this version of Penlight has no Metal yet"])
    for model, words in ((folder / "labels.txt", "expected a .pen file"), (tmp_path / "nothing.pen", "nothing.pen")):
        called = subprocess.run([program, model], capture_output=True, text=True)
        assert called.returncode == 1
        assert words in called.stderr


@pytest.mark.slow
def test_metal_answers_in_words(assets: Assets, tmp_path: Path) -> None:
    """The project asks for the CPU in its place, and the app says so; without that, what goes wrong is in the log."""
    folder, pixels = assets["HelloWorld-Metal"], tmp_path / "pixels"
    pixels.write_bytes(bytes(224 * 224 * 4))
    program = build(
        "HelloWorld-Metal",
        "classify",
        ["TorchModule.mm", "Labels.m", "Pixels.m"],
        tmp_path,
        ["-UPENLIGHT_METAL_RUNS_ON_CPU"],
    )
    called = subprocess.run(
        [program, folder / "model.pen", folder / "labels.txt", pixels], capture_output=True, text=True
    )
    assert (called.returncode, called.stdout) == (2, "")
    assert "Metal: this version of Penlight has no Metal backend" in called.stderr


@pytest.mark.slow
def test_overlay_of_21_classes(assets: Assets, tmp_path: Path) -> None:
    folder, size = assets["ImageSegmentation"], 400
    photograph = Image.open(folder / "image.jpg").resize((size, size), Image.Resampling.BILINEAR)
    pixels = rgba(photograph, tmp_path / "pixels")
    program = build("ImageSegmentation", "segment", ["TorchModule.mm", "Segments.m", "Pixels.m"], tmp_path)
    out = tmp_path / "overlay"
    called = subprocess.run([program, folder / "deeplabv3.pen", pixels, str(size), out], capture_output=True, text=True)
    assert called.returncode == 0, called.stderr
    assert "person" in called.stdout
    given = np.asarray(photograph, np.float32) / 255
    given = (given - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    scores = penlight.load(folder / "deeplabv3.pen")(given.transpose(2, 0, 1)[None].copy())["out"][0]
    got = np.frombuffer((tmp_path / "overlay.classes").read_bytes(), np.uint8).reshape(size, size)
    first, second = np.sort(scores, axis=0)[[-1, -2]]
    clear = first - second > 1e-3
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(got[clear], scores.argmax(0)[clear])
    drawn = np.frombuffer(out.read_bytes(), np.uint8).reshape(size, size, 4)[..., :3]
    colours = np.array(
        [[sum((n >> (3 * k + c) & 1) << (7 - k) for k in range(3)) for c in range(3)] for n in range(21)]
    )
    plain = np.asarray(photograph)
    expected = np.where(got[..., None] == 0, plain, plain // 2 + colours[got] // 2)
    np.testing.assert_array_equal(drawn, expected)


LINES = r"""Running warmup runs
Main runs
Main run finished\. Milliseconds per iter: (\d+\.\d{3})
Iters per second: : (\d+\.\d{3})
Done\.
"""


def test_benchmark_lines(assets: Assets, tmp_path: Path) -> None:
    """The original's, and its log too; the two numbers say the same."""
    program = build("TestApp", "benchmark", ["Benchmark.mm"], tmp_path)
    config = json.loads((EXAMPLES / "TestApp/benchmark/config.json").read_text())
    assert config == {
        "input_dims": "1,3,224,224",
        "input_type": "float",
        "warmup": 10,
        "iter": 10,
        "print_output": False,
    }

    def run(model: Path = assets["TestApp"] / "model.pt", **changed: object) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "config.json"
        path.write_text(json.dumps({key: value for key, value in {**config, **changed}.items() if value is not None}))
        return subprocess.run([program, path, model], capture_output=True, text=True, timeout=120)

    called = run()
    found = re.fullmatch(LINES, called.stdout)
    assert found, called.stdout + called.stderr
    assert abs(float(found[1]) * float(found[2]) - 1000) < 1
    assert [line.split("] ")[-1] for line in called.stderr.splitlines()] == called.stdout.splitlines()
    printed = run(print_output=True, iter=1, warmup=0).stdout.splitlines()
    numbers = [float(word) for word in re.findall(r"[-\d.e]+", printed[0].partition("]")[0])]
    expected = penlight.load(assets["TestApp"] / "model.pt")(np.ones((1, 3, 224, 224), np.float32))[0]
    np.testing.assert_allclose(numbers, expected, rtol=1e-4, atol=1e-5)
    assert printed[0].endswith("Float of 1000 elements")
    assert "Unsupported input type: half" in run(input_type="half").stdout
    assert "Input dims and type should have the same number of items." in run(input_dims="1,3;2").stdout
    assert "iter of at least 1" in run(iter=0).stdout
    assert "config.json has no warmup" in run(warmup=None).stderr
    assert "model.pt doesn't exist!" in run(model=tmp_path / "model.pt").stderr
