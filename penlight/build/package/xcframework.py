"""An XCFramework for iOS: built archives in, Penlight.xcframework out, which Xcode and Swift packages take as it is.

    Penlight.xcframework/Info.plist                                         what is for whom
                         ios-arm64/Penlight.framework/                      devices
                         ios-arm64_x86_64-simulator/Penlight.framework/     simulators, both processors in one file

Each is a static framework, since Xcode reads a privacy manifest and the oldest iOS from frameworks and not from bare archives. Beside it:
what makes a Swift package and a pod of it (apple.py).
"""

from __future__ import annotations

import plistlib
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import penlight
from penlight.build.library import Library
from penlight.build.package import HEADER
from penlight.build.package.apple import check_place, write_package
from penlight.build.targets import IOS_VERSION, Target
from penlight.errors import BuildError
from penlight.paths import replaced_folder

NAME = "Penlight"
PROCESSORS = {"arm64": (0x0100000C, 0), "x86_64": (0x01000007, 3)}  # as Mach-O numbers them: kind, and all of that kind
_FAT, _HEAD, _PART = 0xCAFEBABE, ">II", ">iiIII"
_ALIGNMENT = 14  # a power of two that suits every processor
# What Apple wants to know of a library. It measures nothing, sends nothing, and calls nothing that needs a reason.
PRIVACY: dict[str, object] = {
    "NSPrivacyTracking": False,
    "NSPrivacyTrackingDomains": [],
    "NSPrivacyCollectedDataTypes": [],
    "NSPrivacyAccessedAPITypes": [],
}


def write_xcframework(libraries: Sequence[Library], out: Path) -> Path:
    """Writes `out`/Penlight.xcframework anew, for devices, simulators or both, as the libraries are."""
    variants: dict[str, dict[str, bytes]] = {}
    for library in libraries:
        if library.target.system == "ios":
            variants.setdefault(_variant(library.target), {})[_processor(library.target)] = library.path.read_bytes()
    if not variants:
        built = ", ".join(library.target.name for library in libraries)
        raise BuildError(f"an XCFramework needs a library for iOS: add --target ios; got {built or 'nothing'}")
    check_place(out)
    path = out / f"{NAME}.xcframework"
    with replaced_folder(path) as folder:
        listed = []
        for variant, archives in sorted(variants.items()):
            processors = sorted(archives)
            named = "-".join(["ios", "_".join(processors), *([variant] if variant else [])])
            _write_framework(folder / named / f"{NAME}.framework", archives, variant)
            about = {"LibraryIdentifier": named, "LibraryPath": f"{NAME}.framework", "BinaryPath": f"{NAME}.framework/{NAME}",
                     "SupportedArchitectures": processors, "SupportedPlatform": "ios"}  # fmt: skip
            listed.append({**about, **({"SupportedPlatformVariant": variant} if variant else {})})
        _write_plist(
            folder / "Info.plist",
            {"AvailableLibraries": listed, "CFBundlePackageType": "XFWK", "XCFrameworkFormatVersion": "1.0"},
        )
    write_package(libraries[0].selection, out)
    return path


def _variant(target: Target) -> str:
    return "simulator" if target.triple.endswith("-simulator") else ""


def _processor(target: Target) -> str:
    return target.triple.partition("-")[0]


def _write_framework(folder: Path, archives: Mapping[str, bytes], variant: str) -> None:
    headers, modules = folder / "Headers", folder / "Modules"
    headers.mkdir(parents=True)
    modules.mkdir()
    shutil.copy(HEADER, headers)
    (modules / "module.modulemap").write_text(
        f'framework module {NAME} {{\n    umbrella header "{HEADER.name}"\n    export *\n}}\n'
    )
    (folder / NAME).write_bytes(fat_file(archives))
    _write_plist(folder / "PrivacyInfo.xcprivacy", PRIVACY)
    about = {
        "CFBundleDevelopmentRegion": "en",
        "CFBundleExecutable": NAME,
        "CFBundleIdentifier": "org.pytorch.penlight",
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleName": NAME,
        "CFBundlePackageType": "FMWK",
        "CFBundleShortVersionString": penlight.__version__,
        "CFBundleSupportedPlatforms": ["iPhoneSimulator" if variant else "iPhoneOS"],
        "CFBundleVersion": penlight.__version__,
        "MinimumOSVersion": IOS_VERSION,
    }
    _write_plist(folder / "Info.plist", about)


def fat_file(parts: Mapping[str, bytes]) -> bytes:
    """One file for several processors, as Apple's lipo makes it; for one alone, what was given."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    made = bytearray(struct.pack(_HEAD, _FAT, len(parts)))
    at = len(made) + len(parts) * struct.calcsize(_PART)
    for processor, data in sorted(parts.items()):
        at += -at % (1 << _ALIGNMENT)
        made += struct.pack(_PART, *PROCESSORS[processor], at, len(data), _ALIGNMENT)
        at += len(data)
    for _, data in sorted(parts.items()):
        made += bytes(-len(made) % (1 << _ALIGNMENT)) + data
    return bytes(made)


def _write_plist(path: Path, values: Mapping[str, object]) -> None:
    path.write_bytes(plistlib.dumps(dict(values)))
