"""`penlight build` as users call it: what comes out, and what it says when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

import penlight
from penlight.build.model_selection import selection_of_models
from penlight.build.package import cpp_headers
from penlight.tools.build import as_pen_files, select
from tests.tools.call import Penlight


@pytest.fixture
def penlight_command(capsys: pytest.CaptureFixture[str]) -> Penlight:
    return Penlight(capsys)


def test_a_library_and_its_report(
    penlight_command: Penlight,
    models: dict[str, Path],
    cache: Path,
    tmp_path: Path,
) -> None:
    options = ("--target", "android-arm64", "--cache", cache, "-o", tmp_path, "--jobs", 2)
    called = penlight_command("build", "--model", models["planned"], *options)
    assert called.code == 0, called.err
    assert (tmp_path / "android-arm64/libpenlight.so").stat().st_size > 30_000
    assert len(list(tmp_path.glob("android-arm64/libpenlight.so.*.sym"))) == 1
    include = tmp_path / "include"
    assert {str(p.relative_to(include)) for p in include.rglob("*.h*") if p.is_file()} == set(cpp_headers())
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert "runtime/file/load" in called.out
    assert "2 runs right" in called.out or "not run here" in called.out
    assert "SHA-256" in called.err or "not run here" in called.err
    quiet = penlight_command("build", "--model", models["planned"], *options, "--no-verify")
    assert quiet.code == 0
    assert "nothing to compile" in quiet.err
    assert "runs right" not in quiet.out


def test_what_it_needs_to_know(penlight_command: Penlight, tmp_path: Path) -> None:
    nothing = penlight_command("build", "--target", "android")
    assert (nothing.code, "Give --model FILE, --ops FILE or --all" in nothing.err) == (2, True)
    unknown = penlight_command("build", "--all", "--target", "windows")
    assert (unknown.code, "got 'windows'" in unknown.err) == (1, True)
    device = penlight_command("build", "--all", "--backends", "cpu,metal")
    assert (device.code, "got 'metal'" in device.err) == (2, True)
    (tmp_path / "m.pen").write_bytes(b"no model")
    damaged = penlight_command("build", "--model", tmp_path / "m.pen")
    assert damaged.code == 1
    assert "m.pen" in damaged.err


@pytest.mark.slow
def test_a_model_of_another_kind_is_compiled_first(penlight_command: Penlight, cache: Path, tmp_path: Path) -> None:
    """And tried with random inputs, since it carries none."""
    torch = pytest.importorskip("torch")
    torch.jit.trace(torch.nn.Linear(40, 7).eval(), torch.ones(2, 40)).save(tmp_path / "linear.pt")
    options = ("--target", "android-arm64", "--cache", cache, "-o", tmp_path)
    called = penlight_command("build", "--model", tmp_path / "linear.pt", *options)
    assert called.code == 0, called.err
    assert "linear.pen: " in called.err


def test_models_of_one_name(tmp_path: Path) -> None:
    """The library is for both of them, and both are tried."""
    torch = pytest.importorskip("torch")
    given = []
    for folder, module in (("a", torch.nn.Linear(3, 2)), ("b", torch.nn.Hardswish())):
        (tmp_path / folder).mkdir()
        torch.jit.trace(module, torch.ones(1, 3)).save(tmp_path / folder / "m.pt")
        given.append(tmp_path / folder / "m.pt")
    (tmp_path / "made").mkdir()
    made = as_pen_files(given, tmp_path / "made")
    assert [path.name for path in made] == ["m.pen", "m.pen"]
    assert [path.read_bytes() for path in made] == [penlight.optimize(path).to_bytes() for path in given]


def test_what_a_trace_wrote_is_enough(
    penlight_command: Penlight, models: dict[str, Path], cache: Path, tmp_path: Path
) -> None:
    """A library built from the YAML of a trace runs the model that was traced."""
    traced = penlight_command("trace", models["planned"], "-o", tmp_path / "ops.yaml")
    assert traced.code == 0, traced.err
    selection = select([], [tmp_path / "ops.yaml"], False, [], [])
    assert selection.keys == selection_of_models([models["planned"]]).keys
    assert not selection.vm
    options = ("--target", "android-arm64", "--cache", cache, "-o", tmp_path)
    called = penlight_command("build", "--ops", tmp_path / "ops.yaml", "--model", models["planned"], *options)
    assert called.code == 0, called.err
    assert "2 runs right" in called.err or "not run here" in called.err


@pytest.mark.slow
def test_a_list_is_all_that_the_library_holds(
    penlight_command: Penlight, models: dict[str, Path], cache: Path, tmp_path: Path
) -> None:
    """Of the kernels that an interpreted model might use, those that it did, and it runs; another model is told what is missing, and the
    commands that it is given build a library for both."""
    lists = {name: tmp_path / f"{name}.yaml" for name in ("interpreted", "planned")}
    interpreted = lists["interpreted"]
    assert penlight_command("trace", models["interpreted"], "-o", interpreted).code == 0
    given = [models["interpreted"]]
    held, all_of_it = select(given, [interpreted], False, given, []).keys, selection_of_models(given).keys
    assert held < all_of_it
    options = ("--target", "android-arm64", "--cache", cache, "-o", tmp_path, "--jobs", 2)
    called = penlight_command("build", "--ops", interpreted, "--model", given[0], *options)
    assert called.code == 0, called.err
    assert "2 runs right" in called.err or "not run here" in called.err

    refused = penlight_command(
        "build", "--ops", interpreted, "--model", given[0], "--model", models["planned"], *options
    )
    said = " ".join(refused.err.split())
    assert (refused.code, f"{models['planned']} needs 4 more than {interpreted} has" in said) == (1, True), said
    assert "linear.f32" in said
    trace, build = said.partition("has both: ")[2].split(" && ")
    assert trace == f"penlight trace {models['planned']} -o planned-more.yaml"
    assert (
        build
        == f"penlight build --ops {interpreted} --ops planned-more.yaml --model {given[0]} --model {models['planned']} --target android-arm64"
    )
    assert penlight_command("trace", models["planned"], "-o", lists["planned"]).code == 0
    given.append(models["planned"])
    both = select(given, list(lists.values()), False, given, [])
    assert both.keys == held | selection_of_models([models["planned"]]).keys
