"""Xcode projects from descriptions: <app>/project.yml in, <app>/<app>.xcodeproj/project.pbxproj out.

A description has the form that XcodeGen (github.com/yonaskolb/XcodeGen) reads; of its keys there are here those that the apps need, and
another one is an error. The same description and files give the same bytes. make_model.py of each app calls this after it wrote
the model; `python xcode.py HelloWorld` does it alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
KINDS = {  # ending -> Xcode's name for it, and the phase of the build that takes it, as XcodeGen chooses
    ".swift": ("sourcecode.swift", "Sources"),
    ".m": ("sourcecode.c.objc", "Sources"),
    ".mm": ("sourcecode.cpp.objcpp", "Sources"),
    ".h": ("sourcecode.c.h", None),
    ".json": ("text.json", "Resources"),
    ".txt": ("text", "Resources"),
    ".jpg": ("image.jpeg", "Resources"),
    ".pen": ("file", "Resources"),
    ".pt": ("file", "Resources"),
    ".xcframework": ("wrapper.xcframework", "Frameworks"),
}
PHASES = ("Sources", "Frameworks", "Resources")
CONFIGURATIONS: dict[str, dict[str, str]] = {
    "Debug": {"DEBUG_INFORMATION_FORMAT": "dwarf", "GCC_OPTIMIZATION_LEVEL": "0", "ONLY_ACTIVE_ARCH": "YES",
              "SWIFT_OPTIMIZATION_LEVEL": "-Onone"},
    "Release": {"DEBUG_INFORMATION_FORMAT": "dwarf-with-dsym", "GCC_OPTIMIZATION_LEVEL": "s", "SWIFT_COMPILATION_MODE": "wholemodule",
                "SWIFT_OPTIMIZATION_LEVEL": "-O", "VALIDATE_PRODUCT": "YES"},
}  # fmt: skip


def write_project(app: Path) -> Path:
    """Writes the app's project anew."""
    name, text = project_text(app)
    path = app / f"{name}.xcodeproj/project.pbxproj"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def project_text(app: Path, elsewhere: Mapping[str, Path] | None = None) -> tuple[str, str]:
    """Name and text of it. Sources may lie elsewhere than beside the description, which names them."""
    name, target = read_description(app / "project.yml")
    project = Project(app, name)
    project.add_target(name, target, elsewhere or {})
    return name, project.text()


def read_description(path: Path) -> tuple[str, dict[str, Any]]:
    """The name, and the one target."""
    given = yaml.safe_load(path.read_text("utf-8"))
    _keys(given, {"name", "targets"}, path.name)
    (target,) = given["targets"].values()
    _keys(target, {"type", "platform", "deploymentTarget", "sources", "settings", "dependencies"}, "targets")
    if (target["type"], target["platform"]) != ("application", "iOS"):
        raise ValueError(f"{path}: expected an application for iOS, got {target['type']} for {target['platform']}")
    return given["name"], target


class Project:
    """Objects by id, which refer to each other by it; an id is made of what it is for, so that it stays the same."""

    def __init__(self, app: Path, name: str) -> None:
        self.app, self.name = app, name
        self.objects: dict[str, dict[str, Any]] = {}

    def add(self, isa: str, what: str, **values: Any) -> str:
        key = hashlib.sha256(f"{self.name}/{isa}/{what}".encode()).hexdigest()[:24].upper()
        if key in self.objects:
            raise ValueError(f"{self.name}: {what} is there twice")
        self.objects[key] = {"isa": isa, **values}
        return key

    def add_target(self, name: str, target: Mapping[str, Any], elsewhere: Mapping[str, Path]) -> None:
        phases: dict[str, list[str]] = {phase: [] for phase in PHASES}
        listed: list[str] = []
        for source in target["sources"]:
            listed += self.add_files(elsewhere.get(source, self.app / source), Path(source), phases, alone=True)
        frameworks = [self.add_framework(each, phases["Frameworks"]) for each in target.get("dependencies", [])]
        product = self.add(
            "PBXFileReference", "product", explicitFileType="wrapper.application", includeInIndex=0, path=f"{name}.app",
            sourceTree="BUILT_PRODUCTS_DIR",
        )  # fmt: skip
        products = self.add("PBXGroup", "Products", children=[product], name="Products", sourceTree="<group>")
        linked = self.add("PBXGroup", "Frameworks", children=frameworks, name="Frameworks", sourceTree="<group>")
        main = self.add("PBXGroup", "main", children=[*listed, linked, products], sourceTree="<group>")
        made = [
            self.add(f"PBX{phase}BuildPhase", name, buildActionMask=2147483647, files=phases[phase],
                     runOnlyForDeploymentPostprocessing=0)
            for phase in PHASES
        ]  # fmt: skip
        _keys(target["settings"], {"base"}, "settings")
        application = self.add(
            "PBXNativeTarget", name, buildConfigurationList=self.add_configurations("target", target["settings"]["base"]),
            buildPhases=made, buildRules=[], dependencies=[], name=name, productName=name, productReference=product,
            productType="com.apple.product-type.application",
        )  # fmt: skip
        everywhere = {
            "ALWAYS_SEARCH_USER_PATHS": "NO", "CLANG_CXX_LANGUAGE_STANDARD": "c++17", "CLANG_ENABLE_OBJC_ARC": "YES",
            "GCC_C_LANGUAGE_STANDARD": "gnu11", "SDKROOT": "iphoneos", "IPHONEOS_DEPLOYMENT_TARGET": str(target["deploymentTarget"]),
        }  # fmt: skip
        self.root = self.add(
            "PBXProject", name, attributes={"BuildIndependentTargetsInParallel": "YES", "LastUpgradeCheck": "1600"},
            buildConfigurationList=self.add_configurations("project", everywhere, CONFIGURATIONS), compatibilityVersion="Xcode 14.0",
            developmentRegion="en", hasScannedForEncodings=0, knownRegions=["en", "Base"], mainGroup=main,
            productRefGroup=products, projectDirPath="", projectRoot="", targets=[application],
        )  # fmt: skip

    def add_files(self, path: Path, shown: Path, phases: dict[str, list[str]], *, alone: bool = False) -> Iterator[str]:
        """A file, or a folder as a group of what is in it; each file goes to the phase of its kind."""
        if not path.exists():
            raise ValueError(f"{self.name}: {shown} is not there; make_model.py writes the model and assets")
        if path.is_dir():
            inside = [key for each in sorted(path.iterdir()) if not each.name.startswith(".")
                      for key in self.add_files(each, shown / each.name, phases)]  # fmt: skip
            yield self.add(
                "PBXGroup", str(shown), children=inside, path=str(shown) if alone else path.name, sourceTree="<group>"
            )
            return
        kind, phase = self.kind(path)
        key = self.add("PBXFileReference", str(shown), lastKnownFileType=kind, path=str(shown) if alone else path.name,
                       sourceTree="<group>", **({"name": path.name} if alone else {}))  # fmt: skip
        if phase:
            phases[phase].append(self.add("PBXBuildFile", str(shown), fileRef=key))
        yield key

    def add_framework(self, dependency: Mapping[str, Any], phase: list[str]) -> str:
        """Linked and not embedded, since it is static."""
        _keys(dependency, {"framework", "embed"}, "dependencies")
        path = dependency["framework"]
        if dependency.get("embed", True):
            raise ValueError(f"{path}: a static framework is not embedded; write `embed: false`")
        kind, _ = self.kind(Path(path))
        name = Path(path).name
        key = self.add("PBXFileReference", path, lastKnownFileType=kind, name=name, path=path, sourceTree="<group>")
        phase.append(self.add("PBXBuildFile", path, fileRef=key))
        return key

    def add_configurations(
        self, of: str, settings: Mapping[str, Any], more: Mapping[str, Mapping[str, str]] | None = None
    ) -> str:
        made = [
            self.add("XCBuildConfiguration", f"{of}/{name}", name=name,
                     buildSettings={**{k: _setting(v) for k, v in settings.items()}, **(more or {}).get(name, {})})
            for name in CONFIGURATIONS
        ]  # fmt: skip
        return self.add("XCConfigurationList", of, buildConfigurations=made, defaultConfigurationIsVisible=0,
                        defaultConfigurationName="Release")  # fmt: skip

    def kind(self, path: Path) -> tuple[str, str | None]:
        if path.suffix not in KINDS:
            raise ValueError(f"{path}: Xcode's name for files {path.suffix or 'without an ending'} is not in xcode.py")
        return KINDS[path.suffix]

    def text(self) -> str:
        """As Xcode writes it: a property list of OpenStep's form."""
        whole = {
            "archiveVersion": 1,
            "classes": {},
            "objectVersion": 56,
            "objects": self.objects,
            "rootObject": self.root,
        }
        return f"// !$*UTF8*$!\n{_plist(whole)}\n"


def _setting(value: object) -> Any:
    if isinstance(value, bool):  # YAML reads YES so
        return "YES" if value else "NO"
    return [str(each) for each in value] if isinstance(value, list) else str(value)


def _plist(value: object, indent: str = "") -> str:
    deeper = indent + "\t"
    if isinstance(value, dict):
        lines = [
            f"{deeper}{_word(k)} = {_plist(v, deeper)};\n"
            for k, v in sorted(value.items(), key=lambda e: (e[0] != "isa", e[0]))
        ]
        return "{\n" + "".join(lines) + indent + "}"
    if isinstance(value, list):
        return "(\n" + "".join(f"{deeper}{_plist(each, deeper)},\n" for each in value) + indent + ")"
    return _word(str(value))


def _word(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_./]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _keys(given: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := set(given) - known:
        raise ValueError(f"{where}: {', '.join(sorted(unknown))} is not among {', '.join(sorted(known))}")


if __name__ == "__main__":
    for each in sys.argv[1:] or sorted(path.parent.name for path in HERE.glob("*/project.yml")):
        print(os.path.relpath(write_project(HERE / each)))
