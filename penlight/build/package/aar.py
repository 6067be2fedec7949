"""An Android archive: built libraries in, a folder out that Gradle takes as a Maven repository, with the AAR and its POM.

    maven/org/pytorch/penlight/0.1.0/penlight-0.1.0.aar     jni/<abi>/libpenlight.so   what an app ships
                                                            prefab/                    the same for the linker of C++ code, with headers
                                                            classes.jar                Java classes
                                     penlight-0.1.0.pom

The same libraries give the same bytes. What an app ships lies uncompressed on a 16 KB page, as `zipalign -P 16` leaves it.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import penlight
from penlight.build.library import Library
from penlight.build.package import HEADER
from penlight.build.targets import ANDROID_API
from penlight.errors import BuildError

GROUP, ARTIFACT = "org.pytorch", "penlight"
PAGE = 16384  # what Android maps at a time, at most
OLDEST_NDK = 21  # that prefab knows; nothing here asks for more
_PADDING = 0xD935  # the extra field of a zip entry that Android's own tools pad with
_ENTRY_HEAD = 30  # bytes before the name of a zip entry
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first day a zip knows


def write_aar(libraries: Sequence[Library], out: Path) -> Path:
    """Writes `out`/maven, for as many ABIs as there are libraries for Android, and says where the AAR is in it."""
    chosen = {library.target.abi: library.path for library in libraries if library.target.system == "android"}
    if not chosen:
        built = ", ".join(library.target.name for library in libraries)
        raise BuildError(f"an AAR needs a library for Android: add --target android; got {built or 'nothing'}")
    version = penlight.__version__
    folder = out / "maven" / GROUP.replace(".", "/") / ARTIFACT / version
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{ARTIFACT}-{version}.aar"
    path.write_bytes(packed(_contents(chosen, version)))
    path.with_suffix(".pom").write_text(_POM.format(group=GROUP, artifact=ARTIFACT, version=version))
    return path


def _contents(libraries: Mapping[str, Path], version: str) -> dict[str, bytes]:
    files = {
        "AndroidManifest.xml": _MANIFEST.format(package=f"{GROUP}.{ARTIFACT}", api=ANDROID_API),
        "META-INF/com/android/build/gradle/aar-metadata.properties": _METADATA,
        "R.txt": "",
        "proguard.txt": _PROGUARD,
        "prefab/prefab.json": _json(name=ARTIFACT, schema_version=1, dependencies=[], version=version),
        f"prefab/modules/{ARTIFACT}/module.json": _json(export_libraries=[], library_name=None, android={}),
    }
    contents = {name: text.encode() for name, text in files.items()}
    contents["classes.jar"] = classes_jar()
    contents[f"prefab/modules/{ARTIFACT}/include/{HEADER.name}"] = HEADER.read_bytes()
    for abi, path in libraries.items():
        for_linkers = f"prefab/modules/{ARTIFACT}/libs/android.{abi}"
        about = _json(abi=abi, api=ANDROID_API, ndk=OLDEST_NDK, stl="none")  # no C++ library in it: goes with every one
        contents[f"{for_linkers}/abi.json"] = about.encode()
        contents[f"{for_linkers}/{path.name}"] = contents[f"jni/{abi}/{path.name}"] = path.read_bytes()
    return contents


def classes_jar() -> bytes:
    """The Java classes: none yet, apps call the library through C or C++. Android's build tools want the file all the same."""
    return packed({"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n"})


def packed(contents: Mapping[str, bytes]) -> bytes:
    """A zip, by name, dated the same always."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # as on Linux, wherever this runs
            entry.compress_type = zipfile.ZIP_DEFLATED
            if name.startswith("jni/"):
                entry.compress_type = zipfile.ZIP_STORED
                entry.extra = _padding(made.tell() + _ENTRY_HEAD + len(name.encode()))
            archive.writestr(entry, data)
            entry.extra = b""  # it counts before the data; the directory at the end need not repeat it
    return made.getvalue()


def _padding(at: int) -> bytes:
    """An extra field at `at` after which a page begins."""
    head = struct.calcsize("<HHH")
    zeros = -(at + head) % PAGE
    return struct.pack("<HHH", _PADDING, 2 + zeros, PAGE) + bytes(zeros)


def _json(**fields: object) -> str:
    return json.dumps(fields, indent=2) + "\n"


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
# Native methods are found by their names.
-keepclasseswithmembernames,includedescriptorclasses class org.pytorch.** { native <methods>; }
"""
_POM = """\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 http://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <packaging>aar</packaging>
  <name>Penlight</name>
  <description>A pocket-size torch: runs PyTorch models on a phone</description>
  <licenses>
    <license>
      <name>BSD-3-Clause</name>
      <url>https://opensource.org/licenses/BSD-3-Clause</url>
    </license>
  </licenses>
</project>
"""
