"""A Maven repository in a folder: archives in; a folder out that Gradle and Maven take without a network, each file with its checksums.

    org/pytorch/penlight/maven-metadata.xml                  which versions there are
                         0.1.0/penlight-0.1.0.pom            what it needs
                         0.1.0/penlight-0.1.0.aar

Versions that are there already stay. No clock is written: the same archives give the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from penlight.paths import replace_file, replace_text


@dataclass(frozen=True)
class Published:
    name: str
    archive: bytes | None  # None: a name alone, for what it needs
    needs: tuple[str, ...] = ()  # others of the same group and version


def write_repository(folder: Path, group: str, version: str, published: Iterable[Published]) -> dict[str, Path]:
    """Says by name where each archive (or, without one, its POM) is."""
    placed = {}
    for one in published:
        home = folder / group.replace(".", "/") / one.name
        path = home / version / f"{one.name}-{version}.pom"
        _write(path, _pom(group, version, one).encode())
        placed[one.name] = path
        if one.archive is not None:
            placed[one.name] = path.with_suffix(".aar")
            _write(placed[one.name], one.archive)
        versions = sorted((p.parent.name for p in home.glob("*/*.pom")), key=_in_order)
        _write(home / "maven-metadata.xml", _metadata(group, one.name, versions).encode("utf-8", "replace"))
    return placed


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda out: out.write(data))
    for kind in ("md5", "sha1"):
        replace_text(path.with_name(f"{path.name}.{kind}"), hashlib.new(kind, data, usedforsecurity=False).hexdigest())


def _in_order(version: str) -> list[tuple[int, str]]:
    """0.9 before 0.10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"[.-]", version)]


def _metadata(group: str, name: str, versions: list[str]) -> str:
    versions = [escape(version) for version in versions]  # others' folders may be called anything
    listed = "".join(f"      <version>{version}</version>\n" for version in versions)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<metadata>
  <groupId>{group}</groupId>
  <artifactId>{name}</artifactId>
  <versioning>
    <latest>{versions[-1]}</latest>
    <release>{versions[-1]}</release>
    <versions>
{listed}    </versions>
  </versioning>
</metadata>
"""


def _pom(group: str, version: str, one: Published) -> str:
    needs = "".join(_DEPENDENCY.format(group=group, name=name, version=version) for name in one.needs)
    return _POM.format(
        group=group,
        artifact=one.name,
        version=version,
        packaging="pom" if one.archive is None else "aar",
        needs=f"  <dependencies>\n{needs}  </dependencies>\n" if needs else "",
    )


_DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{name}</artifactId>
      <version>{version}</version>
      <type>aar</type>
      <scope>compile</scope>
    </dependency>
"""
_POM = """\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 http://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <packaging>{packaging}</packaging>
  <name>Penlight</name>
  <description>A pocket-size torch: runs PyTorch models on a phone</description>
  <licenses>
    <license>
      <name>BSD-3-Clause</name>
      <url>https://opensource.org/licenses/BSD-3-Clause</url>
    </license>
  </licenses>
{needs}</project>
"""
