"""The `penlight` command: which commands there are, and how they fail.

An error that a user can do something about is told in words on stderr, without a traceback: exit code 2 if the command
was called wrongly, 1 for all else. `--debug`, which every command takes, shows the traceback too.
"""

from __future__ import annotations

import faulthandler
import io
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

import penlight
from penlight.build.generate import BINDINGS
from penlight.errors import BuildError
from penlight.tools.bench import bench_command
from penlight.tools.build import build_command
from penlight.tools.compare import compare_command
from penlight.tools.doctor import doctor_command
from penlight.tools.inspect import inspect_command
from penlight.tools.lint import lint_command
from penlight.tools.optimize import optimize_command
from penlight.tools.quantize import quantize_command
from penlight.tools.run import run_command
from penlight.tools.screen import error_screen
from penlight.tools.serve import serve_command
from penlight.tools.trace import trace_command


class Commands(click.Group):
    """A group whose commands all take --debug."""

    def add_command(self, command: click.Command, name: str | None = None) -> None:
        command.params.append(
            click.Option(
                ["--debug"], is_flag=True, expose_value=False, callback=_remember, help="Show a traceback if it fails."
            )
        )
        super().add_command(command, name)


_debug = False


def _remember(context: click.Context, option: click.Parameter, value: bool) -> None:
    global _debug
    _debug = _debug or value


@click.group(
    cls=Commands,
    invoke_without_command=True,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(penlight.__version__, prog_name="penlight")
@click.option("--cflags", is_flag=True, help="What a C or C++ compiler needs to find penlight.h and penlight.hpp.")
@click.option("--torch", is_flag=True, help="With --cflags: PyTorch's C++ names over Penlight too, <torch/script.h>.")
@click.option("--libs", is_flag=True, help="What its linker needs to find this package's libpenlight.")
@click.option(
    "--cmake-dir", is_flag=True, help="What CMake needs to find this package: -Dpenlight_DIR=$(penlight --cmake-dir)."
)
@click.pass_context
def cli(context: click.Context, cflags: bool, torch: bool, libs: bool, cmake_dir: bool) -> None:
    """Penlight, a pocket-size torch: makes PyTorch models small and fast, and runs them.

    \b
    penlight optimize mobilenet_v2.pt --shape 1,3,224,224 --imagenet   a model becomes a .pen file
    penlight quantize mobilenet_v2.pt --images photos/ --imagenet      one that computes in integers: a quarter of the size
    penlight run mobilenet_v2.pen photo.jpg                            what is in the picture
    penlight inspect mobilenet_v2.pen                                  what is in the file
    penlight bench mobilenet_v2.pen --profile                          how fast it is here, and where the time goes
    penlight bench mobilenet_v2.pen --adb                              how fast it is on the phone that is connected
    penlight lint mobilenet_v2.pt --backend vulkan                     what to mend before it goes to a phone
    penlight trace mobilenet_v2.pen -o ops.yaml                        what it uses of the library
    penlight build --model mobilenet_v2.pen --target android           a library with just what it needs
    penlight serve mobilenet_v2.pen --open                             try it in a phone's browser
    penlight compare mobilenet_v2.pen --devices cpu,vulkan --layers    whether a GPU computes the same
    penlight doctor                                                    what this machine has, and what to install
    """
    if cmake_dir:
        click.echo(BINDINGS / "cpp/cmake")
        context.exit()
    if cflags or libs:
        click.echo(" ".join(compiler_words(cflags, libs, torch)))
        context.exit()
    if context.invoked_subcommand is None:
        raise click.UsageError("Missing command.", context)


def compiler_words(cflags: bool, libs: bool, torch: bool = False) -> list[str]:
    """For `cc app.c $(penlight --cflags --libs)`."""
    home = Path(penlight.__file__).resolve().parent
    folders = [home / "runtime/include", BINDINGS / "cpp/include", *([BINDINGS / "cpp/compat"] if torch else [])]
    words = [f"-I{folder}" for folder in folders] if cflags else []
    if libs:
        folder = home / "lib"
        windows = (folder / "penlight.lib").exists()
        if not windows and not any(folder.glob("libpenlight.*")):
            raise BuildError(
                f"{folder}: expected libpenlight, which an installed package has, found none;"
                " in a checkout, `penlight build --all --target host` makes one"
            )
        words += [f"-L{folder}", "-lpenlight", *([] if windows else [f"-Wl,-rpath,{folder}"])]
    return [shlex.quote(word) for word in words]


for _command in (
    optimize_command,
    quantize_command,
    run_command,
    inspect_command,
    bench_command,
    lint_command,
    trace_command,
    build_command,
    serve_command,
    compare_command,
    doctor_command,
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits."""
    global _debug
    _debug = False
    _open_streams()
    if not faulthandler.is_enabled():  # where torch, or a driver, ends the process: what ran then, instead of nothing
        faulthandler.enable(sys.stderr, all_threads=False)
    for stream in (sys.stdout, sys.stderr):  # names in a file may be anything: better odd letters than none
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(
            args=list(arguments) if arguments is not None else None, prog_name="penlight", standalone_mode=False
        )
    except BaseException as e:
        code = _explain(e)
    sys.exit(code if isinstance(code, int) else 0)


def _open_streams() -> None:
    """Where who started us closed them (`2>&-`): what is shown goes nowhere, and no file gets their numbers, which libraries write to."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (until the process ends)


def _explain(error: BaseException) -> int:
    """Tells what went wrong on stderr and returns the exit code."""
    if isinstance(error, (SystemExit, click.exceptions.Exit)):
        code = error.code if isinstance(error, SystemExit) else error.exit_code
        return code if isinstance(code, int) else 1
    if isinstance(error, BrokenPipeError):  # `penlight inspect … | head`: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    screen = error_screen()
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        screen.print("stopped")
        return 130
    if _debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.UsageError):
        told = io.StringIO()
        error.show(told)
        screen.print(told.getvalue(), end="")  # not by click, which writes names of a file as they are
        return error.exit_code
    expected = isinstance(error, (penlight.PenlightError, click.ClickException, OSError))
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        expected, text = True, "this command needs PyTorch: pip install torch"
    elif isinstance(error, ImportError) and "_runtime" in str(error):
        expected, text = (
            True,
            "the compiled runtime is not there: install the package (pip install .), or run ./dev build in a checkout",
        )
    if isinstance(error, MemoryError):
        expected, text = True, f"out of memory: {text}" if text else "out of memory"
    screen.print("error:", style="bold red", end=" ")
    if expected:
        screen.print(text)
        return 2 if isinstance(error, penlight.ArgumentError) else 1
    screen.print(f"{type(error).__name__}: {text}")
    screen.print("This is a fault of Penlight, or of a library below it; --debug shows where.", style="dim")
    return 1
