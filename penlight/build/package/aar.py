"""Android archives: built libraries and Java classes in, a Maven repository out, which Gradle takes as it is (maven.py).

    penlight                            everything
    pytorch_android_lite                what PyTorch Mobile's documents name: org.pytorch, the libraries,
    pytorch_android_torchvision_lite    and org.pytorch.torchvision, which needs the one above
    pytorch_android, pytorch_android_torchvision    older names of the same: they need those, and hold nothing

In an archive: jni/<abi>/ what an app ships; prefab/ the same for the linker of C++ code, with headers; classes.jar; proguard.txt.
The same libraries and classes give the same bytes. What an app ships lies uncompressed on a 16 KB page, as `zipalign -P 16` leaves it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import penlight
from penlight.build.library import Library
from penlight.build.package import cpp_headers, torch_headers
from penlight.build.package.maven import Published, write_repository
from penlight.build.package.zip_file import jar, packed
from penlight.build.targets import ANDROID_API
from penlight.errors import BuildError

GROUP, ARTIFACT = "org.pytorch", "penlight"
OLDEST_NDK = 21  # that prefab knows; nothing here asks for more
_VISION = "org/pytorch/torchvision/"


@dataclass(frozen=True)
class Archive:
    package: str  # no two of an app may have the same
    core: bool  # org.pytorch and org.penlight with their libraries
    vision: bool  # org.pytorch.torchvision


ARCHIVES = {
    ARTIFACT: Archive("org.pytorch.penlight", core=True, vision=True),
    "pytorch_android_lite": Archive("org.pytorch", core=True, vision=False),
    "pytorch_android_torchvision_lite": Archive("org.pytorch.torchvision", core=False, vision=True),
}
NEEDS = {  # by name, what else Gradle then takes
    "pytorch_android_torchvision_lite": "pytorch_android_lite",
    "pytorch_android": "pytorch_android_lite",
    "pytorch_android_torchvision": "pytorch_android_torchvision_lite",
}


def write_archives(
    libraries: Sequence[Library], jni: Sequence[Library], classes: Mapping[str, bytes], repository: Path
) -> Path:
    """Writes all of them, for as many ABIs as there are libraries for Android; says where the one with everything is. `jni`: what Java
    loads, for the same ABIs; `classes`: class files by their names in a jar."""
    chosen = {library.target.abi: [library.path] for library in libraries if library.target.system == "android"}
    if not chosen:
        built = ", ".join(library.target.name for library in libraries)
        raise BuildError(f"an AAR needs a library for Android: add --target android; got {built or 'nothing'}")
    for library in jni:
        if library.target.abi in chosen:
            chosen[library.target.abi].append(library.path)
    if alone := [abi for abi, paths in chosen.items() if len(paths) != 2]:
        raise BuildError(f"an AAR needs a library for Java beside each other one; got none for {', '.join(alone)}")
    made = {name: packed(_contents(archive, chosen, classes)) for name, archive in ARCHIVES.items()}
    names = [*ARCHIVES, *(name for name in NEEDS if name not in ARCHIVES)]
    published = [Published(name, made.get(name), (NEEDS[name],) if name in NEEDS else ()) for name in names]
    return write_repository(repository, GROUP, penlight.__version__, published)[ARTIFACT]


def _contents(
    archive: Archive, libraries: Mapping[str, Sequence[Path]], classes: Mapping[str, bytes]
) -> dict[str, bytes]:
    files = {
        "AndroidManifest.xml": _MANIFEST.format(package=archive.package, api=ANDROID_API),
        "META-INF/com/android/build/gradle/aar-metadata.properties": _METADATA,
        "R.txt": "",
        "proguard.txt": _PROGUARD,
    }
    contents = {name: text.encode() for name, text in files.items()}
    held = {n: c for n, c in classes.items() if (archive.vision if n.startswith(_VISION) else archive.core)}
    contents["classes.jar"] = jar(held)
    if archive.core:
        contents |= {f"jni/{abi}/{p.name}": p.read_bytes() for abi, paths in libraries.items() for p in paths}
        contents |= _prefab({abi: paths[0] for abi, paths in libraries.items()})
    return contents


def _prefab(libraries: Mapping[str, Path]) -> dict[str, bytes]:
    """What C++ code of an app is compiled and linked with."""
    module, torch = f"prefab/modules/{ARTIFACT}", "prefab/modules/torch"  # which has headers only
    files = {
        "prefab/prefab.json": _json(name=ARTIFACT, schema_version=1, dependencies=[], version=penlight.__version__),
        f"{module}/module.json": _json(export_libraries=[], library_name=None, android={}),
        f"{torch}/module.json": _json(export_libraries=[f":{ARTIFACT}"], library_name=None, android={}),
    }
    for folder, headers in ((module, cpp_headers()), (torch, torch_headers())):
        files |= {f"{folder}/include/{name}": path.read_bytes() for name, path in headers.items()}
    for abi, path in libraries.items():
        place = f"{module}/libs/android.{abi}"
        # no C++ library in it: goes with every one
        files[f"{place}/abi.json"] = _json(abi=abi, api=ANDROID_API, ndk=OLDEST_NDK, stl="none")
        files[f"{place}/{path.name}"] = path.read_bytes()
    return files


def _json(**fields: object) -> bytes:
    return (json.dumps(fields, indent=2) + "\n").encode()


_MANIFEST = """\
<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="{package}">
    <uses-sdk android:minSdkVersion="{api}" />
</manifest>
"""
_METADATA = """\
aarFormatVersion=1.0
aarMetadataVersion=1.0
minCompileSdk=1
minCompileSdkExtension=0
minAndroidGradlePluginVersion=1.0.0
coreLibraryDesugaringEnabled=false
"""
_PROGUARD = """\
# The library for Java finds native methods by their names, and throws this exception.
-keepclasseswithmembernames,includedescriptorclasses class org.pytorch.**, org.penlight.** { native <methods>; }
-keep class org.penlight.PenlightException { <init>(int, byte[]); }
"""
