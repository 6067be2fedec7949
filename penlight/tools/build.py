"""`penlight build`: libraries with just what some models need, for phones and other targets, each tried at once with the models."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import penlight
from penlight.build.cache import LIMIT
from penlight.build.class_files import native_functions
from penlight.build.java import java_classes
from penlight.build.library import Library, build_jni, build_library
from penlight.build.package import copy_headers, cpp_headers
from penlight.build.package.aar import write_archives
from penlight.build.package.apple import check_place
from penlight.build.package.xcframework import write_xcframework
from penlight.build.package.zip_file import jar
from penlight.build.report import Sizes, sizes_of
from penlight.build.report_page import page
from penlight.build.selection import BACKENDS, EVERYTHING, Selection
from penlight.build.targets import GROUPS, TARGETS, Target, targets
from penlight.build.verify import Verified, verify
from penlight.errors import BuildError
from penlight.file.reader import read
from penlight.file_kinds import file_kind
from penlight.paths import replace_file, replace_text
from penlight.tools.screen import error_screen, heading, in_bytes, in_seconds, screen, table

VULKAN_SYSTEMS = ("android", "linux", "host")

_BAR = 30  # characters
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("build")
@click.option(
    "--model",
    "models",
    type=_FILE,
    multiple=True,
    help="A .pen file (or a .pt, .ptl, .pt2) that the library must run, and is tried with; repeatable.",
)
@click.option(
    "--ops",
    type=_FILE,
    multiple=True,
    help="YAML with all that the library should hold, as `penlight trace` or PyTorch's model_tracer writes it; repeatable."
    " Models are then only tried.",
)
@click.option("--all", "everything", is_flag=True, help="Everything there is, whatever models come.")
@click.option("--target", "names", multiple=True, default=("host",), show_default=True, metavar="T",
              help=f"What to build for; repeatable. {', '.join([*GROUPS, *TARGETS])}.")  # fmt: skip
@click.option("--backends", default="cpu", show_default=True, help="Where models run: cpu, or cpu,vulkan.")
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("dist"),
    show_default=True,
    help="Folder for the libraries.",
)
@click.option(
    "--aar",
    is_flag=True,
    help="Also Android archives with Java classes, in OUT/maven, which Gradle takes as a repository.",
)
@click.option(
    "--maven",
    type=click.Path(file_okay=False, path_type=Path),
    help="The same, in this Maven repository, which may hold others.",
)
@click.option(
    "--java",
    is_flag=True,
    help="Also what a desktop's Java takes: penlight.jar, and a library for it beside each other one.",
)
@click.option("--no-verify", is_flag=True, help="Do not run the models with what was built.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder for compiled files, kept below PENLIGHT_CACHE_LIMIT ({LIMIT}). [default: PENLIGHT_CACHE, or penlight among the user's caches]",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=os.cpu_count() or 2, show_default=True, help="Compilers at a time."
)
def build_command(
    models: tuple[Path, ...], ops: tuple[Path, ...], everything: bool, names: tuple[str, ...], backends: str, out: Path, aar: bool,
    maven: Path | None, java: bool, no_verify: bool, cache: Path | None, jobs: int,
) -> None:  # fmt: skip
    """Builds a library that holds just what some models need.

    \b
    penlight build --model mobilenet_v2.pen --target android -o dist/   four .so files for Android, by ABI
    penlight build --model m.pen --target android --aar                 Android archives of them, with Java classes
    penlight build --ops ops.yaml --target ios                          an XCFramework for iOS, with what was traced
    penlight build --ops ops.yaml --model m.pen                         what was traced alone, tried with the model
    penlight build --all --target host                                  everything, for this machine

    Each library is checked, and run with the models on the inputs bundled with them, under an emulator where it is for another
    processor. Beside it lies its symbol file, for crash reports; report.html shows where the bytes went.
    """
    if not (models or ops or everything):
        raise click.UsageError("what should the library hold? Give --model FILE, --ops FILE or --all")
    chosen = targets(names)
    devices = parse_backends(backends, chosen)
    repository = maven or (out / "maven" if aar else None)
    if repository and not any(t.system == "android" for t in chosen):
        raise click.UsageError("--aar is made of libraries for Android: add --target android, or one of its ABIs")
    if java and (without := [t.name for t in chosen if not t.elf]):
        raise click.UsageError(f"--java is there for Android and Linux, not for {', '.join(without)}")
    if any(t.system == "ios" for t in chosen):
        check_place(out)
    classes = java_classes() if java or repository else {}  # before minutes of compiling, should there be no javac
    with ExitStack() as stack:
        files = as_pen_files(models, Path(stack.enter_context(TemporaryDirectory())))
        selection = replace(select(files, ops, everything, models, names), backends=devices)
        built = [build_one(t, selection, [] if no_verify else files, out, cache, jobs) for t in chosen]
    copy_headers(cpp_headers(), out / "include")
    report = out / "report.html"
    replace_text(report, page(", ".join(f.name for f in files) or "Penlight", built))
    show(built)
    libraries = [sizes.library for sizes, _ in built]
    if classes:
        wanted = [library for library in libraries if java or library.target.system == "android"]
        loaded = build_for_java(wanted, classes, cache, jobs)
        if java:
            replace_file(out / "penlight.jar", lambda made: made.write(jar(classes)))
            screen().print(f"\nclasses: {out / 'penlight.jar'}", soft_wrap=True)
        if repository:
            screen().print(f"\nAAR: {write_archives(libraries, loaded, classes, repository)}", soft_wrap=True)
    if any(t.system == "ios" for t in chosen):
        screen().print(f"\nXCFramework: {write_xcframework(libraries, out)}", soft_wrap=True)
    error_screen().print(f"report: {report}", style="dim")


def parse_backends(text: str, chosen: Sequence[Target]) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in BACKENDS]:
        raise click.BadParameter(f"expected some of {', '.join(BACKENDS)}, got {unknown[0]!r}", param_hint="--backends")
    without = [t.name for t in chosen if t.system not in VULKAN_SYSTEMS]
    if "vulkan" in names and without:
        raise click.BadParameter(
            f"vulkan is there for {' and '.join(VULKAN_SYSTEMS)}, not for {', '.join(without)}", param_hint="--backends"
        )
    return tuple(name for name in BACKENDS if name in ("cpu", *names))


def as_pen_files(models: Sequence[Path], folder: Path) -> list[Path]:
    """The models as .pen files: those that are none yet are compiled, as penlight.optimize does, each into a folder of its own: models of
    several folders may have one name."""
    files = []
    for i, model in enumerate(models):
        if file_kind(model) != "pen":
            made = folder / str(i) / f"{model.stem}.pen"
            made.parent.mkdir()
            penlight.optimize(model).save(made)
            model = made
        files.append(model)
    return files


def select(
    files: Sequence[Path], ops: Sequence[Path], everything: bool, models: Sequence[Path], names: Sequence[str]
) -> Selection:
    """What the lists hold together; without lists, what the files need together (`models`, as they were given; `names` of targets: for errors)."""
    if everything:
        return EVERYTHING
    from penlight.build.model_selection import lacking, selection_of_models

    if not ops:
        return selection_of_models(files)
    from penlight.build.yaml_file import selection_of_yaml

    selection = reduce(or_, map(selection_of_yaml, ops))
    for file, model in zip(files, models, strict=True):
        pen = read(file)
        if missing := lacking(pen, selection):
            static = [] if pen.bundles else ["--static"]
            more = f"{model.stem}-more.yaml"
            trace = ["penlight", "trace", *static, str(model), "-o", more]
            build = [
                "penlight",
                "build",
                *_each("--ops", [*ops, more]),
                *_each("--model", models),
                *_each("--target", names),
            ]
            raise BuildError(
                f"{model} needs {len(missing)} more than {' and '.join(map(str, ops))} {'has' if len(ops) == 1 else 'have'}, and would not load:"
                f" {', '.join(missing)}. For a library that has both: {shlex.join(trace)} && {shlex.join(build)}"
            )
    return selection


def _each(option: str, values: Sequence[object]) -> list[str]:
    return [word for value in values for word in (option, str(value))]


def build_one(
    target: Target, selection: Selection, files: Sequence[Path], out: Path, cache: Path | None, jobs: int
) -> tuple[Sizes, list[Verified]]:
    """Builds for a target and tries every model, with progress on stderr."""
    shown = error_screen()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[file]}"),
    )
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task(target.name, total=None, file="")

        def step(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, file=Path(what).name)

        library = build_library(target, selection, out, cache=cache, jobs=jobs, progress=step)
    compiled = f"{library.compiled} files compiled" if library.compiled else "nothing to compile"
    shown.print(
        f"  {target.name}: {in_bytes(library.path.stat().st_size)}, {compiled}, {in_seconds(library.seconds)}",
        style="dim",
    )
    tried = [verify(library, file, cache) for file in files]
    for result in tried:
        shown.print(f"    {result.model}: {result.text}", style="dim")
    if any(result.calls for result in tried):
        shown.print(f"    with {library.path}, SHA-256 {library.sha256}", style="dim")
    return sizes_of(library), tried


def build_for_java(
    libraries: Sequence[Library], classes: Mapping[str, bytes], cache: Path | None, jobs: int
) -> list[Library]:
    """What Java loads, for each of them, checked for every native method that the classes declare."""
    natives = native_functions(classes)
    loaded = [build_jni(library, natives, cache=cache, jobs=jobs) for library in libraries]
    for made in loaded:
        size = in_bytes(made.path.stat().st_size)
        error_screen().print(
            f"  {made.target.name}, for Java: {size}, {made.path.name}, {len(natives)} native methods", style="dim"
        )
    return loaded


def show(built: Sequence[tuple[Sizes, Sequence[Verified]]]) -> None:
    """Sizes by target, and of the first one where they come from."""
    out = screen()
    columns = table("", "target", "bytes", "file", "tried", right=("bytes",))
    for sizes, tried in built:
        library = sizes.library
        calls = sum(t.calls for t in tried)
        ran = f"{calls} run{'' if calls == 1 else 's'} right" if calls else tried[0].how if tried else "no"
        columns.add_row(library.target.name, f"{sizes.total:,}", str(library.path), ran)
    out.print(columns)
    for sizes, _ in built[:1]:
        if sizes.parts:
            out.print()
            out.print(heading(f"Where the bytes of {sizes.library.target.name} go"))
            _show_parts(sizes)


def _show_parts(sizes: Sizes) -> None:
    out, largest = screen(), max(sizes.parts.values())
    sections = sorted(sizes.sections.items(), key=lambda s: -s[1])[:5]
    out.print("sections: " + ", ".join(f"{name} {in_bytes(size)}" for name, size in sections), style="dim")
    parts = table("", "part", "bytes", "", right=("bytes",))
    for name, size in list(sizes.parts.items())[:15]:
        parts.add_row(name, f"{size:,}", "█" * max(round(_BAR * size / largest), 1))
    out.print(parts)
