"""speed_benchmark_torch: every flag of PyTorch Mobile's program, its lines, and the results against torch; errors in words."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import penlight
from penlight.build.benchmark import program_sources
from tests.runtime import native
from tests.runtime.test_symbols import declared

Call = Callable[..., "subprocess.CompletedProcess[str]"]
NUMBER = r"[\d.]+(?:e[+-]\d+)?"
LAST = re.compile(rf"Main run finished\. Microseconds per iter: ({NUMBER})\. Iters per second: ({NUMBER})")
OURS = [
    rf"Load time: {NUMBER} us\. First run: {NUMBER} us\.",
    rf"Microseconds of \d+ runs: min {NUMBER}, p50 {NUMBER}, p90 {NUMBER}, p99 {NUMBER}\.",
    rf"Threads: \d+\. Instruction set: \w+\. Arena: {NUMBER} kB\. Peak memory: {NUMBER} kB\.",
]
CLASSIFIER = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 6)
).eval()  # fmt: skip
IMAGE = ["--input_dims", "1,3,32,32", "--input_type", "float"]


class Several(torch.nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor, bytes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 3 + ids.float(), bytes.to(torch.int64) + ids.sum()


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor, more: dict[str, torch.Tensor]) -> torch.Tensor:
        return x + 10 * more["b"] + 100 * more["a"]


class Nothing(torch.nn.Module):
    def forward(self) -> torch.Tensor:
        return torch.full((2,), 4.5)


class Lengths(torch.nn.Module):
    def forward(self, x: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        return x + length


class Script(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> tuple[torch.Tensor, dict[str, int], str]:
        if bool(x.sum() > 3):
            x = x * 2
        return x if y is None else x + y, {"rank": x.dim()}, "done"

    @torch.jit.export
    def other(self, x: torch.Tensor) -> list[float]:
        return [float(x.sum()), 0.5]


def speed_benchmark(kind: str, with_vm: bool = True) -> Path:
    name = "speed_benchmark_torch" if with_vm else "speed_benchmark_torch_without_vm"
    return native.program(kind, *program_sources(with_vm), flags=["-fno-exceptions", "-fno-rtti"], name=name)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    image, b, a = torch.rand(1, 3, 32, 32), torch.full((2, 3), 3.0), torch.full((2, 3), 7.0)
    bundled = [(torch.rand(1, 3, 32, 32),), (torch.full((1, 3, 32, 32), 0.25),)]
    penlight.optimize(CLASSIFIER, (image,), bundled_inputs={"forward": bundled}).save(folder / "classifier.pen")
    penlight.optimize(CLASSIFIER, (image.repeat(2, 1, 1, 1),), dynamic_shapes="auto").save(folder / "free.pen")
    several = (torch.rand(2, 3), torch.ones(2, 3, dtype=torch.int64), torch.ones(4, dtype=torch.uint8))
    penlight.optimize(Several(), several).save(folder / "several.pen")
    nested = {"forward": [(torch.ones(2, 3), {"a": a, "b": b})]}  # keys in another order than when it is captured
    penlight.optimize(Nested(), (torch.rand(2, 3), {"b": b, "a": a}), bundled_inputs=nested).save(folder / "nested.pen")
    penlight.optimize(Nothing(), ()).save(folder / "nothing.pen")
    penlight.optimize(Lengths(), (torch.rand(4), torch.ones(1, dtype=torch.int64))).save(folder / "lengths.pen")
    script = torch.jit.script(Script())
    penlight.optimize(script, methods=["forward", "other"]).save(folder / "script.pen")
    penlight.optimize(script, bundled_inputs={"forward": [(torch.ones(2, 2),)]}).save(folder / "bundled.pen")
    torch.jit.script(CLASSIFIER)._save_for_lite_interpreter(str(folder / "zip.ptl"))
    torch.jit.script(CLASSIFIER)._save_for_lite_interpreter(str(folder / "flat.ptl"), _use_flatbuffer=True)
    (folder / "text.pen").write_text("this is no model at all")
    (folder / "empty.pen").touch()
    (folder / "cut.pen").write_bytes((folder / "classifier.pen").read_bytes()[:900])
    return folder


@pytest.fixture(scope="module", params=["plain", pytest.param("asan", marks=pytest.mark.slow)])
def benchmark(request: pytest.FixtureRequest, models: Path) -> Call:
    program = speed_benchmark(request.param)

    def call(model: str, *flags: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
        given = [f"--model={models / model}"] if model else []
        return native.run([program, *given, *map(str, flags)], expect=expect)

    return call


def printed(done: subprocess.CompletedProcess[str]) -> list[list[float]]:
    """Rows of numbers before the benchmark begins."""
    lines = done.stdout.partition("Starting benchmark.")[0].splitlines()
    return [[float(x) for x in line.split()] for line in lines if re.fullmatch(r"[-\d. e+infa]+", line)]


def test_lines(benchmark: Call) -> None:
    lines = benchmark("classifier.pen", *IMAGE, "--warmup", 2, "--iter", 7).stdout.splitlines()
    assert lines[:3] == ["Starting benchmark.", "Running warmup runs.", "Main runs."]
    found = LAST.fullmatch(lines[3])
    assert found, lines[3]
    mean, rate = map(float, found.groups())
    assert (found[1], found[2]) == (f"{mean:g}", f"{rate:g}")  # as an ostream writes them
    assert mean * rate == pytest.approx(1e6, rel=2e-5)
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(OURS, lines[4:], strict=True)), lines[4:]
    assert "of 7 runs" in lines[5]


@pytest.mark.parametrize(
    "flags",
    [
        "--input_dims=1,3,32,32 --input_type=float",
        "--input_dim 1,3,32,32 --input_type float --print_output=false",
        "--input_dims 1,3,32,32 --input_type float --input_memory_format contiguous_format --no_inputs False",
        "--input_dims 1,3,32,32 --input_type f32 --input_memory_format=channels_last --use_bundled_input=-1",
        "--input_dims 1,3,32,32 --vulkan false --use_caching_allocator true --threads 2 --isa base",
        "",
    ],
)
def test_inputs_are_ones(benchmark: Call, flags: str) -> None:
    done = benchmark("classifier.pen", *flags.split(), "--print_output", "--iter=1")
    np.testing.assert_allclose(printed(done), CLASSIFIER(torch.ones(1, 3, 32, 32)).detach(), rtol=2e-4, atol=1e-5)
    assert ("changes nothing" in done.stderr) == ("caching" in flags)


@pytest.mark.parametrize("flags", [["--input_type", "float;int64;uint8_t"], []])
def test_several_inputs(benchmark: Call, flags: list[str]) -> None:
    done = benchmark("several.pen", "--input_dims", "2,3;2,3;4", *flags, "--print_output")
    assert printed(done) == [[4, 4, 4], [4, 4, 4], [7, 7, 7, 7]]
    assert "f32 [2, 3]\n" in done.stdout
    assert "i64 [4]\n" in done.stdout


def test_free_sizes(benchmark: Call) -> None:
    done = benchmark(
        "free.pen", "--input_dims", "3,3,16,24", "--print_output", "--input_memory_format", "channels_last"
    )
    want = CLASSIFIER(torch.ones(3, 3, 16, 24)).detach()
    np.testing.assert_allclose(printed(done), want, rtol=2e-4, atol=1e-5)
    assert "Size 0 of input" in benchmark("free.pen", expect=1).stderr


def test_no_inputs_and_lengths(benchmark: Call) -> None:
    assert printed(benchmark("nothing.pen", "--no_inputs", "--print_output")) == [[4.5, 4.5]]
    for flags in (["--input_dims", "4", "--input_type", "float"], []):
        assert printed(benchmark("lengths.pen", *flags, "--pytext_len", 9, "--print_output")) == [[10, 10, 10, 10]]


@pytest.mark.parametrize("index", [0, 1])
def test_bundled_inputs(benchmark: Call, models: Path, index: int) -> None:
    done = benchmark("classifier.pen", "--use_bundled_input", index, "--print_output")
    (given,) = penlight.load(models / "classifier.pen").bundled_inputs()[index].args
    np.testing.assert_allclose(printed(done), CLASSIFIER(torch.from_numpy(given)).detach(), rtol=2e-4, atol=1e-5)


def test_bundled_containers(benchmark: Call) -> None:
    assert printed(benchmark("nested.pen", "--use_bundled_input=0", "--print_output")) == [[731] * 3] * 2


def test_interpreted(benchmark: Call) -> None:
    done = benchmark("script.pen", "--input_dims", "2,3;3", "--print_output", "--profile")
    assert printed(done)[:2] == [[3, 3, 3], [3, 3, 3]]
    assert done.stdout.startswith(
        "tuple of 3:\nf32 [2, 3]\n3 3 3\n3 3 3\ndict of 1:\nrank\n2\ndone\nStarting benchmark.\n"
    )
    assert "The method is interpreted" in done.stdout
    done = benchmark("script.pen", "--input_dims", "2,2", "--method", "other", "--print_output")
    assert done.stdout.startswith("list of 2:\n4\n0.5\nStarting")
    assert printed(benchmark("bundled.pen", "--use_bundled_input", 0, "--print_output"))[:2] == [[2, 2], [2, 2]]


def test_pep_and_quantiles(benchmark: Call, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    done = benchmark(
        "classifier.pen", "--warmup=1", "--iter=40", "--report_pep", "--json", file, "--threads=1", "--profile"
    )
    pep = r'PyTorchObserver {"type": "NET", "unit": "us", "metric": "latency", "value": "(\d+)"}'
    lines = done.stdout.splitlines()
    times = np.array([int(m[1]) for m in (re.fullmatch(pep, line) for line in lines[3:43]) if m])
    assert len(times) == 40
    last = LAST.fullmatch(lines[43])
    found = json.loads(file.read_text())
    assert last
    assert float(last[1]) == pytest.approx(1e6 * found["mean_s"], rel=1e-5)
    for name, q in {"min_s": 0, "p50_s": 0.5, "p90_s": 0.9, "p99_s": 0.99}.items():
        assert 0 <= 1e6 * found[name] - np.quantile(times, q) <= 1, name  # the lines have whole microseconds
    assert (found["runs"], found["warmup"], found["threads"], found["interpreted"]) == (40, 1, 1, False)
    assert found["inputs"] == [{"dtype": "f32", "dims": [1, 3, 32, 32]}]
    assert found["load_s"] > 0
    assert found["first_run_s"] >= found["min_s"]
    assert found["peak_bytes"] > found["arena_bytes"] > 0
    keys = [s["key"].partition(".")[0] for s in found["steps"]]
    assert keys == ["conv2d", "mean", "reshape", "linear"]
    assert found["steps"][0]["inputs"][0] == [[1, 3, 32, 32], 12288, 0]
    assert found["steps"][0]["outputs"] == [[[1, 8, 16, 16], 8192, 0]]
    table = [line.split() for line in done.stdout.partition("Operator ")[2].splitlines()[1:]]
    assert {row[0].partition(".")[0] for row in table} == {"conv2d", "mean", "linear", "all"}  # views take no time
    assert sum(float(row[-1][:-1]) for row in table[:-1]) == pytest.approx(100, abs=0.3)


def test_json_alone_on_stdout(benchmark: Call) -> None:
    done = benchmark("bundled.pen", "--use_bundled_input", 0, "--json", "-", "--seconds", 0.01)
    found = json.loads(done.stdout)
    assert found["runs"] >= 5
    assert found["interpreted"] is True
    assert "Main run finished." in done.stderr


def test_no_timed_run(benchmark: Call) -> None:
    done = benchmark("classifier.pen", "--iter", 0, "--json", "-")
    assert "Microseconds per iter: inf. Iters per second: 0\n" in done.stderr
    assert "min_s" not in json.loads(done.stdout)


def test_help_names_every_flag(benchmark: Call) -> None:
    text = benchmark("", "--help").stdout
    original = "model input_dims input_type input_memory_format no_inputs use_bundled_input use_caching_allocator print_output warmup iter report_pep pytext_len vulkan"
    for name in [*original.split(), "threads", "method", "isa", "json", "profile", "seconds"]:
        assert f"  --{name} " in text


@pytest.mark.parametrize(
    ("model", "flags", "words"),
    [
        ("", [], "--model is missing"),
        ("gone.pen", [], "No such file"),
        ("text.pen", [], "expected a .pen file"),
        ("empty.pen", [], "expected a .pen file"),
        ("cut.pen", [], "expected"),
        ("zip.ptl", [], "convert it with penlight optimize"),
        ("flat.ptl", [], "convert it with penlight optimize"),
        ("classifier.pen", ["--device=metal"], "expected one that this library has: cpu"),
        ("classifier.pen", ["--vulkan", "--device=cpu"], "one of them is too many"),
        ("classifier.pen", ["--speed", "9"], "there is no flag --speed"),
        ("classifier.pen", ["fast"], "expected --name=value"),
        ("classifier.pen", ["--iter"], "--iter: its value is missing"),
        ("classifier.pen", ["--iter=ten"], "--iter: expected a whole number, got 'ten'"),
        ("classifier.pen", ["--iter=99999999999999999999"], "--iter: expected a whole number"),
        ("classifier.pen", ["--iter=-1"], "Number of main runs should be non negative, provided -1."),
        ("classifier.pen", ["--warmup=-2"], "Number of warm up runs should be non negative, provided -2."),
        ("classifier.pen", ["--print_output=maybe"], "expected true or false, got 'maybe'"),
        ("classifier.pen", ["--threads=-1"], "--threads: expected 0"),
        ("classifier.pen", ["--seconds=nan"], "--seconds"),
        ("classifier.pen", ["--isa=z80"], "z80"),
        ("classifier.pen", ["--method=backward"], "no method 'backward'; it has forward"),
        ("script.pen", ["--method=backward"], "it has forward, other"),
        ("classifier.pen", ["--input_dims=1,3,32,x", "--input_type=float"], "expected sizes of 0 or more between commas"),
        ("classifier.pen", ["--input_dims=1,-3,32,32"], "expected sizes of 0 or more"),
        ("classifier.pen", ["--input_dims=1,1,1,1,1,1,1,1,1"], "at most 8 sizes"),
        ("classifier.pen", ["--input_dims=1,3,33,32"], "33"),
        ("classifier.pen", ["--input_dims=1,3,32"], "rank"),
        ("classifier.pen", ["--input_dims=9999999999,9999999999,3,3"], "too large"),
        ("classifier.pen", ["--input_dims=0,9999999999999,9999999999999,9", "--input_memory_format=channels_last"], "expected"),
        ("classifier.pen", ["--input_dims=1,3,32,32", "--input_type=int64"], "i64"),
        ("classifier.pen", ["--input_dims=1,3,32,32", "--input_type=double"], "Unsupported input type: double"),
        ("classifier.pen", ["--input_dims=1,3,32,32;2", "--input_type=float;float"], "takes 1 inputs, got 2"),
        ("classifier.pen", ["--no_inputs"], "takes 1 inputs, got 0"),
        ("classifier.pen", ["--input_dims=" + ";".join(["1"] * 65)], "at most 64 inputs"),
        ("several.pen", ["--input_dims=2,3;2,3;4", "--input_type=float"], "Input dims and type should have the same number of items."),
        ("several.pen", ["--input_dims=2,3;2,3;4", "--input_memory_format=contiguous_format"],
         "Input dims and format should have the same number of items."),
        ("several.pen", ["--input_dims=2,3;2,3;4", "--input_memory_format=channels_last;contiguous_format;contiguous_format"],
         "channels_last memory format only available on 4D tensors!"),
        ("classifier.pen", ["--input_dims=1,3,32,32", "--input_memory_format=nhwc"], "Unsupported input memory format: nhwc"),
        ("script.pen", [], "Input dims must be specified."),
        ("script.pen", ["--no_inputs"], "x"),
        ("script.pen", ["--input_dims=1;1;1"], "3"),
        ("several.pen", ["--use_bundled_input=0"],
         "Model does not have bundled inputs.  Before saving,\nuse torch.utils.bundled_inputs.augment_model_with_bundled_inputs.\n"),
        ("classifier.pen", ["--use_bundled_input=2"], "Model has only 2 bundled inputs.\n"),
        ("bundled.pen", ["--use_bundled_input=1"], "Model has only 1 bundled inputs.\n"),
        ("classifier.pen", ["--json=/no/such/folder/x.json"], "--json /no/such/folder/x.json: the file cannot be written"),
        ("classifier.pen", ["--json=/dev/full"], "No space left"),
    ],
)  # fmt: skip
def test_errors(benchmark: Call, model: str, flags: list[str], words: str) -> None:
    done = benchmark(model, *flags, expect=1)
    assert words in done.stderr
    assert done.stderr.startswith(words if words.startswith("Model ") else "error: ")


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        ("plain", "no method 'forward'; it has none (planned methods, that is: this build has no interpreter)"),
        pytest.param("tsan", "needs 1 more: the VM", marks=pytest.mark.slow),  # its library has none indeed
    ],
)
def test_without_vm(models: Path, kind: str, refusal: str) -> None:
    """A library without VM has no functions for values and modules: planned methods run all the same."""
    program = speed_benchmark(kind, with_vm=False)
    done = native.run([program, "--model", models / "classifier.pen", "--print_output", "--profile", "--json", "-"])
    assert json.loads(done.stdout)["runs"] == 10
    for model, flag, words in (
        ("script.pen", "--input_dims=2,3", refusal),
        ("classifier.pen", "--use_bundled_input=0", "this build has no interpreter"),
    ):
        assert words in native.run([program, "--model", models / model, flag], expect=1).stderr


@pytest.mark.parametrize("target", ["aarch64-linux-android21", "i686-linux-android21", "arm64-apple-ios13.0"])
def test_compiles_without_any_headers(target: str, tmp_path: Path) -> None:
    """What it takes from its platform is declared in platform.h and text.h; what it takes of the VM is in one file."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the ziglang package is not installed")
    import ziglang

    zig = Path(ziglang.__file__).parent
    text = (program_sources()[0].parent / "text.h").read_text()
    allowed = declared() | {"realloc", "write", "qsort", "memset"}
    assert all(f" {name}(" in text or name in declared() for name in allowed)
    for source in {*program_sources(), *program_sources(with_vm=False)}:
        made = tmp_path / f"{source.stem}.o"
        command = [zig / "zig", "clang", f"--target={target}", "-std=c++17", "-Os", "-ffreestanding", "-nostdlibinc", "-isystem",
                   zig / "lib/include", *native.WARNINGS, "-fno-exceptions", "-fno-rtti", f"-I{native.ROOT}", "-c", source, "-o", made]  # fmt: skip
        native.run(command)
        if shutil.which("nm") is None or "android" not in target:
            continue
        listed = native.run(["nm", "-u", made]).stdout.split()[1::2]
        names = {name for name in listed if not name.startswith(("_ZN9benchmark", "_GLOBAL_OFFSET"))}
        of_runtime = {name for name in names if name.startswith("pen_")}
        assert names - of_runtime <= allowed, source.name
        if source.name != "interpreted.cc":
            vm = {n for n in of_runtime if re.match(r"pen_(value|module|bundle|model_(function|bundle|missing))", n)}
            assert not vm, source.name
        if source.name == "main.cc":
            assert " T main\n" in native.run(["nm", made]).stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", native.TARGETS)
def test_on_arm(target: str, models: Path) -> None:
    program = speed_benchmark(target)
    command = [*native.emulated(target, program), "--print_output", "--json", "-", "--iter", "3", "--profile"]
    done = native.run([*command, "--model", models / "classifier.pen"])
    assert json.loads(done.stdout)["peak_bytes"] > 0
    values = next(line for line in done.stderr.splitlines() if line.count(" ") == 5)
    want = CLASSIFIER(torch.ones(1, 3, 32, 32)).detach().numpy().ravel()
    np.testing.assert_allclose([float(v) for v in values.split()], want, rtol=2e-4, atol=1e-5)
    done = native.run([*command, "--model", models / "bundled.pen", "--use_bundled_input", "0"])
    assert json.loads(done.stdout)["interpreted"] is True
